"""Power and energy: ends of the range, monotone, and the profiles that the constants are from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import rackmath as rm
from rackmath.api.estimate import run_estimate
from rackmath.api.estimate_request import EstimateRequest
from rackmath.api.plan import run_plan
from rackmath.api.plan_question import PlanRequest
from rackmath.api.subjects import load_system
from rackmath.cli.app import cli
from rackmath.errors import InputError
from rackmath.hardware.changes import changed_system
from rackmath.hardware.power import BYTE_ENERGY, COMPUTE_SHARE, STATIC_SHARE, capped_clock, power_draw, power_of
from rackmath.io import catalogue
from tests.conftest import SHARED, tool

A100 = catalogue.system("a100-sxm").chip
SHARE = st.floats(0, 1)


@given(SHARE, SHARE, st.floats(0, 0.3))
def test_power_rises_with_work_up_to_the_rated_one(reading: float, multiplying: float, more: float) -> None:
    base = taken(reading, multiplying)
    assert 0.31 * 400 <= base <= 400
    assert taken(reading + more, multiplying) >= base
    assert taken(reading, multiplying + more) >= base


def taken(reading: float, multiplying: float) -> float:
    power = power_draw(A100, reading, multiplying)
    assert power is not None
    return float(power)


def test_the_formula_by_hand() -> None:
    """400 W and 2.039 TB/s: 126 W of running, 197 W at the whole bandwidth, 302 W at the whole rate."""
    assert taken(0.0, 0.0) == pytest.approx(126.0)
    assert taken(1.0, 0.0) == pytest.approx(126.0 + 2.039e12 * 96.5e-12)
    assert taken(0.0, 0.25) == pytest.approx(126.0 + 0.754 * 400 / 2)
    assert taken(1.0, 1.0) == 400


def test_a_profile_of_llama_on_two_a100() -> None:
    """Splitwise: batch 2, 512 tokens in, 128 out takes 0.745 of the rated power; memory is in use for 0.57 of the time."""
    power = power_of(A100, 0.57, 0.03)
    assert power is not None
    assert power.value == pytest.approx(0.745 * 400, rel=0.1)
    assert power.low <= 0.745 * 400 <= power.high


def test_measured_runs_within_the_range() -> None:
    """Constants are those of the fit; nearly nine of ten runs are within the range of measured generations."""
    folder = SHARED / "measured"
    if not folder.exists():
        pytest.skip(f"{folder} is absent")
    power = tool("power")
    every = power.profiles(folder) + power.services(Path("tests/data/ml_energy.csv"))
    assert len(every) >= 500
    constants = power.fitted(every)
    assert constants[[0, 2]] == pytest.approx([STATIC_SHARE, COMPUTE_SHARE], abs=0.005)
    assert constants[1] == pytest.approx(BYTE_ENERGY, rel=0.01)
    errors = [power.share(constants, r) / r.measured - 1 for r in every]
    assert np.mean(np.abs(errors) < 0.3) >= 0.87


def test_a_server_takes_a_quarter_of_a_kilowatt_beside_each_accelerator() -> None:
    """MLPerf Power at the wall; the law of caps says too little of how much slower services are, by a tenth."""
    power = tool("power")
    runs = power.servers(Path("tests/data/mlperf_power.csv"))
    assert len(runs) == 6
    assert all(235 < run.beside < 290 for run in runs)
    said = {run.scenario: power.slowed(run) for run in runs if run.model == "llama-2-70b"}
    assert float(said["offline"]) == pytest.approx(25262.1 / 31302.7, rel=0.12)
    assert {power.slowed(run) for run in runs if run.model == "gpt-j"} == {"refused"}


def test_nobody_says_the_power() -> None:
    silent = replace(A100, power=None)
    assert power_of(silent, 0.5, 0.1) is None
    with pytest.raises(InputError, match="nobody says the rated power"):
        capped_clock(silent, 300.0)


@pytest.mark.parametrize(("watts", "speed"), [(350, 1.0), (300, 0.943), (250, 0.853)])
def test_prompts_at_a_cap_are_as_slow_as_measured(watts: float, speed: float) -> None:
    """Six RTX 3090 and MiniMax-M2.5, llmgarage.ai: 9,893, 9,326 and 8,436 tokens/s."""
    assert capped_clock(catalogue.system("rtx-3090").chip, watts) == pytest.approx(speed, rel=0.02)


@given(st.floats(0.7, 1.0))
def test_an_accelerator_that_multiplies_all_the_time_takes_its_cap(part: float) -> None:
    capped = changed_system(catalogue.system("a100-sxm"), "power_cap", part * 400).chip
    power = power_draw(capped, 0.0, 1.0)
    assert power is not None
    assert float(power) <= part * 400 * 1.12
    assert float(power) >= part * 400 * 0.99
    assert capped.rate("bf16") == pytest.approx(312e12 * capped.clock)
    assert capped.memory_bandwidth == A100.memory_bandwidth


@pytest.mark.parametrize("watts", [100.0, 279.0, float("nan")])
def test_caps_that_nothing_was_measured_at_are_refused(watts: float) -> None:
    with pytest.raises(InputError, match="write more"):
        capped_clock(A100, watts)


def test_a_cap_slows_prompts_and_leaves_decoding() -> None:
    def time(phase: str, **changes: str) -> float:
        system = load_system("h100-sxm", gpus=1).set(**changes) if changes else load_system("h100-sxm", gpus=1)
        return rm.estimate("llama-3.1-8b", system, batch=8, context=2000, phase=phase, no_evidence=True).time

    assert time("prefill", power_cap="550W") > 1.05 * time("prefill")
    assert time("decode", power_cap="550W") < 1.02 * time("decode")


@pytest.mark.parametrize(
    "words",
    [
        "estimate llama-3.1-8b --gpus 1 --batch 8 --context 1k",
        "plan llama-3.1-8b --gpus 1 --input 500 --output 100",
        "simulate llama-3.1-8b --gpus 1 --poisson 2 --requests 50 --input 100 --output 20",
    ],
)
def test_answers_under_a_cap_say_what_it_leaves_out(words: str) -> None:
    for system, said in (("h100-sxm", False), ("h100-sxm[power_cap=500W]", True)):
        result = CliRunner().invoke(cli, [*words.split(), "--on", system])
        assert result.exit_code == 0, result.output
        assert ("power cap" in " ".join(result.output.split())) == said


def estimate(**changes: object) -> dict[str, float]:
    request = {"model": "llama-3.1-8b", "on": "a100-sxm", "gpus": 1, "batch": 16, "context": 2000, "no_evidence": True}
    energy = run_estimate(EstimateRequest(**(request | changes))).energy  # type: ignore[arg-type]
    assert energy is not None
    return energy


def test_energy_is_power_by_time_by_token() -> None:
    result = run_estimate(
        EstimateRequest(model="llama-3.1-8b", on="a100-sxm", gpus=1, batch=16, context=2000, no_evidence=True, grid=400)
    )
    energy = result.energy
    assert energy is not None
    assert energy["joules_per_token"] == pytest.approx(energy["power_per_gpu"] * result.time / 16)
    assert energy["kwh_per_million_tokens"] == pytest.approx(energy["joules_per_token"] / 3.6)
    assert energy["grams_co2_per_million_tokens"] == pytest.approx(energy["kwh_per_million_tokens"] * 400)
    low, high = energy["joules_per_token_range"]
    assert low < energy["joules_per_token"] < high


def test_larger_batches_take_less_energy_for_each_token() -> None:
    assert estimate(batch=64)["joules_per_token"] < estimate(batch=16)["joules_per_token"]
    assert estimate(batch=16)["joules_per_token"] < estimate(batch=1)["joules_per_token"] / 8


def test_what_does_not_fit_has_no_energy() -> None:
    result = run_estimate(EstimateRequest(model="llama-3.1-405b", on="a100-sxm", gpus=1, batch=1, context=1000))
    assert result.energy is None


def test_a_plan_has_energy_beside_its_dollars() -> None:
    """More than its own steps take, less than the rated power for all of its accelerator time."""
    request = {"model": "llama-3.1-8b", "on": "a100-sxm", "gpus": 1, "input": 1000, "output": 200, "no_evidence": True}
    result = run_plan(PlanRequest(**request, one_pool=True, grid=400))  # type: ignore[arg-type]
    energy = result.energy
    assert energy is not None
    seconds = sum(result.plan.seconds_by_use.values())
    assert 0.315 * 400 * seconds < energy["joules_per_token"] < 400 * seconds
    low, high = energy["joules_per_token_range"]
    assert low < energy["joules_per_token"] < high
    assert energy["grams_co2_per_million_tokens"] == pytest.approx(energy["kwh_per_million_tokens"] * 400)
    # A prompt twice as long is read in more accelerator time, with more products.
    longer = run_plan(PlanRequest(**(request | {"input": 4000}), one_pool=True)).energy  # type: ignore[arg-type]
    assert longer is not None
    assert longer["joules_per_token"] > energy["joules_per_token"]


def test_a_simulated_run_takes_between_running_and_the_rated_power() -> None:
    asked = ["simulate", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "2", "--input", "500", "--output", "200"]
    asked += ["--requests", "300", "--poisson", "20", "--no-evidence", "--grid", "400g", "--json"]
    facts = json.loads(CliRunner().invoke(cli, asked).stdout)
    seconds = 2 * facts["span"]
    watts = facts["energy_kwh"] * 3.6e6 / seconds
    assert 0.315 * 700 < watts < 700
    assert facts["joules_per_token"] == pytest.approx(facts["energy_kwh"] * 3.6e6 / (300 * 200), rel=0.05)
    assert facts["kg_co2"] == pytest.approx(facts["energy_kwh"] * 0.4)
    low, high = facts["energy_kwh_range"]
    assert low < facts["energy_kwh"] < high


def test_a_training_run_takes_what_its_products_ask() -> None:
    asked = ["train", "llama-3.1-70b", "--on", "h100-sxm", "--gpus", "512", "--tokens", "1T", "--batch-tokens", "4M"]
    facts = json.loads(CliRunner().invoke(cli, [*asked, "--grid", "400g", "--json"]).stdout)
    assert facts["power_per_gpu"] == pytest.approx(700 * (0.315 + 0.754 * facts["hfu"] ** 0.5))
    assert facts["energy_mwh"] == pytest.approx(facts["power_per_gpu"] * facts["gpu_hours"] / 1e6)
    assert facts["kg_co2"] == pytest.approx(facts["energy_mwh"] * 400)
