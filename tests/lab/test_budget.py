"""The time of experiments: what is left is shared, what would not end is left out and named."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from rackmath.errors import InputError
from rackmath.lab import budget as module
from rackmath.lab import exchange, stages
from rackmath.lab.budget import TimeLimit
from rackmath.lab.exchange import _sizes as exchange_sizes
from rackmath.lab.exchange import _system
from rackmath.lab.stages import _sizes as stage_sizes


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A clock that only moves when it is told to."""
    now = [100.0]
    monkeypatch.setattr(module, "perf_counter", lambda: now[0])

    def move(seconds: float) -> None:
        now[0] += seconds

    return move


def test_points_are_measured_as_long_as_the_next_one_would_end(wait: Callable[[float], None]) -> None:
    budget, seen = TimeLimit(10.0), []
    for point in budget.sized([4, 1, 2, 8, 16], float, "layers"):
        seen.append(point)
        wait(0.5 * point)
    # 0.5 + 1 + 2 have passed; the next takes 4 and fits into 6.5, the one after would take 8 of 2.5.
    assert seen == [1, 2, 4, 8]
    assert budget.notes() == ["Left out to stay within 10 s: layers 16."]


def test_the_first_point_is_measured_however_late_it_is(wait: Callable[[float], None]) -> None:
    budget = TimeLimit(1.0)
    wait(5.0)
    assert budget.left == 0.0
    assert list(budget.part(0.5).sized([3, 2], float, "depths")) == [2, 3]
    wait(1.0)
    seen = []
    for point in budget.sized([2, 3], float, "depths"):
        seen.append(point)
        wait(1.0)
    assert seen == [2]
    assert budget.omitted == ["depths 3"]


def test_what_a_part_does_not_use_is_left_for_the_others(wait: Callable[[float], None]) -> None:
    budget = TimeLimit(12.0)
    first = budget.part(1 / 3)
    assert first.seconds == pytest.approx(4.0)
    wait(1.0)
    assert budget.part(1 / 2).seconds == pytest.approx(5.5)
    assert budget.each(11, 1.0) == pytest.approx(0.5)
    assert budget.each(2, 1.0) == 1.0


def test_progress_says_what_is_done_and_how_much_time_has_passed(wait: Callable[[float], None]) -> None:
    said: list[str] = []
    budget = TimeLimit(60.0, said.append)
    wait(12.0)
    budget.say("4 layers")
    budget.part(0.5).say("inner")
    assert said == ["4 layers (12 of 60 s)", "inner (0 of 24 s) (12 of 60 s)"]


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), float("nan")])
def test_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(InputError, match="--seconds"):
        TimeLimit(seconds)


def test_processes_are_sized_by_the_time_that_is_left(wait: Callable[[float], None]) -> None:
    """Exchanges by the calibrated network, pipelines by their pace: less time, fewer tokens, fewer repeats."""
    slow = _system(2, 1e8, 1e-3, 1e7)
    sizes = [exchange_sizes(exchange.TOKENS, 4, slow, TimeLimit(s)) for s in (0.1, 5.0, 20.0, 1000.0)]
    assert sizes[0] == ([64], 3)
    assert sizes[-1] == (list(exchange.TOKENS), 7)
    assert all(len(a[0]) <= len(b[0]) for a, b in pairwise(sizes))
    assert len(sizes[1][0]) < 4
    # 2 schedules of 3 paces: (2 + 3) + (4 + 3) + (8 + 3) + (16 + 3) slots of 20 ms are 5.04 s, in half of the time.
    assert stage_sizes(stages.MICROBATCHES, 4, 0.02, TimeLimit(60.0)) == ([2, 4, 8, 16], 3)
    assert stage_sizes(stages.MICROBATCHES, 4, 0.02, TimeLimit(21.0)) == ([2, 4, 8, 16], 1)
    assert stage_sizes(stages.MICROBATCHES, 4, 0.02, TimeLimit(20.0))[0] == [2, 4, 8]
    assert stage_sizes(stages.MICROBATCHES, 4, 0.02, TimeLimit(0.1)) == ([2], 1)
