"""Figures of caches that no other test states: they notice mutants that lived (`tools/mutants.py`)."""

from __future__ import annotations

from math import exp, inf

import numpy as np
import pytest

from rackmath.caching.lifetimes import best_lifetime, exponential, kept_cost
from rackmath.caching.sessions import Session, turns
from rackmath.caching.tiers import LIFETIME, TierCost, by_drain_time, prompt_cost, tier_costs
from rackmath.errors import InputError
from rackmath.hardware import MemoryTier
from tests.conftest import make_system

COSTS = {"kv_bytes": 1e5, "prefill_time": 1e-4, "price": 1e-3}


def test_devices_are_written_off_over_four_years() -> None:
    assert pytest.approx(126_230_400) == LIFETIME


def test_own_memory_is_read_for_nothing() -> None:
    own = tier_costs(make_system(), [], **COSTS)[1]
    assert (own.retrieve, own.wait, own.accelerator_seconds) == (0, 0, 0)


def test_devices_are_at_hand_unless_they_are_said_to_be_behind_the_network() -> None:
    fast = MemoryTier(name="fast", capacity=1e12, bandwidth=1e11, price=1e-9)
    assert tier_costs(make_system(), [fast], **COSTS)[2].wait == pytest.approx(1e5 / 1e11)


@pytest.mark.parametrize(
    ("held", "name"), [(0.9, "short"), (3.1, "short"), (3.3, "long"), (10.5, "long"), (1e6, "long")]
)
def test_the_nearest_drain_time_by_ratio(held: float, name: str) -> None:
    """Between 1 s and 10 s the geometric mean, 3.16 s, divides."""
    costs = [
        TierCost(name=n, drain_time=t, hold=1.0, retrieve=0.0, wait=0.0, accelerator_seconds=0.0)
        for n, t in (("never", 0.0), ("short", 1.0), ("long", 10.0))
    ]
    assert by_drain_time(costs, held) == name


def test_an_entry_that_is_used_just_when_it_would_be_dropped_is_kept() -> None:
    assert kept_cost(2.0, 100.0, keep=5.0, reuse=5.0) == 10.0
    assert kept_cost(2.0, 100.0, keep=5.0, reuse=5.1) == 110.0
    assert kept_cost(2.0, 100.0, keep=5.0, reuse=4.0) == 8.0


def test_an_entry_whose_use_comes_late_but_surely_is_kept_until_then_or_not_at_all() -> None:
    """Uses at 10 s of 100 s: kept that long where ten seconds cost less than again, else never."""

    def late(times: np.ndarray) -> np.ndarray:
        return (times < 10.0).astype(float)

    assert best_lifetime(1.0, 5.0, late, 100.0).keep == 0.0
    assert best_lifetime(1.0, 5.0, late, 100.0).cost == pytest.approx(5.0)
    assert best_lifetime(1.0, 50.0, late, 100.0).cost == pytest.approx(10.0, rel=0.01)


@pytest.mark.parametrize("longest", [0.0, -1.0, inf, float("nan")])
def test_a_longest_time_is_positive_and_finite(longest: float) -> None:
    with pytest.raises(InputError, match="longest"):
        best_lifetime(1.0, 1.0, exponential(1.0), longest)


@pytest.mark.parametrize(
    "survival",
    [lambda t: np.full_like(t, 1.5), lambda t: np.full_like(t, -0.1), lambda t: np.ones(len(t) - 1), lambda t: 1.0],
)
def test_a_survival_is_a_chance_at_every_time(survival: object) -> None:
    with pytest.raises(InputError, match="survival"):
        best_lifetime(1.0, 1.0, survival, 10.0)  # pyright: ignore[reportArgumentType]


def test_a_session_is_summarised_where_a_turn_after_the_summary_fits() -> None:
    """Instructions 1,000, summary 2,000, a turn of 300 and 200."""
    session = {"turns": 3, "instructions": 1000.0, "turn_tokens": 300.0, "output": 200.0, "think_time": 60.0}
    assert Session(**session, compact_at=3501.0).compact_to == 2000
    with pytest.raises(InputError, match="3,500"):
        Session(**session, compact_at=3500.0)


def test_a_session_is_summarised_before_a_turn_would_pass_its_limit() -> None:
    """The sixth turn would end at 4,000 of 3,600 tokens: a call reads 3,500, and 1,000 + 2,000 go on."""
    calls = turns(
        Session(turns=6, instructions=1000, turn_tokens=300, output=200, think_time=0, keep=1, compact_at=3600)
    )
    assert calls.prompt.tolist() == [1300, 1800, 2300, 2800, 3300, 3500, 3300]
    assert calls.prefix.tolist() == [0, 1300, 1800, 2300, 2800, 3300, 1000]
    assert calls.output.tolist() == [200] * 5 + [2000, 200]
    assert calls.summary.tolist() == [False] * 5 + [True, False]
    assert calls.hit == 1


def test_a_turn_may_end_just_at_its_limit() -> None:
    calls = turns(
        Session(turns=6, instructions=1000, turn_tokens=300, output=200, think_time=0.5, keep=1, compact_at=4000)
    )
    assert not calls.summary.any()
    assert calls.hit == pytest.approx(1 - exp(-2))


def test_a_prompt_half_cached_costs_half_of_each() -> None:
    assert prompt_cost(4.0, 3.0, 0.5) == 3.5
    assert prompt_cost(4.0, 3.0, 0.25) == 3.75
