"""Power and energy: ends of the range, monotone, and the profiles that the constants are from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.api.estimate import run_estimate
from rackmath.api.estimate_request import EstimateRequest
from rackmath.api.plan import run_plan
from rackmath.api.plan_question import PlanRequest
from rackmath.engine.power import power_of, power_share
from rackmath.io import catalogue
from tests.conftest import SHARED, tool

A100 = catalogue.system("a100-sxm").chip
SHARE = st.floats(0, 1)


@given(SHARE, SHARE, st.floats(0, 0.3))
def test_power_rises_with_work_up_to_the_rated_one(memory: float, compute: float, more: float) -> None:
    base = power_share(memory, compute)
    assert 0.29 <= base <= 1
    assert power_share(memory + more, compute) >= base
    assert power_share(memory, compute + more) >= base


def test_a_profile_of_llama_on_two_a100() -> None:
    """Splitwise: batch 2, 512 tokens in, 128 out takes 0.745 of the rated power; memory is in use for 0.57 of the time."""
    assert power_share(0.57, 0.03) == pytest.approx(0.745, rel=0.1)
    power = power_of(A100, {"weights": 0.5, "cache": 0.07, "compute": 0.03}, 1.0)
    assert power is not None
    assert power.value == pytest.approx(400 * power_share(0.57, 0.03))
    assert power.low <= 0.745 * 400 <= power.high


def test_profiles_within_the_range() -> None:
    """Constants are those of the fit; nine profiles of ten are within 15 %."""
    folder = SHARED / "measured"
    if not folder.exists():
        pytest.skip(f"{folder} is absent")
    power = tool("power")
    profiles = power.runs(folder)
    assert len(profiles) >= 36
    assert power.fitted(profiles) == pytest.approx([0.29, 0.72, 0.94], abs=0.01)
    errors = [float(power_share(r.memory, r.compute)) / r.measured - 1 for r in profiles]
    assert np.mean(np.abs(errors) < 0.15) >= 0.9


def test_nobody_says_the_power() -> None:
    assert power_of(replace(A100, power=None), {"weights": 1.0}, 2.0) is None


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
    seconds = sum(result.found.spent.values())
    assert 0.29 * 400 * seconds < energy["joules_per_token"] < 400 * seconds
    low, high = energy["joules_per_token_range"]
    assert low < energy["joules_per_token"] < high
    assert energy["grams_co2_per_million_tokens"] == pytest.approx(energy["kwh_per_million_tokens"] * 400)
    # A prompt twice as long is read in more accelerator time, with more products.
    longer = run_plan(PlanRequest(**(request | {"input": 4000}), one_pool=True)).energy  # type: ignore[arg-type]
    assert longer is not None
    assert longer["joules_per_token"] > energy["joules_per_token"]
