"""Energy beside dollars: of accelerators, between what they take idle and what they may take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from rackmath.api.agent import AgentRequest, run_agent
from rackmath.api.cache import CacheRequest, run_cache
from rackmath.api.context import ContextRequest, run_context
from rackmath.api.energy import energy_of_tokens
from rackmath.api.rl import RlRequest, run_rl
from rackmath.caching.tiers import RECOMPUTE
from rackmath.cli.app import cli
from rackmath.hardware.power import power_of
from rackmath.io import catalogue

H100 = catalogue.system("h100-sxm").chip


def within(joules: float, seconds: float) -> bool:
    """Whether an energy is that of an accelerator at some load."""
    idle = power_of(H100, 0.0, 0.0)
    assert idle is not None
    return idle.value * seconds <= joules <= H100.power * seconds


def test_energy_of_many_points_is_that_of_each() -> None:
    seconds, memory, compute = np.array([1e-3, 2e-3, np.nan]), np.array([8e-4, 1e-3, np.nan]), np.array([1e-4, 2e-3, 1])
    joules = energy_of_tokens(seconds, memory, compute, H100)
    assert joules is not None
    for at in (0, 1):
        power = power_of(H100, memory[at] / seconds[at], compute[at] / seconds[at])
        assert power is not None
        assert joules[at] == pytest.approx(power.value * seconds[at])
    assert np.isnan(joules[2])


def test_a_token_takes_more_energy_the_more_it_sees() -> None:
    (facts,) = run_context(ContextRequest(models="llama-3.1-8b", on="h100-sxm", gpus=1, to=1e5)).facts
    joules, seconds = facts["joules_per_token"], facts["cost"] / (1e6 * catalogue.system("h100-sxm").price)
    assert np.all(np.diff(joules) > 0)
    assert all(within(j, s) for j, s in zip(joules, seconds, strict=True))


def test_a_loop_takes_the_power_of_all_its_accelerators() -> None:
    asked: dict[str, Any] = {"model": "llama-3.1-8b", "on": "h100-sxm", "gpus": 64, "rollouts": 512.0, "answer": 2000.0}
    facts = run_rl(RlRequest(**asked, steps=10, grid=400)).facts
    energy, seconds = facts["energy"], 3600 * facts["gpu_hours"]
    assert within(3.6e6 * energy["kwh"], seconds)
    assert energy["kwh"] == pytest.approx(energy["power_per_gpu"] * seconds / 3.6e6)
    assert energy["kg_co2"] == pytest.approx(0.4 * energy["kwh"])
    low, high = energy["kwh_range"]
    assert low < energy["kwh"] < high
    twice = run_rl(RlRequest(**asked, steps=20)).facts["energy"]
    assert twice["kwh"] == pytest.approx(2 * energy["kwh"])
    assert twice["kg_co2"] is None


def test_a_session_on_hardware_of_one_s_own() -> None:
    own = run_agent(
        AgentRequest(model="gpt-5", own="llama-3.1-8b", on="h100-sxm", layout="tp1", batch=4.0, grid=400)
    ).facts["own"]
    assert within(3.6e6 * own["energy"]["kwh"], own["gpu_seconds_per_session"])
    assert own["energy"]["kg_co2"] == pytest.approx(0.4 * own["energy"]["kwh"])


def test_a_token_that_is_computed_again() -> None:
    facts = run_cache(CacheRequest(model="llama-3.1-8b", on="h100-sxm", layout="tp1", grid=400)).facts
    energy = facts["recompute_energy"]
    (again,) = (t for t in facts["tiers"] if t["tier"] == RECOMPUTE)
    assert within(energy["joules_per_token"], again["accelerator_seconds"] / facts["context"])
    assert energy["grams_co2_per_million_tokens"] == pytest.approx(400 * energy["kwh_per_million_tokens"])


@pytest.mark.parametrize(
    "line",
    [
        "lecture context llama-3.1-8b --on h100-sxm --gpus 1 --to 1e5",
        "lecture cache llama-3.1-8b --on h100-sxm --layout tp1",
        "train rl llama-3.1-8b --on h100-sxm --gpus 64 --steps 10",
        "compare llama-3.1-8b --on h100-sxm --gpus 1 --input 500 --output 100 --weights bf16",
        "prices agent gpt-5 --own llama-3.1-8b --on h100-sxm --layout tp1 --batch 4",
        "estimate llama-3.1-8b --on h100-sxm --gpus 1 --batch 8 --context 1k",
        "plan llama-3.1-8b --on h100-sxm --gpus 1 --input 500 --output 100",
        "simulate llama-3.1-8b --on h100-sxm --gpus 1 --poisson 2 --requests 50 --input 100 --output 20",
        "train run llama-3.1-8b --on h100-sxm --gpus 64 --tokens 1T",
    ],
)
def test_every_answer_with_dollars_of_accelerators_has_their_energy(line: str) -> None:
    result = CliRunner().invoke(cli, line.split())
    assert result.exit_code == 0, result.output
    assert "$" in result.output
    assert any(word in result.output for word in ("energy", "J/token")), result.output


def test_a_chip_whose_power_nobody_says_has_no_energy() -> None:
    assert energy_of_tokens(np.ones(1), np.ones(1), np.ones(1), replace(H100, power=None)) is None
