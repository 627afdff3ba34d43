"""Elasticities: those that must be one, those that must add up, and curves through the answer itself."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from rackmath.api.estimate import run_estimate
from rackmath.api.estimate_request import EstimateRequest
from rackmath.api.explore import changed, outcomes, run_curve, run_elasticities
from rackmath.api.memory import MemoryRequest
from rackmath.api.price_page import PageRequest
from rackmath.cli.app import cli
from rackmath.cli.options import request_of_words
from rackmath.errors import InputError
from rackmath.models.config.changes import NAMES

BOUND = EstimateRequest(model="llama-3.1-8b", on="h100-sxm", gpus=1, batch=64, context=2000, ideal=True)


def elasticities(request: Any) -> dict[str, dict[str, Any]]:
    return {row["number"]: row for row in run_elasticities(request).facts["elasticities"]}


def test_time_at_the_bound_is_work_over_rates() -> None:
    """A time is bytes over bytes per second and FLOPs over FLOPs per second: its elasticities to both add up to -1."""
    rows = elasticities(BOUND)
    total = rows["bandwidth"]["time of a step"] + rows["flops"]["time of a step"]
    assert total == pytest.approx(-1, abs=1e-6)
    assert rows["price"]["$ per M tokens"] == pytest.approx(1)
    assert rows["price"]["time of a step"] == 0
    assert rows["memory"]["time of a step"] == 0
    for row in rows.values():
        if row["tokens/s per accelerator"] is not None:
            assert row["tokens/s per accelerator"] == pytest.approx(-row["time of a step"], abs=1e-6)


def test_the_strongest_stand_first() -> None:
    strengths = [
        max(abs(value) for name, value in row.items() if name != "number" and value is not None)
        for row in run_elasticities(BOUND).facts["elasticities"]
    ]
    assert strengths == sorted(strengths, reverse=True)


def test_only_numbers_that_the_model_has() -> None:
    rows = elasticities(BOUND)
    assert "model.layers" in rows
    assert "model.experts" not in rows
    assert {key for key in rows if key.startswith("model.")} <= {f"model.{name}" for name in NAMES}


@pytest.mark.parametrize(
    "words",
    [
        "estimate llama-3.1-8b --on h100-sxm --gpus 1 --batch 8 --context 2000",
        "plan llama-3.1-8b --on h100-sxm --gpus 2 --input 1000 --output 100 --tpot 0.02",
        "train llama-3.1-8b --on h100-sxm --gpus 64 --tokens 1T",
        "memory llama-3.1-8b --on h100-sxm --gpus 1",
    ],
)
def test_all_outcomes_of_every_command_are_numbers_of_its_answer(words: str) -> None:
    """A price follows no other number than the dollars, where there are any."""
    result = CliRunner().invoke(cli, ["explore", *words.split(), "--json"], catch_exceptions=False)
    facts = json.loads(result.stdout)
    assert facts["outcomes"]
    assert all(value is not None and value > 0 for value in facts["outcomes"].values())
    by_price = next(row for row in facts["elasticities"] if row["number"] == "price")
    for name in facts["outcomes"]:
        assert by_price[name] == pytest.approx(1.0 if "$" in name else 0.0, abs=1e-5), name


def test_a_row_says_where_another_deployment_is_best() -> None:
    """A price changes no choice; a model twice as deep needs more cards or another layout."""
    words = "plan llama-3.1-70b --on h100-sxm --gpus 8 --input 1000 --output 300"
    rows = elasticities(request_of_words(words.split()))
    assert not rows["price"]["another_deployment"]
    assert rows["model.layers"]["another_deployment"]
    words = "estimate llama-3.1-8b --on h100-sxm --gpus 2 --layout tp2,ep1,pp1,dp1 --batch 8 --context 2k"
    fixed = request_of_words(words.split())
    assert not any(row["another_deployment"] for row in elasticities(fixed).values())


def test_a_plan_that_keeps_no_limit_has_no_outcomes() -> None:
    request = request_of_words(
        ["plan", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "1", "--input", "1k", "--output", "100", "--tpot", "1us"]
    )
    assert set(outcomes(request).values()) == {None}


def test_a_search_for_the_fewest_accelerators_is_not_followed() -> None:
    words = "plan llama-3.1-8b --on h100-sxm --rate 5 --input 500 --output 50 --ttft-p99 1s"
    refused = CliRunner().invoke(cli, ["explore", *words.split()])
    assert isinstance(refused.exception, InputError)
    assert "--gpus" in str(refused.exception)


def test_a_curve_goes_through_the_answer() -> None:
    points = run_curve(BOUND, "bandwidth=1x..4x").facts["points"]
    assert points[0]["time of a step"] == pytest.approx(run_estimate(BOUND).time)
    times = [point["time of a step"] for point in points]
    assert times == sorted(times, reverse=True)
    assert times[-1] == pytest.approx(outcomes(changed(BOUND, "bandwidth", "4x"))["time of a step"])
    sizes = run_curve(MemoryRequest(model="llama-3.1-8b", on="h100-sxm"), "memory=80GB..160GB").facts["points"]
    assert sizes[-1]["tokens of cache"] > 2 * sizes[0]["tokens of cache"]


def test_pictures_have_a_bar_for_each_number_and_a_point_for_each_value() -> None:
    elasticities = run_elasticities(BOUND)
    panels = elasticities.picture().panels
    assert [panel.title for panel in panels] == list(elasticities.facts["outcomes"])
    for panel in panels:
        (bars,) = panel.series
        strengths = np.abs(np.asarray(bars.y))
        # Each outcome has its own order, and no bar for what it does not follow.
        assert np.all(strengths[:-1] >= strengths[1:])
        assert strengths[-1] > 0
        assert len(bars.x) == min(12, sum(bool(row[panel.title]) for row in elasticities.facts["elasticities"]))
    assert len(run_curve(BOUND, "flops=1x..2x").picture().panels[0].series[0].x) == 13


@pytest.mark.parametrize(
    "over", ["bandwidth", "bandwidth=2x", "bandwidth=4x..1x", "bandwidth=1x..4", "colour=1x..2x", "=1x..2x"]
)
def test_bad_ranges_are_refused(over: str) -> None:
    with pytest.raises(InputError):
        run_curve(BOUND, over)


def test_what_is_not_followed_is_refused() -> None:
    with pytest.raises(InputError, match="explore one of"):
        outcomes(PageRequest())


def test_a_command_line_is_read_as_its_command_reads_it() -> None:
    words = [
        "estimate",
        "llama-3.1-8b",
        "--on",
        "h100-sxm",
        "--gpus",
        "1",
        "--batch",
        "64",
        "--context",
        "2k",
        "--ideal",
    ]
    assert request_of_words(words) == BOUND
    assert request_of_words([*words, "--set", "bandwidth=2x"]) == changed(BOUND, "bandwidth", "2x")


@pytest.mark.parametrize("command", ["", "fly", "estimate 'llama", "models", "estimate llama-3.1-8b"])
def test_bad_commands_are_refused(command: str) -> None:
    result = CliRunner().invoke(cli, ["explore", command])
    assert result.exit_code != 0
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("train llama-3.1-8b --on h100-sxm --gpus 8 --tokens 1T", "TrainRequest"),
        ("train run llama-3.1-8b --on h100-sxm --gpus 8 --tokens 1T", "TrainRequest"),
        ("memory llama-3.1-8b --on h100-sxm", "MemoryRequest"),
        ("plan llama-3.1-8b --on h100-sxm --gpus 1 --input 1k --output 100", "PlanRequest"),
    ],
)
def test_commands_of_groups_are_read_as_well(words: str, kind: str) -> None:
    assert type(request_of_words(words.split())).__name__ == kind


def test_days_of_training_fall_with_the_rate() -> None:
    request = request_of_words(
        ["train", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "8", "--tokens", "1T", "--ideal"]
    )
    rows = elasticities(request)
    assert -1.001 <= rows["flops"]["days"] < 0
    assert rows["model.layers"]["days"] > 0.5
