"""A trace -> the model of its traffic."""

from __future__ import annotations

from itertools import pairwise
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.serving.simulator.workload import Arrivals
from rackmath.serving.traffic.mixture import length_classes
from rackmath.serving.traffic.model import PARTS, PROBABILITIES, Reuse, SharedPrefixes, TrafficModel

F = NDArray[np.float64]
I8 = NDArray[np.int64]

_FEWEST = 100
"""Requests below which nothing is fitted."""
_DAY = 86_400.0
_BINS = 48
"""Parts of a trace of less than two days, in which its rate is told."""
_PER_BIN = 20
"""Requests that such a part has on average at least."""
_MANY = 0.1
"""Part of all requests from which a beginning that they have is a common one."""
_KINDS = 8
"""Groups of requests by length, of equal shares, whose reuse is told apart."""


def fit_traffic(work: Arrivals, *, seed: int = 0) -> TrafficModel:
    """Fit rate over time, gaps, lengths and reuse of prefixes.

    Rates are told in hours of the week for traces of two weeks, of the day for two days, else in parts of the trace.
    Gaps are measured in the integral of that rate, so that bursts are what the rate does not explain.

    Errors: :class:`InputError` for workloads without arrivals of their own, of less than 100 requests, or all at once.
    """
    if work.graph is not None:
        raise InputError(
            "traffic", "closed loop", "give a trace: users who wait for answers have no arrivals of their own"
        )
    if len(work) < _FEWEST:
        raise InputError("traffic", f"{len(work)} requests", f"give a trace of {_FEWEST} at least")
    if not work.span > 0:
        raise InputError("traffic", "all requests at once", "give a trace with times of arrival")
    arrival = work.arrival - work.arrival[0]
    # The last gap is a part of the trace as the others are.
    span = float(arrival[-1]) * len(work) / (len(work) - 1)
    period, bins = _period(span, len(work))
    profile = _profile(arrival, span, period, bins)
    moments, together = np.unique(arrival, return_counts=True)
    gaps = np.diff(passed(moments, profile, period))
    return TrafficModel(
        # Of a whole period: the last one of the trace may be cut.
        rate=len(work) / float(passed(np.array(span * (1 - 1e-12)), profile, period)),
        period=period,
        profile=tuple(profile.tolist()),
        gaps=tuple(np.quantile(gaps / gaps.mean(), PROBABILITIES).tolist()),
        together=tuple(np.quantile(together, PROBABILITIES, method="inverted_cdf").astype(float).tolist()),
        persistence=_persistence(gaps),
        classes=tuple(length_classes(work.prompt, work.output, np.random.default_rng(seed))),
        longest_input=int(work.prompt.max()),
        longest_output=int(work.output.max()),
        prefixes=_prefixes(work) if len(work.start) else None,
    )


def passed(time: F, profile: F, period: float) -> F:
    """Integral of a profile of rates from 0 to some times. [s]"""
    edges = np.concatenate(([0.0], np.cumsum(profile))) / len(profile) * period
    whole, rest = np.divmod(time, period)
    return whole * edges[-1] + np.interp(rest, np.linspace(0.0, period, len(profile) + 1), edges)


def _period(span: float, count: int) -> tuple[float, int]:
    """How long a rate takes to repeat, and the parts it is told in. [s]"""
    if span >= 14 * _DAY:
        return 7 * _DAY, 7 * 24
    if span >= 2 * _DAY:
        return _DAY, 24
    return span, int(np.clip(count // _PER_BIN, 1, _BINS))


def _profile(arrival: F, span: float, period: float, bins: int) -> F:
    """Rates in parts of the period, over their mean. (bins,)"""
    counts = np.histogram(arrival % period, np.linspace(0.0, period, bins + 1))[0].astype(float)
    edges = np.linspace(0.0, period, bins + 1)
    # How often each part was seen: the last period may be cut.
    whole, rest = divmod(span, period)
    duration = whole + np.clip((rest - edges[:-1]) / np.diff(edges), 0.0, 1.0)
    rates = counts / np.maximum(duration, 1e-9)
    return rates / rates.mean()


def normal_scores(values: F) -> F:
    """Normal quantiles of the ranks of values; equal values share theirs."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    middle = (np.cumsum(count) - count / 2) / len(values)
    normal = NormalDist()
    return np.array([normal.inv_cdf(float(p)) for p in middle])[place]


def _persistence(gaps: F) -> float:
    scores = normal_scores(gaps)
    if scores.std() == 0 or len(scores) < 3:
        return 0.0
    return float(np.clip(np.corrcoef(scores[:-1], scores[1:])[0, 1], -0.99, 0.99))


def reuse_of(work: Arrivals) -> tuple[I8, I8, I8]:
    """Blocks of each request, how many of them from its beginning are an earlier one's, and how long ago that was.

    Ages count requests; 0 where nothing is an earlier one's. (requests,)
    """
    count = np.diff(work.start)
    last_use: dict[int, int] = {}
    shared_blocks, age = np.zeros(len(work), np.int64), np.zeros(len(work), np.int64)
    blocks = work.blocks.tolist()
    start = work.start.tolist()
    for i in range(len(work)):
        own_blocks = blocks[start[i] : start[i + 1]]
        match_length = 0
        for block in own_blocks:
            if block not in last_use:
                break
            match_length += 1
        if match_length:
            shared_blocks[i], age[i] = match_length, i - last_use[own_blocks[match_length - 1]]
        last_use.update(dict.fromkeys(own_blocks, i))
    return count, shared_blocks, age


def _common(work: Arrivals, count: I8) -> tuple[int, NDArray[np.bool_]]:
    """Blocks of the beginning that many requests have, and which requests have it."""
    having, depth = np.ones(len(work), np.bool_), 0
    while True:
        longer = np.flatnonzero(having & (count > depth))
        if not len(longer):
            break
        ids, times = np.unique(work.blocks[work.start[longer] + depth], return_counts=True)
        if times.max() < _MANY * len(work):
            break
        is_common = np.zeros(len(work), np.bool_)
        is_common[longer] = work.blocks[work.start[longer] + depth] == ids[times.argmax()]
        having, depth = is_common, depth + 1
    return depth, having & (depth > 0)


def _prefixes(work: Arrivals) -> SharedPrefixes:
    count, shared_blocks, age = reuse_of(work)
    common, having = _common(work, count)
    base = np.where(having, common, 0)
    # What is the common beginning's is no other request's.
    shared_blocks, own_blocks = np.maximum(shared_blocks - base, 0), count - base
    edges = (
        np.unique(np.quantile(own_blocks[own_blocks > 0], np.arange(1, _KINDS + 1) / _KINDS))
        if own_blocks.any()
        else np.zeros(0)
    )
    return SharedPrefixes(
        block=work.block,
        whole=bool((count <= work.prompt // work.block).mean() > 0.5),
        common=common,
        common_share=float(having.sum() / max((count >= common).sum(), 1)) if common else 0.0,
        reuse=tuple(
            _reuse(float(longest), (own_blocks > shortest) & (own_blocks <= longest), own_blocks, shared_blocks, age)
            for shortest, longest in pairwise([0.0, *edges.tolist()])
        ),
    )


def _reuse(longest: float, is_class: NDArray[np.bool_], own_blocks: I8, shared_blocks: I8, age: I8) -> Reuse:
    users = np.flatnonzero(is_class & (shared_blocks > 0))
    no_users = not len(users)
    return Reuse(
        longest=longest,
        share=len(users) / max(int(is_class.sum()), 1),
        part=tuple(
            (
                np.zeros(len(PARTS)) if no_users else np.quantile(shared_blocks[users] / own_blocks[users], PARTS)
            ).tolist()
        ),
        age=tuple((np.ones(len(PARTS)) if no_users else np.quantile(age[users], PARTS)).tolist()),
    )
