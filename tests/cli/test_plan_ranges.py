"""Ranges of a plan: around the value, and never below what the bound allows."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from rackmath.cli.app import cli
from rackmath.engine import Layout, estimate
from rackmath.io import catalogue
from rackmath.models.formats import weight_format
from rackmath.models.requantise import requantise


@pytest.mark.parametrize(
    ("model", "system", "gpus", "more"),
    [
        ("llama-3.1-70b", "h100-sxm", 8, ("--engine", "vllm")),
        ("llama-3.1-70b", "h100-sxm", 8, ("--engine", "sglang", "--cached-prefix", "50%")),
        ("llama-3.1-8b", "h200-sxm", 2, ("--one-pool",)),
    ],
)
def test_no_time_of_a_plan_may_be_below_the_bound(model: str, system: str, gpus: int, more: tuple[str, ...]) -> None:
    words = ["plan", model, "--on", system, "--gpus", str(gpus), "--input", "2k", "--output", "500", "--json", *more]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    cached_tokens = 1000 if "--cached-prefix" in more else 0
    for point in (found["best"], *found["frontier"]):
        for name in ("time_to_first_token", "time_per_output_token", "tokens_per_second_per_user"):
            assert point[f"{name}_low"] <= point[name] <= point[f"{name}_high"]
        widths = re.findall(r"(tp|ep|pp|dp)(\d+)", point["pools"]["read"] if point["pools"] else point["layout"])
        names = {"tp": "tensor", "ep": "expert", "pp": "pipeline", "dp": "data"}
        reading = Layout(**{names[short]: float(width) for short, width in widths})
        architecture = requantise(catalogue.model(model), weight_format(point["weights"]))
        prompt = estimate(
            architecture,
            catalogue.system(system),
            reading,
            batch=1,
            context=2000,
            cached_tokens=cached_tokens,
            phase="prefill",
        )
        assert point["time_to_first_token_low"] >= 0.999 * float(prompt.time)
        fastest = 1 / point["time_per_output_token_low"]
        assert point["tokens_per_second_per_user_high"] == pytest.approx(fastest)


def test_a_plan_of_two_pools_says_both_budgets() -> None:
    """As its launch lines have them: what decodes has a smaller pass than what prefills."""
    words = ["plan", "qwen3-32b", "--on", "rtx-4090", "--gpus", "4", "--input", "2000", "--output", "500"]
    text = CliRunner().invoke(cli, [*words, "--tpot", "0.05", "--ttft", "2", "--no-evidence"]).stdout
    flags = dict(re.findall(r"# (\w+): .*?--max-num-batched-tokens (\d+)", text, re.DOTALL))
    assert f"chunk {flags['prefill']} in prefill and {flags['decode']} in decode" in " ".join(text.split())
    assert int(flags["decode"]) < int(flags["prefill"])
