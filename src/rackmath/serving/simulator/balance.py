"""Whether a run kept up: what was offered, what was served while requests arrived, and how the queue grew."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rackmath.serving.simulator.outcome import spread_over

F = NDArray[np.float64]

_FEW = 50
"""Requests below which a run says nothing of a steady load."""
_BURST = 0.1
"""Part of the requests that must end while others arrive; below it the run is a burst and its end."""
_CYCLES = 3.0
"""Answers' times within which a closed loop says nothing of a steady load: its users still come as they began."""
_BINS = 16
"""Stretches of the second half of the arrivals in which the growth of the queue is counted."""
_CLEAR = 3.0
"""Standard errors by which a queue must grow before a run is called not steady."""
_AHEAD = 100.0
"""Runs ahead for which a line through waits is drawn on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """Rates of a run between the time its first answers took and its last arrival."""

    start: float
    stop: float
    """Of the time that rates are counted in: all of the run where it is a burst. [s]"""
    offered: float | None
    """Arrivals; None where all requests come at once. [requests/s]"""
    served: float
    """Answers that ended. [requests/s]"""
    tokens: float
    """Tokens that were written. [tokens/s]"""
    growth: float
    """Requests in the fleet, by the second half of the arrivals. [requests/s]"""
    steady: bool | None
    """Whether the queue does not grow; None where a run is too short to say."""
    is_closed: bool
    """Whether users wait for an answer before they send again: answers count by their time in the window."""

    def counted(self, arrival: F, finish: F) -> F:
        """Part of each answer that is counted as served. (requests,)"""
        return _counted(arrival, finish, self.start, self.stop, self.is_closed)


def _counted(arrival: F, finish: F, start: float, stop: float, is_closed: bool) -> F:
    if not is_closed:
        return ((finish > start) & (finish <= stop)).astype(float)
    inside = np.maximum(np.minimum(finish, stop) - np.maximum(arrival, start), 0.0)
    return inside / np.maximum(finish - arrival, 1e-12)


def balance(arrival: F, first: F, finish: F, output: NDArray[np.int32], *, is_closed: bool = False) -> Balance:
    """Count what came and what was served, without the start and without the end in which nothing arrives.

    The queue grows where the requests in the fleet gain more from stretch to stretch, over the second half of the
    arrivals, than three standard errors of that gain. A load a little above capacity takes a long run to show.

    Users of a closed loop who began together end together, many at a time: each answer counts by the part of its time
    that lies in the window, which is Little's law, and as many are sent as end.

    Parameters
    ----------
    arrival, first, finish : array
        When each request was sent, and when its first and last token came. (requests,) [s]
    output : array
        Tokens of each answer. (requests,) [tokens]
    is_closed : bool
        Whether users wait for an answer before they send again.
    """
    begin, last, end = float(arrival.min()), float(arrival.max()), float(finish.max())
    window = last - begin
    early = np.argsort(arrival, kind="stable")[: max(len(arrival) // 10, 1)]
    whole = float(np.median((finish - arrival)[early]))
    start, stop = begin + min(whole, window / 2), last
    short = len(arrival) < _FEW or ((finish > start) & (finish <= stop)).sum() < _BURST * len(arrival)
    short = short or (is_closed and stop - start < _CYCLES * whole)
    if short:
        start, stop = begin, max(end, begin + 1e-9)
    edges = np.array([start, stop])
    rest = np.maximum(output - 1, 0).astype(float)
    tokens = spread_over(first, finish, rest, edges)[0] + float(((first >= start) & (first <= stop)).sum())
    served_rate = float(_counted(arrival, finish, start, stop, is_closed).sum()) / (stop - start)
    offered_rate = served_rate if is_closed else (len(arrival) - 1) / max(window, 1e-9)
    growth, steady = _growth(arrival, finish, (begin + last) / 2, last) if window > 0 else (0.0, False)
    return Balance(
        start=start,
        stop=stop,
        offered=offered_rate if window > 0 else None,
        served=served_rate,
        tokens=tokens / (stop - start),
        growth=growth,
        steady=None if short else steady,
        is_closed=is_closed,
    )


def _growth(arrival: F, finish: F, start: float, stop: float) -> tuple[float, bool]:
    """Growth of the requests in the fleet, and whether it is within its noise. [requests/s]"""
    edges = np.linspace(start, stop, _BINS + 1)
    in_flight = np.searchsorted(np.sort(arrival), edges, side="right") - np.searchsorted(
        np.sort(finish), edges, "right"
    )
    steps = np.diff(in_flight.astype(float))
    error = float(steps.std(ddof=1)) / np.sqrt(_BINS)
    return float(in_flight[-1] - in_flight[0]) / (stop - start), bool(steps.mean() <= _CLEAR * error)


def leaves_limit(arrival: F, waits: F, limit: float) -> float | None:
    """When requests arrive whose mean wait is beyond a limit, after the first arrival; None where none does. [s]

    Where none did and waits grow over the second half of the arrivals, the line through them says when they would.

    Parameters
    ----------
    waits : array
        Time to the first token of each request. (requests,) [s]
    """
    begin, last = float(arrival.min()), float(arrival.max())
    if last <= begin or len(arrival) < _FEW:
        return None
    edges = np.linspace(begin, last, 2 * _BINS + 1)
    many, total = np.histogram(arrival, edges)[0], np.histogram(arrival, edges, weights=waits)[0]
    has_requests = many > 0
    middle, mean = ((edges[1:] + edges[:-1]) / 2 - begin)[has_requests], total[has_requests] / many[has_requests]
    beyond = np.flatnonzero(mean > limit)
    if len(beyond):
        return float(middle[beyond[0]])
    late = middle >= (last - begin) / 2
    if late.sum() < _BINS / 2:
        return None
    slope, level = np.polyfit(middle[late], mean[late], 1)
    when = float((limit - level) / slope) if slope > 0 else np.inf
    return when if when <= _AHEAD * (last - begin) else None
