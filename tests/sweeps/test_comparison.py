"""The question that compares, from Python and from the command line."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import rackmath as rm
from rackmath.cli.app import cli
from rackmath.errors import InputError
from rackmath.sweeps.comparison import CompareRequest, cases_of, run_compare

ASKED = {"models": "llama-3.1-8b", "on": "h100-sxm,a100-sxm", "gpus": 1, "input": 500, "output": 100, "weights": "bf16"}


def compared(*words: str) -> list[dict[str, object]]:
    result = CliRunner().invoke(cli, ["compare", *words, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_row_for_every_combination() -> None:
    r = CompareRequest(**ASKED, engine="vllm,sglang", layout="tp1;tp2", sweep=("output=50,100,200",))
    assert len(cases_of(r)) == 2 * 2 * 2 * 3
    assert r.keys["output"] == [50, 100, 200]


def test_a_row_is_the_plan_of_its_system() -> None:
    rows = run_compare(CompareRequest(**ASKED)).facts
    for row in rows:
        best = rm.answer(
            rm.PlanRequest(
                model=row["model"], on=row["on"], gpus=1, input=500, output=100, weights="bf16", tpot=1 / 50,
            )
        ).to_dict()["best"]  # fmt: skip
        assert row["usd_per_million_at_speed"] == pytest.approx(best["usd_per_million_output_tokens"], rel=1e-6)


def test_a_row_tries_the_formats_of_the_cache_that_are_named() -> None:
    """A cache of half the width holds more users: each row's best is no worse for a choice of both."""
    wide, narrow, both = (
        [row["tokens_per_second_per_gpu_at_speed"] for row in run_compare(CompareRequest(**ASKED, kv=kv)).facts]
        for kv in ("bf16", "fp8", "bf16,fp8")
    )
    assert wide != narrow
    assert both == pytest.approx([max(pair) for pair in zip(wide, narrow, strict=True)], rel=1e-9)


def test_changes_are_made_to_every_name_of_a_list() -> None:
    words = ["llama-3.1-8b,qwen3-8b", "--on", "h100-sxm,a100-sxm", "--gpus", "1", "--input", "500", "--output", "100",
             "--weights", "bf16"]  # fmt: skip
    plain = compared(*words)
    fast = compared(*words, "--set", "bandwidth=2x")
    assert {row["on"] for row in fast} == {"h100-sxm[bandwidth=2x]", "a100-sxm[bandwidth=2x]"}
    assert all(new["fastest"] > old["fastest"] for new, old in zip(fast, plain, strict=True))
    thin = compared(*words, "--set", "model.layers=8")
    assert {row["model"] for row in thin} == {"llama-3.1-8b[layers=8]", "qwen3-8b[layers=8]"}
    assert all(new["fastest"] > old["fastest"] for new, old in zip(thin, plain, strict=True))


def test_prices_are_an_axis_or_go_by_system() -> None:
    def cases(price: object) -> list[tuple[str, float | None]]:
        return [(c["on"], c["usd-per-gpu-hour"]) for c in cases_of(CompareRequest(**ASKED, usd_per_gpu_hour=price))]

    assert cases(None) == [("h100-sxm", None), ("a100-sxm", None)]
    assert cases(2.5) == [("h100-sxm", 2.5), ("a100-sxm", 2.5)]
    assert cases("2,3") == [("h100-sxm", 2), ("h100-sxm", 3), ("a100-sxm", 2), ("a100-sxm", 3)]
    assert cases("a100-sxm=1.5") == [("h100-sxm", None), ("a100-sxm", 1.5)]
    changed = CompareRequest(**(ASKED | {"on": "a100-sxm[bandwidth=2x]"}), usd_per_gpu_hour="a100-sxm=1.5")
    assert [c["usd-per-gpu-hour"] for c in cases_of(changed)] == [1.5]
    for wrong in ("l4=1", "cheap", "a100-sxm=", "-1"):
        with pytest.raises(InputError, match="--usd-per-gpu-hour"):
            cases(wrong)


def test_emissions_are_those_of_the_energy() -> None:
    """400 g per kWh, and 3.6 MJ in a kWh: a joule per token is 111.1 g per million tokens."""
    for row in run_compare(CompareRequest(**ASKED, grid=400.0)).facts:
        assert row["grams_co2_per_million_at_speed"] == pytest.approx(row["joules_per_token_at_speed"] * 1e6 / 9000)


def test_a_bar_says_all_that_differs() -> None:
    figure = run_compare(CompareRequest(**(ASKED | {"on": "h100-sxm"}), engine="vllm,sglang")).picture()
    bars = figure.panels[0].series[0].x
    assert len(set(bars)) == len(bars) == 2


def test_what_cannot_be_compared_is_refused() -> None:
    for field, value in (("speed", 0), ("cost", -1), ("gpus", 0), ("basis", "nobody"), ("engine", "nobody")):
        with pytest.raises(InputError, match=f"--{field}"):
            cases_of(CompareRequest(**(ASKED | {field: value})))
    with pytest.raises(InputError, match="split it"):
        cases_of(CompareRequest(**ASKED, sweep=("input=" + ",".join(map(str, range(1, 50_002))),)))
