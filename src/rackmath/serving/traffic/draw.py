"""The model of traffic -> requests."""

from __future__ import annotations

from dataclasses import replace
from math import erf

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.serving.simulator.workload import LATEST, LONGEST, Arrivals, plain
from rackmath.serving.traffic.fit import passed
from rackmath.serving.traffic.model import PARTS, PROBABILITIES, LengthClass, Reuse, SharedPrefixes, TrafficModel

F = NDArray[np.float64]
I4 = NDArray[np.int32]

_MOST = 100_000_000
"""Requests at most."""
_LOOKED_AT = 300
"""Requests on either side of an age among which one with enough blocks, and not gone on from, is looked for."""

_SCORES: F = np.linspace(-8.0, 8.0, 3201)
_CHANCES: F = np.array([0.5 * (1 + erf(score / 2**0.5)) for score in _SCORES])


def draw(model: TrafficModel, requests: int, random: np.random.Generator) -> Arrivals:
    """Draw requests that arrive, are as long and share prefixes as the model says.

    Errors: :class:`InputError` for a number of requests that cannot be meant, or that would take thirty years.
    """
    if not 1 <= requests <= _MOST:
        raise InputError("--requests", requests, f"write 1 to {_MOST:,}")
    if requests / model.rate > LATEST:
        raise InputError("--requests", requests, f"take more than {LATEST:g} s at {model.rate:.3g} requests/s")
    arrival = _arrivals(model, requests, random)
    prompt, output = _lengths(model, requests, random)
    work = plain(arrival, prompt, output)
    return work if model.prefixes is None else _with_prefixes(work, model.prefixes, random)


def _arrivals(model: TrafficModel, requests: int, random: np.random.Generator) -> F:
    """Gaps in the integral of the rate, each one's rank bound to the last one's; then the rate's own time."""
    together = np.round(np.interp(random.random(requests), PROBABILITIES, model.together)).astype(np.int64)
    moments = int(np.searchsorted(np.cumsum(together), requests)) + 1
    scores = _bound(random.standard_normal(moments), model.persistence)
    gaps = np.interp(np.interp(scores, _SCORES, _CHANCES), PROBABILITIES, model.gaps)
    # Between the quantiles that are told means are not exact, and the rate is to be.
    target = np.repeat(np.cumsum(gaps), together[:moments])[:requests]
    target *= _mean(model.together) / (_mean(model.gaps) * model.rate)
    profile = np.array(model.profile) / np.mean(model.profile)
    edges = np.linspace(0.0, model.period, len(profile) + 1)
    whole, rest = np.divmod(target, model.period)
    profile_integral = np.append(passed(edges[:-1], profile, model.period), model.period)
    arrival = whole * model.period + np.interp(rest, profile_integral, edges)
    return arrival - arrival[0]


def _bound(noise: F, persistence: float) -> F:
    """Normal scores each of which is correlated with the one before. (moments,)"""
    scores, rest = np.empty_like(noise), (1 - persistence**2) ** 0.5
    score = float(noise[0])
    for i, fresh in enumerate(noise.tolist()):
        score = persistence * score + rest * fresh if i else fresh
        scores[i] = score
    return scores


def _mean(quantiles: tuple[float, ...]) -> float:
    """Mean of a distribution that is linear between its quantiles."""
    values = np.array(quantiles)
    return float(np.diff(PROBABILITIES) @ (values[1:] + values[:-1])) / 2


def _lengths(model: TrafficModel, requests: int, random: np.random.Generator) -> tuple[I4, I4]:
    shares = np.array([group.share for group in model.classes])
    of = random.choice(len(shares), requests, p=shares / shares.sum())
    first, second = random.standard_normal((2, requests))
    prompt, output = np.empty(requests), np.empty(requests)
    for k, group in enumerate(model.classes):
        of_class = of == k
        means, deviations = _logs(group)
        normal = group.correlation * first[of_class] + (1 - group.correlation**2) ** 0.5 * second[of_class]
        prompt[of_class] = np.exp(means[0] + deviations[0] * first[of_class])
        output[of_class] = np.exp(means[1] + deviations[1] * normal)
    return (
        np.clip(np.round(prompt), 1, min(model.longest_input, LONGEST)).astype(np.int32),
        np.clip(np.round(output), 1, min(model.longest_output, LONGEST)).astype(np.int32),
    )


def _logs(group: LengthClass) -> tuple[F, F]:
    """Means and standard deviations of the logarithms of both lengths."""
    variance = np.log1p(np.array([group.input_spread, group.output_spread]) ** 2)
    return np.log([group.input, group.output]) - variance / 2, np.sqrt(variance)


def _with_prefixes(work: Arrivals, prefixes: SharedPrefixes, random: np.random.Generator) -> Arrivals:
    """Give every request its blocks: those of an earlier one to a part of its prompt, then new ones."""
    size = prefixes.block
    count = work.prompt // size if prefixes.whole else -(-work.prompt // size)
    start = np.concatenate(([0], np.cumsum(count))).astype(np.int64)
    blocks = np.zeros(int(start[-1]), np.int64)
    common = np.where(
        (count >= prefixes.common) & (random.random(len(work)) < prefixes.common_share), prefixes.common, 0
    )
    part, age = _reused(prefixes.reuse, count - common, random)
    fresh, has_follower = prefixes.common, np.zeros(len(work), np.bool_)
    for i, block_count in enumerate(count.tolist()):
        begin, shared_blocks = int(start[i]), int(common[i])
        blocks[begin : begin + shared_blocks] = np.arange(shared_blocks)
        if i and part[i] and block_count > shared_blocks:
            target = shared_blocks + max(round(part[i] * (block_count - shared_blocks)), 1)
            earlier = _earlier(count, has_follower, max(i - int(age[i]), 0), i, target)
            has_follower[earlier] = True
            shared_blocks = min(target, int(count[earlier]))
            blocks[begin : begin + shared_blocks] = blocks[start[earlier] : start[earlier] + shared_blocks]
        blocks[begin + shared_blocks : begin + block_count] = np.arange(fresh, fresh + block_count - shared_blocks)
        fresh += block_count - shared_blocks
    return replace(work, start=start, blocks=blocks, block=size)


def _reused(reuse: tuple[Reuse, ...], block_count: I4, random: np.random.Generator) -> tuple[F, F]:
    """Part of each prompt that is an earlier one's, 0 for none, and that one's age in requests. (requests,)"""
    part, age = np.zeros(len(block_count)), np.ones(len(block_count))
    if not reuse:
        return part, age
    group = np.minimum(np.searchsorted([kind.longest for kind in reuse], block_count), len(reuse) - 1)
    going_on = random.random(len(block_count)) < np.array([kind.share for kind in reuse])[group]
    for k, kind in enumerate(reuse):
        of_group = np.flatnonzero((group == k) & going_on)
        part[of_group] = np.interp(random.random(len(of_group)), PARTS, kind.part)
        age[of_group] = np.round(np.exp(np.interp(random.random(len(of_group)), PARTS, np.log(kind.age))))
    return part, age


def _earlier(count: I4, has_follower: NDArray[np.bool_], about: int, before: int, least_blocks: int) -> int:
    """An earlier request near ``about`` with so many blocks that nobody has gone on from yet, as conversations do.

    Else the longest of those that are looked at.
    """
    best, least = about, np.inf
    for step in range(_LOOKED_AT):
        for at in (about - step, about + step):
            if 0 <= at < before:
                # What is missing of the blocks comes first.
                lacks = max(least_blocks - int(count[at]), 0) + (0.5 if has_follower[at] else 0.0)
                if lacks == 0.0:
                    return at
                if lacks < least:
                    best, least = at, lacks
    return best
