"""Energy beside dollars: of accelerators, between what they take idle and what they may take."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from rackmath.api.agent import AgentRequest, run_agent
from rackmath.api.budget import BudgetRequest, run_budget
from rackmath.api.cache import CacheRequest, run_cache
from rackmath.api.context import ContextRequest, run_context
from rackmath.api.energy import energy_of_parts, energy_of_run, energy_of_service, energy_of_tokens
from rackmath.api.rl import RlRequest, run_rl
from rackmath.api.token_costs import CostRequest, run_cost
from rackmath.caching.tiers import RECOMPUTE
from rackmath.cli.app import cli
from rackmath.hardware.power import Power, power_of
from rackmath.io import catalogue

H100 = catalogue.system("h100-sxm").chip


def within(joules: float, seconds: float) -> bool:
    """Whether an energy is that of an accelerator at some load."""
    return power(0.0, 0.0).value * seconds <= joules <= H100.power * seconds


def power(bandwidth: float, compute: float) -> Power:
    """Power of an accelerator that uses these parts of its peaks."""
    value = power_of(H100, bandwidth, compute)
    assert value is not None
    return value


def test_energy_of_many_points_is_that_of_each() -> None:
    seconds, memory, compute = np.array([1e-3, 2e-3, np.nan]), np.array([8e-4, 1e-3, np.nan]), np.array([1e-4, 2e-3, 1])
    joules = energy_of_tokens(seconds, memory, compute, H100)
    assert joules is not None
    for at in (0, 1):
        watts = power(memory[at] / seconds[at], compute[at] / seconds[at]).value
        assert joules[at] == pytest.approx(watts * seconds[at])
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
        AgentRequest(model="gpt-5", own_model="llama-3.1-8b", on="h100-sxm", layout="tp1", batch=4.0, grid=400)
    ).facts["own"]
    assert within(3.6e6 * own["energy"]["kwh"], own["gpu_seconds_per_session"])
    assert own["energy"]["kg_co2"] == pytest.approx(0.4 * own["energy"]["kwh"])


def test_a_token_that_is_computed_again() -> None:
    facts = run_cache(CacheRequest(model="llama-3.1-8b", on="h100-sxm", layout="tp1", grid=400)).facts
    energy = facts["recompute_energy"]
    (again,) = (t for t in facts["tiers"] if t["tier"] == RECOMPUTE)
    assert within(energy["joules_per_token"], again["accelerator_seconds"] / facts["context"])
    assert energy["grams_co2_per_million_tokens"] == pytest.approx(400 * energy["kwh_per_million_tokens"])


def test_a_service_that_waits_takes_the_power_of_waiting_in_that_time() -> None:
    always, half = (energy_of_service(2e-3, 1e-3, 5e-4, (0.9, 1.2), H100, 400, used) for used in (1.0, 0.5))
    work, idle = power(0.5, 0.25), power(0.0, 0.0)
    assert always is not None
    assert half is not None
    assert always["joules_per_token"] == pytest.approx(2e-3 * work.value)
    assert half["joules_per_token"] == pytest.approx(2e-3 * (work.value + idle.value))
    low, high = half["joules_per_token_range"]
    assert low < half["joules_per_token"] < high
    assert half["grams_co2_per_million_tokens"] == pytest.approx(400e6 / 3.6e6 * half["joules_per_token"])


def test_tokens_on_a_price_page_take_the_energy_of_their_accelerator_time() -> None:
    request: dict[str, Any] = {"model": "llama-3.1-8b", "on": "h100-sxm", "gpus": 1, "input": 1000.0, "spread": 0.0}
    facts = run_cost(CostRequest(**request, utilisation=1.0, grid=400)).facts
    rates, energy = facts["rates"], facts["energy"]
    for kind in ("input", "output"):
        assert within(energy[kind]["joules_per_token"], 1 / rates[kind])
        assert energy[kind]["grams_co2_per_million_tokens"] == pytest.approx(
            400 * energy[kind]["kwh_per_million_tokens"]
        )
    # Found tokens are not read: one that is takes the energy that it takes.
    some = run_cost(CostRequest(**request, utilisation=1.0, hit=0.5)).facts["energy"]
    assert some["input"]["joules_per_token"] == pytest.approx(energy["input"]["joules_per_token"], rel=0.1)
    idle = run_cost(CostRequest(**request, utilisation=0.25)).facts["energy"]
    more = 3 * power(0.0, 0.0).value / rates["input"]
    assert idle["input"]["joules_per_token"] == pytest.approx(energy["input"]["joules_per_token"] + more)


def test_a_budget_takes_the_energy_of_training_reading_and_writing() -> None:
    plain = run_budget(BudgetRequest(loss=2.0, on="h100-sxm", mfu=0.5, grid=400)).facts["hardware"]
    load = power(0.0, 0.5)
    assert plain["energy"]["kwh"] == pytest.approx(load.value * plain["gpu_hours"] / 1000)
    assert plain["energy"]["kwh_range"] == pytest.approx([x * plain["gpu_hours"] / 1000 for x in (load.low, load.high)])
    assert plain["energy"]["kg_co2"] == pytest.approx(0.4 * plain["energy"]["kwh"])
    served: dict[str, Any] = {"params": 7e10, "tokens": 1.5e13, "inference_tokens": 1e13, "prompt_tokens": 3e13}
    loads: dict[str, Any] = {"on": "h100-sxm", "mfu": 0.5, "decode_efficiency": 0.2, "prefill_efficiency": 1.2}
    facts = run_budget(BudgetRequest(**served, **loads, success=0.5)).facts
    rate = 0.5 * H100.rate("bf16")
    kwh = [0.0, 0.0, 0.0]
    for flops, compute, writes in (
        (facts["cost_pretrain"], 0.5, False),
        (0.5 * 2 * facts["params"] * 3e13 / 1.2, 0.6, False),
        (0.5 * 2 * facts["params"] * 1e13 / 0.2, 0.1, True),
    ):
        middle, least, most = (power(bandwidth if writes else 0.0, compute) for bandwidth in (0.5, 0.0, 1.0))
        for at, watts in enumerate((middle.value, least.low, most.high)):
            kwh[at] += watts * flops / rate / 3.6e6
    energy = facts["hardware"]["energy"]
    assert [energy["kwh"], *energy["kwh_range"]] == pytest.approx(kwh)
    assert energy["power_per_gpu"] * facts["hardware"]["gpu_hours"] == pytest.approx(1000 * energy["kwh"])


def test_a_budget_s_model_says_how_much_of_the_bandwidth_it_uses() -> None:
    request: dict[str, Any] = {"params": 8e9, "tokens": 1.5e13, "inference_tokens": 1e14, "model": "llama-3.1-8b"}
    facts = run_budget(BudgetRequest(**request, on="h100-sxm", gpus=64, serving_gpus=1)).facts
    (said,) = re.findall(r"writing uses (\d+)%", "\n".join(facts["assumptions"]))
    assert 20 < int(said) < 100
    low, high = facts["hardware"]["energy"]["kwh_range"]
    assert high / low < 1.3 / 0.7 + 1e-9


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
        "train budget --loss 2.0 --inference-tokens 1e13 --on h100-sxm",
        "prices cost llama-3.1-8b --on h100-sxm --gpus 1 --input 500 --output 100",
        "train run llama-3.1-8b --on h100-sxm --gpus 64 --tokens 1T",
    ],
)
def test_every_answer_with_dollars_of_accelerators_has_their_energy(line: str) -> None:
    result = CliRunner().invoke(cli, line.split())
    assert result.exit_code == 0, result.output
    assert "$" in result.output
    assert any(word in result.output for word in ("energy", "J/token")), result.output


def test_a_chip_whose_power_nobody_says_has_no_energy() -> None:
    chip = replace(H100, power=None)
    assert energy_of_tokens(np.ones(1), np.ones(1), np.ones(1), chip) is None
    assert energy_of_service(1.0, 0.5, 0.5, (1.0, 1.0), chip, None) is None
    assert energy_of_parts([energy_of_run(1.0, 0.5, 0.5, chip, None)]) is None
