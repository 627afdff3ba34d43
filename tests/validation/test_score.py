"""Error bars of a median over sources, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from rackmath.validation.score import FEWEST_SOURCES, median_range


def test_sources_that_err_alike_leave_no_doubt_and_few_say_nothing() -> None:
    names = [f"s{i % 6}" for i in range(60)]
    assert median_range(np.full(60, 0.2), names) == (0.2, 0.2)
    few = [f"s{i % (FEWEST_SOURCES - 1)}" for i in range(60)]
    assert median_range(np.full(60, 0.2), few) is None


def test_rows_of_one_source_are_one_voice() -> None:
    """A hundred copies of every row change nothing; single rows of as many sources narrow the range."""
    draw = np.random.default_rng(3)
    sizes = draw.exponential(0.2, 21)
    once = median_range(sizes, [str(i) for i in range(21)])
    copied = median_range(np.repeat(sizes, 100), [str(i) for i in range(21) for _ in range(100)])
    assert once is not None
    assert copied == pytest.approx(once)
    many = median_range(draw.exponential(0.2, 2100), [str(i) for i in range(2100)])
    assert many is not None
    # A tenth as wide: the root of a hundred times the sources.
    assert (many[1] - many[0]) * 5 < once[1] - once[0] < (many[1] - many[0]) * 20


def test_the_range_is_that_of_order_statistics() -> None:
    """Of 101 sources with the errors 0 to 1, the 5th and 95th percentile of a median: 0.5 -+ 1.645 / (2 sqrt(101))."""
    sizes = np.linspace(0, 1, 101)
    low, high = median_range(sizes, [str(i) for i in range(101)]) or (0, 0)
    assert low == pytest.approx(0.5 - 1.645 / (2 * 101**0.5), abs=0.02)
    assert high == pytest.approx(0.5 + 1.645 / (2 * 101**0.5), abs=0.02)
