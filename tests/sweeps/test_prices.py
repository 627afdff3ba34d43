"""What a comparison pays: one basis, whole boxes and racks, and a name for what is missing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from rackmath.cli.app import cli
from rackmath.io import catalogue
from rackmath.serving.launch_boxes import rented_together

COMPARE = [
    "compare",
    "llama-3.1-8b",
    "--gpus",
    "8",
    "--input",
    "1000",
    "--output",
    "200",
    "--weights",
    "fp8",
    "--workers",
    "1",
]


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(cli, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def cost(system: str, *more: str) -> float | None:
    (row,) = run(*COMPARE, "--on", system, *more)
    return row["usd_per_million_at_speed"]


def test_a_price_of_another_basis_is_no_cost() -> None:
    assert catalogue.system("gb300-nvl72").price_basis == "blended"
    assert cost("gb300-nvl72") is None
    assert cost("gb300-nvl72", "--basis", "any") is not None
    assert cost("gb300-nvl72", "--basis", "blended") is not None
    assert cost("gb200-nvl72") is not None
    assert cost("mi355x") is None
    text = " ".join(CliRunner().invoke(cli, [*COMPARE, "--on", "gb300-nvl72,mi355x,gb200-nvl72"]).output.split())
    assert "is blended, not on-demand: give --usd-per-gpu-hour" in text
    assert "mi355x: no price is known for this system: give --usd-per-gpu-hour" in text
    assert "published from 6.40 to 12.80" in text


def test_a_price_of_one_s_own_is_that_of_every_system() -> None:
    for system in ("gb300-nvl72", "mi355x"):
        dear, cheap = (cost(system, "--usd-per-gpu-hour", p) for p in ("4", "2"))
        assert dear is not None
        assert cheap is not None
        assert dear == pytest.approx(2 * cheap)


def test_whole_boxes_are_paid_for() -> None:
    asked = ["plan", "qwen3-coder-480b", "--on", "b200-sxm", "--input", "4000", "--output", "1000", "--tpot", "0.02",
             "--weights", "nvfp4", "--usd-per-gpu-hour", "5"]  # fmt: skip
    whole, used = run(*asked, "--gpus", "8"), run(*asked, "--gpus", "8", "--bill-used")
    for facts, box in ((whole, 8), (used, 1)):
        for point in [*facts["frontier"], facts["best"]]:
            assert point["billed_gpus"] == min(-(-point["gpus"] // box) * box, 8)
            tokens = point["tokens_per_second_per_gpu"] * point["gpus"]
            dollars = 5 / 3600 * point["billed_gpus"] / tokens * 1e6
            assert point["usd_per_million_output_tokens"] == pytest.approx(dollars)
    cheaper = used["best"]["usd_per_million_output_tokens"]
    assert whole["best"]["usd_per_million_output_tokens"] >= cheaper * (1 - 1e-12)
    # Nothing that is paid in whole boxes beats the best of them.
    assert whole["best"]["usd_per_million_output_tokens"] == pytest.approx(
        min(p["usd_per_million_output_tokens"] for p in whole["frontier"] if p["time_per_output_token"] <= 0.02)
    )
    assert any("whole boxes of 8" in note for note in whole["assumptions"])


def test_what_is_rented_together() -> None:
    named = {"h100-sxm": 8, "gb200-nvl72": 4, "l40s": 1, "h200-nvl": 4}
    assert {name: rented_together(catalogue.system(name)) for name in named} == named


@pytest.mark.long
def test_a_fleet_has_whole_racks() -> None:
    facts = run(
        "fleet", "deepseek-v3", "--on", "gb200-nvl72", "--gpus", "72", "--input", "4000", "--output", "1000",
        "--tokens-per-second", "1e7", "--one-pool", "--usd-per-gpu-hour", "10",
    )  # fmt: skip
    racks = facts["racks"]["value"]
    assert racks == int(racks)
    assert racks * 72 >= facts["gpus"]["value"] > (racks - 1) * 72
    assert facts["usd_per_million"]["value"] == pytest.approx(racks * 72 * 10 / 3600 / 1e7 * 1e6)
    assert min(facts["hours"]) > 0.3 * max(facts["hours"]) / 2
