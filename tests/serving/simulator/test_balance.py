"""Offered and served rates, growth and the time of a limit, on queues whose answers are known."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.cli.app import cli
from rackmath.serving.simulator.balance import balance, leaves_limit

BASE = ["simulate", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "1", "--input", "2000", "--output", "200"]


def served_in_turn(rate: float, capacity: float, many: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Poisson arrivals at one server that takes 1 / capacity for each: arrivals and ends."""
    arrival = np.cumsum(np.random.default_rng(seed).exponential(1 / rate, many))
    finish = np.empty(many)
    free = 0.0
    for i, at in enumerate(arrival):
        free = max(free, at) + 1 / capacity
        finish[i] = free
    return arrival, finish


@settings(max_examples=40, deadline=None)
@given(load=st.floats(1.2, 5.0), capacity=st.floats(0.1, 100.0), seed=st.integers(0, 10_000))
def test_overload_is_served_at_capacity_and_grows_by_the_rest(load: float, capacity: float, seed: int) -> None:
    arrival, finish = served_in_turn(load * capacity, capacity, 4000, seed)
    rates = balance(arrival, finish - 0.5 / capacity, finish, np.full(4000, 10, np.int32))
    assert rates.steady is False
    assert rates.offered == pytest.approx(load * capacity, rel=0.1)
    assert rates.served == pytest.approx(capacity, rel=0.01)
    assert rates.tokens == pytest.approx(10 * capacity, rel=0.02)
    # Half of the 4,000 arrivals, with the square root of their number as deviation: four of them.
    noise = 4 * np.sqrt(2000) / (2000 / (load * capacity))
    assert rates.growth == pytest.approx((load - 1) * capacity, abs=noise)


@settings(max_examples=40, deadline=None)
@given(load=st.floats(0.05, 0.85), capacity=st.floats(0.1, 100.0), seed=st.integers(0, 10_000))
def test_a_load_below_capacity_is_steady(load: float, capacity: float, seed: int) -> None:
    arrival, finish = served_in_turn(load * capacity, capacity, 4000, seed)
    rates = balance(arrival, finish, finish, np.full(4000, 1, np.int32))
    assert rates.steady is True
    assert rates.served == pytest.approx(rates.offered, rel=0.05)


def test_the_drain_after_the_last_arrival_counts_for_nothing() -> None:
    """100 requests a second to 20 a second: the drain is four times as long as the arrivals."""
    arrival = np.arange(1000) / 100
    finish = 0.05 * (np.arange(1000) + 1)
    rates = balance(arrival, finish, finish, np.full(1000, 1, np.int32))
    assert rates.stop == pytest.approx(9.99)
    assert rates.served == pytest.approx(20, rel=0.02)


def test_a_burst_is_counted_whole() -> None:
    finish = np.arange(1, 1001) / 10
    rates = balance(np.zeros(1000), finish - 0.05, finish, np.full(1000, 5, np.int32))
    assert (rates.offered, rates.steady) == (None, None)
    assert rates.served == pytest.approx(10)
    assert rates.tokens == pytest.approx(50, rel=0.01)


def in_waves(users: int, waves: int, spread: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Users who send again as soon as they are answered, after a second; begun within ``spread`` of it."""
    begun = np.linspace(0, spread, users)[None, :] + np.arange(waves)[:, None]
    return begun.ravel(), begun.ravel() + 1.0


def test_users_who_began_together_are_counted_by_whole_answers() -> None:
    """64 answers a second, all of which end together: a window of 1.5 s holds one end of them or two."""
    one = np.ones(64 * 20, np.int32)
    for waves in (2, 3, 20):
        arrival, finish = in_waves(64, waves)
        rates = balance(arrival, finish, finish, one[: 64 * waves], is_closed=True)
        assert rates.served == pytest.approx(64)
        assert rates.offered == rates.served
        # Three answers' times after the first ones say nothing of a steady load.
        assert rates.steady is (None if waves < 5 else True)
    # Begun over half of a second they end as far apart, and of two waves the whole run counts: 2.5 s.
    arrival, finish = in_waves(64, 2, spread=0.5)
    assert balance(arrival, finish, finish, one[:128], is_closed=True).served == pytest.approx(128 / 2.5)
    arrival, finish = in_waves(64, 20, spread=0.5)
    assert balance(arrival, finish, finish, one, is_closed=True).served == pytest.approx(64)


def test_when_a_limit_is_left() -> None:
    """Waits of a tenth of the time passed: a limit of 3 s is left after 30 s, one of 20 s would be after 200."""
    arrival = np.linspace(0, 100, 5001)
    assert leaves_limit(arrival, arrival / 10, 3.0) == pytest.approx(30, abs=3.2)
    assert leaves_limit(arrival, arrival / 10, 20.0) == pytest.approx(200, rel=1e-4)
    assert leaves_limit(arrival, np.full(5001, 1.0), 3.0) is None
    assert leaves_limit(arrival, 2 - arrival / 100, 3.0) is None


def simulate(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(cli, [*BASE, *arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_command_says_what_was_offered_and_what_was_served() -> None:
    fits = simulate("--poisson", "5", "--requests", "3000", "--ttft", "1")
    assert fits["steady"] is True
    assert fits["offered_rate"] == pytest.approx(5, rel=0.06)
    assert fits["served_rate"] == pytest.approx(fits["offered_rate"], rel=0.05)
    assert fits["leaves_limit_after"] is None
    low, high = fits["latency"]["p99_range"]
    assert low < fits["latency"]["p99"] < high
    over = simulate("--poisson", "60", "--requests", "6000", "--ttft", "10")
    assert over["steady"] is False
    assert over["served_rate"] < 0.7 * over["offered_rate"]
    assert over["queue_growth"] == pytest.approx(over["offered_rate"] - over["served_rate"], rel=0.25)
    assert over["throughput"] == pytest.approx(200 * over["served_rate"], rel=0.1)
    assert 0 < over["leaves_limit_after"] < 100
    longer = simulate("--poisson", "60", "--requests", "12000", "--ttft", "10")
    assert longer["served_rate"] == pytest.approx(over["served_rate"], rel=0.1)
    assert longer["leaves_limit_after"] == pytest.approx(over["leaves_limit_after"], abs=200 / 32)
    text = CliRunner().invoke(cli, [*BASE, "--poisson", "60", "--requests", "6000", "--ttft", "10"]).output
    assert "not steady" in text
    assert "the mean first token leaves its limit after" in " ".join(text.split())


@pytest.mark.parametrize("is_closed", [True, False])
@given(
    starts=st.lists(st.floats(0, 100), min_size=60, max_size=200),
    length=st.floats(0.01, 30),
)
def test_what_counts_of_each_answer_adds_up_to_what_was_served(
    starts: list[float], length: float, is_closed: bool
) -> None:
    arrival = np.sort(np.array(starts))
    finish = arrival + length * np.linspace(0.5, 1.5, len(arrival))
    rates = balance(arrival, arrival, finish, np.full(len(arrival), 3, np.int32), is_closed=is_closed)
    parts = rates.counted(arrival, finish)
    assert ((parts >= 0) & (parts <= 1 + 1e-9)).all()
    assert parts.sum() / (rates.stop - rates.start) == pytest.approx(rates.served)
    inside = (arrival >= rates.start) & (finish > rates.start) & (finish <= rates.stop)
    assert parts[inside] == pytest.approx(1)
    assert parts[finish < rates.start] == pytest.approx(0)


def test_goodput_of_a_closed_loop_without_limits_is_what_was_served() -> None:
    words = [*BASE, "--users", "8", "--requests", "400", "--json"]
    facts: dict[str, Any] = json.loads(CliRunner().invoke(cli, words).stdout)
    assert facts["good_share"] == 1
    assert facts["goodput"] == pytest.approx(facts["served_rate"])
