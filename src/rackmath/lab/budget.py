"""The time that experiments may take: handed out to points as they come, so that a slow machine measures fewer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from time import perf_counter
from typing import TypeVar

from rackmath.errors import InputError

Progress = Callable[[str], None]
Point = TypeVar("Point")


class TimeLimit:
    """Time for a piece of work.

    Parameters
    ----------
    seconds : float
        That it may take. [s]
    progress : callable, optional
        What is told how far the work is.

    Errors: :class:`InputError` for seconds that are not above 0.
    """

    def __init__(self, seconds: float, progress: Progress = lambda _: None) -> None:
        if not 0 < seconds < float("inf"):
            raise InputError("--seconds", seconds, "write seconds above 0")
        self.seconds = seconds
        self.omitted: list[str] = []
        """What was left out, in words; parts write it here as well."""
        self._progress = progress
        self._started = perf_counter()

    @property
    def elapsed(self) -> float:
        """Since the beginning. [s]"""
        return perf_counter() - self._started

    @property
    def left(self) -> float:
        """Until the end; 0 when it has passed. [s]"""
        return max(self.seconds - self.elapsed, 0.0)

    def say(self, text: str) -> None:
        """Tell what is done now, and how much of the time has passed."""
        self._progress(f"{text} ({self.elapsed:.0f} of {self.seconds:.0f} s)")

    def apart(self, share: float) -> TimeLimit:
        """A budget of a share of what is left, from 0 to 1, that keeps to itself what it leaves out.

        What it does not use stays in this one.
        """
        return TimeLimit(max(self.left * share, _LEAST), self.say)

    def part(self, share: float) -> TimeLimit:
        """The same, of which this one's notes tell what was left out."""
        inner = self.apart(share)
        inner.omitted = self.omitted
        return inner

    def each(self, points: int, most: float) -> float:
        """Time to repeat one of so many points for: half of its share, for warming up takes as long. [s]"""
        return min(max(self.left / max(points, 1) / 2, _LEAST), most)

    def sized(self, points: Sequence[Point], cost: Callable[[Point], float], name: str) -> Iterator[Point]:
        """Points in the order of their cost, the first always, another as long as it would end in time.

        A point is taken to last as long as the one before, times the ratio of their costs.
        """
        sorted_points = sorted(points, key=cost)
        duration = 0.0
        for place, point in enumerate(sorted_points):
            if place and duration * cost(point) / cost(sorted_points[place - 1]) > self.left:
                self.omitted.append(f"{name} {', '.join(str(omission) for omission in sorted_points[place:])}")
                return
            start = perf_counter()
            yield point
            duration = perf_counter() - start

    def fitting(self, points: Sequence[Point], lasting: Sequence[float], seconds: float, name: str) -> list[Point]:
        """Points, least first, as many as together end within some seconds by what each lasts; the first always. [s]"""
        whole = accumulate(lasting)
        selection = [
            point for place, (point, end) in enumerate(zip(points, whole, strict=True)) if not place or end < seconds
        ]
        if len(selection) < len(points):
            self.omitted.append(f"{name} {', '.join(str(point) for point in points[len(selection) :])}")
        return selection

    def notes(self) -> list[str]:
        """One sentence on what was left out, if anything was."""
        omissions = "; ".join(self.omitted)
        return [f"Left out to stay within {self.seconds:.3g} s: {omissions}."] if self.omitted else []


_LEAST = 1e-3
"""Of any part, so that a budget that is used up still measures every first point. [s]"""
