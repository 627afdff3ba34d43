"""Where a run's beginning ends, and what two runs on the same draws differ by."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.serving.simulator.paired import STRETCHES, paired_half_width, stretch_statistics
from rackmath.serving.simulator.warm_up import warm_up


@settings(max_examples=100)
@given(seed=st.integers(0, 10_000), count=st.integers(100, 400), start=st.floats(0, 30))
def test_the_cut_makes_the_standard_error_of_the_rest_least(seed: int, count: int, start: float) -> None:
    random = np.random.default_rng(seed)
    values = random.exponential(1.0, count) + start * np.exp(-np.arange(count) / 20)
    means = [values[5 * i : 5 * i + 5].mean() for i in range(count // 5)]
    errors = [np.var(means[d:]) / (len(means) - d) for d in range(len(means) // 2 + 1)]
    best = int(np.argmin(errors))
    assert warm_up(values, empty=False) == (None if best == len(means) // 2 else 5 * best)


def test_a_start_of_known_length_is_cut_there() -> None:
    random = np.random.default_rng(0)
    values = 1.0 + 0.1 * random.standard_normal(10_000)
    assert warm_up(values, empty=False) == pytest.approx(0, abs=300)
    slow, fast = values.copy(), values.copy()
    slow[:1000] += 5.0
    fast[:1000] -= 0.5
    assert warm_up(fast, empty=True) == warm_up(fast, empty=False) == warm_up(slow, empty=False) == 1000
    # Nobody who meets an empty fleet is slow for that.
    assert warm_up(slow, empty=True) == 0


def test_a_run_that_only_grows_has_no_steady_part() -> None:
    assert warm_up(np.arange(1000.0), empty=True) is None


def test_few_requests_are_all_counted() -> None:
    assert warm_up(np.arange(99.0), empty=True) == 0


def _waits(random: np.random.Generator, count: int) -> np.ndarray:
    """Values that hang together over some forty requests."""
    noise, values = random.standard_normal(count), np.zeros(count)
    for i in range(1, count):
        values[i] = 0.95 * values[i - 1] + noise[i]
    return values


def half_width(one: dict[str, list[float]] | None, two: dict[str, list[float]] | None, warm: float = 0.0) -> float:
    """Half width of the interval of a difference of means that can be told."""
    half = paired_half_width(one, two, "mean", warm)
    assert half is not None
    return half


def test_intervals_of_differences_hold_their_share_and_shared_draws_make_them_narrow() -> None:
    random, inside, narrower = np.random.default_rng(3), 0, 0
    for _ in range(200):
        shared = _waits(random, 6400)
        one, two = shared + random.standard_normal(6400), shared + 0.5 + random.standard_normal(6400)
        apart = _waits(random, 6400) + 0.5
        parts = [stretch_statistics(values) for values in (one, two, apart)]
        half, independent = (half_width(parts[0], other) for other in parts[1:])
        inside += abs(two.mean() - one.mean() - 0.5) <= half
        narrower += half < independent / 3
    assert 180 <= inside <= 199
    assert narrower == 200


def test_warm_up_takes_its_stretches_out() -> None:
    random = np.random.default_rng(0)
    one, two = random.standard_normal(3200), random.standard_normal(3200)
    two[:100] += 1000.0
    first, second = (stretch_statistics(values) for values in (one, two))
    assert half_width(first, second) > 10 * half_width(first, second, 1 / STRETCHES)
    assert paired_half_width(first, second, "mean", 0.9) is None


def test_statistics_of_stretches_are_those_of_their_requests() -> None:
    values = np.arange(3200.0)
    values[::2] = np.nan
    parts = stretch_statistics(values)
    assert parts["mean"] == [np.nanmean(values[100 * k : 100 * k + 100]) for k in range(STRETCHES)]
    assert parts["p50"][0] == pytest.approx(50.0)
    assert parts["p99"][1] == pytest.approx(101 + 0.99 * 98)
    assert stretch_statistics(values[:300]) is None
    values[:100] = np.nan
    assert stretch_statistics(values) is None
