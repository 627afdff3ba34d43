"""What users saw and what it took: percentiles with their confidence, goodput, occupancy, money."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from rackmath.serving.simulator.run import Outcome
from rackmath.serving.simulator.state import Requests

F = NDArray[np.float64]

PERCENTILES = (0.5, 0.9, 0.95, 0.99)
STATISTICS = ("mean", *(f"p{round(100 * p)}" for p in PERCENTILES))
"""What is said of each time."""
_TWO_SIDED = 1.96
"""Standard deviations of a 95 % interval."""
_BATCHES, _STUDENT = 32, 2.04
"""Stretches into which a run is cut, and the half width of a 95 % interval from so many, in standard errors."""
_SHORT = 10
"""Requests of a stretch below which stretches say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """One quantity over all requests."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    confidence: Mapping[str, tuple[float, float]]
    """95 % interval of each percentile, for requests whose waits hang together; see :func:`spread`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RequestTimes:
    """By request; not a number for those that were refused. [s]"""

    queueing: F
    """Until it is admitted."""
    first: F
    """To the first token."""
    per_token: F
    """Between tokens of its answer; not a number for answers of one token."""
    whole: F
    """From arrival to the last token."""


def request_times(
    outcome: Outcome, outside: float, output: NDArray[np.int32], arrival: F | None = None
) -> RequestTimes:
    """Times of all requests as users see them.

    Parameters
    ----------
    outside : float
        Time of a request outside of the engine. [s]
    arrival : array, optional
        When requests were sent, where they came to these replicas later. (requests,) [s]
    """
    q = outcome.requests
    send_times = q["arrival"] if arrival is None else arrival
    rest = np.maximum(output - 1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        per_token = np.where(rest > 0, (q["finish"] - q["first"]) / rest, np.nan)
    return RequestTimes(
        queueing=q["admitted"] - q["arrival"],
        first=q["first"] - send_times + outside,
        per_token=per_token,
        whole=q["finish"] - send_times + outside,
    )


def spread(values: F) -> Spread | None:
    """Mean and percentiles of values in the order of arrival; None where there is nothing to count.

    Requests that share a queue are not independent. The part of requests below a percentile is counted in 32 stretches
    of the run; how much it varies between them gives its standard error (batch means: Law and Carson 1979, on the
    indicator as in Heidelberger and Lewis 1984), never taken below that of independent requests. The interval is that
    of the order statistics which far away. Runs of less than 320 requests, and those that are shorter than their queues
    take to fill, are too short for it.
    """
    in_order = values[np.isfinite(values)]
    sorted_values = np.sort(in_order)
    if not len(sorted_values):
        return None
    percentiles = {f"p{round(100 * p)}": float(np.quantile(sorted_values, p)) for p in PERCENTILES}
    return Spread(
        mean=float(sorted_values.mean()),
        confidence={f"p{round(100 * p)}": _interval(in_order, sorted_values, p) for p in PERCENTILES},
        **percentiles,
    )


def _interval(in_order: F, variance: F, p: float) -> tuple[float, float]:
    """The order statistics between which a percentile lies."""
    n = len(variance)
    half = _TWO_SIDED * sqrt(p * (1 - p) / n)
    length = n // _BATCHES
    if length >= _SHORT:
        below = in_order[: length * _BATCHES] <= np.quantile(variance, p)
        parts = below.reshape(_BATCHES, length).mean(1)
        half = max(half, _STUDENT * float(parts.std(ddof=1)) / sqrt(_BATCHES))
    low, high = int(np.floor(n * (p - half))), int(np.ceil(n * (p + half)))
    return float(variance[max(low, 0)]), float(variance[min(high, n - 1)])


def good(times: RequestTimes, first: float, per_token: float) -> NDArray[np.bool_]:
    """Requests within both limits; answers of one token have no time per token. (requests,)"""
    in_time = (times.first <= first) & (~np.isfinite(times.per_token) | (times.per_token <= per_token))
    return in_time & np.isfinite(times.whole)


def series(outcome: Outcome, output: NDArray[np.int32], readers: Outcome, block: int, bins: int = 200) -> dict[str, F]:
    """What the fleet did over time, by bin; requests that were refused count among arrivals alone.

    Requests that arrive, wait and decode, tokens per second, the part of prompts that was found in caches, and
    percentiles of the time to the first token of those who arrive in a bin; not a number where nobody does. ``readers``
    are those who look prefixes up, in blocks of ``block`` tokens; what each of their tiers gave stands apart.
    Counts of waiting and decoding requests are those at the beginning of a bin. (bins,)
    """
    is_answered = outcome.answered
    q, output = outcome.requests[is_answered], output[is_answered]
    edges = np.linspace(0.0, max(outcome.end, 1e-9), bins + 1)
    width = edges[1] - edges[0]

    def below(times: F) -> F:
        return np.searchsorted(np.sort(times), edges[:-1], side="right").astype(float)

    rest = np.maximum(output - 1, 0).astype(float)
    # An answer's tokens are spread evenly from its first to its last.
    token_counts = spread_over(q["first"], q["finish"], rest, edges) + np.histogram(q["first"], edges)[0]
    begin = q["admitted"]
    tokens = np.histogram(begin, edges, weights=q["prompt"].astype(float))[0]
    found_before = np.histogram(begin, edges, weights=readers.requests["hit"][is_answered].astype(float))[0]
    return {
        "time": edges[:-1],
        "arrivals": np.histogram(outcome.requests["arrival"], edges)[0] / width,
        "waiting": below(q["arrival"]) - below(q["admitted"]),
        "decoding": below(q["first"]) - below(q["finish"]),
        "tokens_per_second": token_counts / width,
        **_waits_over_time(q, edges),
        "cached_share": np.divide(found_before, tokens, out=np.zeros_like(tokens), where=tokens > 0),
        **{
            f"cached_share_{name}": np.divide(
                np.histogram(begin, edges, weights=blocks[is_answered] * float(block))[0],
                tokens,
                out=np.zeros_like(tokens),
                where=tokens > 0,
            )
            for name, blocks in readers.hit_blocks.items()
        },
    }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replay:
    """What each replica holds at moments of a run."""

    time: F
    """(moments,) [s]"""
    waiting: F
    reading: F
    writing: F
    """Requests. (replicas, moments)"""


def replay(outcomes: Sequence[Outcome], moments: int = 120) -> Replay:
    """Requests of each replica over time: those that wait, whose prompts are read, whose answers are written.

    Replicas of all pools, one after the other. A request that loses its place counts where it was last, as one that
    has it still.
    """
    time = np.linspace(0.0, max(outcome.end for outcome in outcomes), moments)
    waiting: list[F] = []
    reading: list[F] = []
    writing: list[F] = []
    for outcome in outcomes:
        q = outcome.requests[outcome.answered]
        # In a pool that only writes, first tokens came before a request was admitted.
        first = np.maximum(q["first"], q["admitted"])
        for values, since, until in (
            (waiting, q["arrival"], q["admitted"]),
            (reading, q["admitted"], first),
            (writing, first, q["finish"]),
        ):
            values.append(_counts(q["place"], len(outcome.replicas.own), since, until, time))
    return Replay(
        time=time, waiting=np.concatenate(waiting), reading=np.concatenate(reading), writing=np.concatenate(writing)
    )


def _counts(place: NDArray[np.int32], replicas: int, since: F, until: F, time: F) -> F:
    """Requests of each replica that are between two of their times. (replicas, moments)"""
    change = np.zeros((replicas, len(time) + 1))
    for edge, way in ((since, 1.0), (until, -1.0)):
        np.add.at(change, (place, np.searchsorted(time, edge)), way)
    return np.cumsum(change, axis=1)[:, : len(time)]


def _waits_over_time(q: Requests, edges: F) -> dict[str, F]:
    """Median and 99th percentile of the time to the first token, by the bin of arrival. (bins,) [s]"""
    waits = {name: np.full(len(edges) - 1, np.nan) for name in ("first_p50", "first_p99")}
    order = np.argsort(q["arrival"], kind="stable")
    wait = (q["first"] - q["arrival"])[order]
    ends = np.searchsorted(q["arrival"][order], edges)
    for k in range(len(edges) - 1):
        if ends[k + 1] > ends[k]:
            waits["first_p50"][k], waits["first_p99"][k] = np.quantile(wait[ends[k] : ends[k + 1]], (0.5, 0.99))
    return waits


def spread_over(start: F, stop: F, amount: F, edges: F) -> F:
    """Amounts that fall evenly between start and stop, by bin: differences of the integral at the edges."""
    span = np.maximum(stop - start, 1e-12)
    rate = amount / span
    order_start, order_stop = np.argsort(start), np.argsort(stop)
    # Integral at t: sum of rate (t - start) over those begun, less rate (t - stop) over those ended.
    started_before = np.searchsorted(start[order_start], edges, side="right")
    stopped_before = np.searchsorted(stop[order_stop], edges, side="right")
    rates, starts = _sums(rate[order_start]), _sums((rate * start)[order_start])
    off, stops = _sums(rate[order_stop]), _sums((rate * stop)[order_stop])
    integral = (
        edges * rates[started_before] - starts[started_before] - edges * off[stopped_before] + stops[stopped_before]
    )
    return np.diff(integral)


def _sums(values: F) -> F:
    return np.concatenate(([0.0], np.cumsum(values)))


def timeline(outcome: Outcome, most: int = 2000) -> list[dict[str, object]]:
    """Chrome's trace events of the first requests, for Perfetto: one track per replica and lane. [us]"""
    q = outcome.requests[outcome.answered][:most]
    events: list[dict[str, object]] = []
    lanes: dict[int, list[float]] = {}
    for at in np.argsort(q["arrival"], kind="stable"):
        request = q[at]
        free = lanes.setdefault(int(request["place"]), [])
        lane = next((i for i, until in enumerate(free) if until <= request["arrival"]), len(free))
        free[lane : lane + 1] = [float(request["finish"])]
        for name, start, stop in (
            ("wait", request["arrival"], request["admitted"]),
            ("prompt", request["admitted"], request["first"]),
            ("answer", request["first"], request["finish"]),
        ):
            if stop > start:
                events.append(
                    {
                        "name": name,
                        "cat": "request",
                        "ph": "X",
                        "ts": float(start) * 1e6,
                        "dur": float(stop - start) * 1e6,
                        "pid": int(request["place"]),
                        "tid": lane,
                        "args": {"request": int(at), "prompt": int(request["prompt"]), "hit": int(request["hit"])},
                    }
                )
    return events
