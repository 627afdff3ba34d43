r"""Replicas for limits on times, as an autoscaler plans them that knows what a replica does at each batch.

Replicas for the load of the last interval, of r requests a second with prompts of I and answers of O tokens:

.. math:: n = r \left( \min(1, c_p) \, P(I) + (O - 1) / \Theta(L / c_d) \right)

with P the time of a prompt alone, Theta the tokens per second of the largest batch whose time per token is within a
limit L, and c measured over expected times, of first tokens and of tokens: what the profile leaves out.

Source: NVIDIA Dynamo, "Planner Design" (throughput-based scaling, constant predictor; documentation of 2025 and 2026).
There prompts and answers have workers of their own, each with its term; a replica that does both has both. The first
token of an answer is written with its prompt.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isfinite

import numpy as np
from numpy.typing import NDArray

from rackmath.serving.simulator.settings import Batching
from rackmath.serving.simulator.state import Requests
from rackmath.serving.simulator.times import StepTimes

F = NDArray[np.float64]


_LONGEST = 3600.0
"""[s]"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IntervalMeans:
    """Averages over an interval; not a number where there is nothing to average."""

    rate: float
    """Requests that came. [requests/s]"""
    prompt: float
    answer: float
    """Of those that came. [tokens]"""
    first: float
    """To the first token, of those that got it. [s]"""
    per_token: float
    """Of answers that ended. [s]"""


def observed(q: Requests, since: float, now: float) -> IntervalMeans:
    """What users of open traffic saw in an interval."""
    begin, end = np.searchsorted(q["arrival"], (since, now))
    rate = float(end - begin) / (now - since)
    # Whoever came longer ago has ended, or is beyond all limits.
    q = q[np.searchsorted(q["arrival"], since - _LONGEST) : end]
    arrivals = q["arrival"] >= since
    output_tokens = q["steps"] * q["growth"] + 1
    first_tokens = (q["first"] > since) & (q["first"] <= now)
    endings = (q["finish"] > since) & (q["finish"] <= now) & (output_tokens > 1)
    return IntervalMeans(
        rate=rate,
        prompt=_mean(q["prompt"][arrivals]),
        answer=_mean(output_tokens[arrivals]),
        first=_mean((q["first"] - q["arrival"])[first_tokens]),
        per_token=_mean((q["finish"] - q["first"])[endings] / (output_tokens[endings] - 1)),
    )


def _mean(values: F) -> float:
    return float(values.mean()) if len(values) else float("nan")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile:
    """What one replica does: its table of steps, its sequences and its cache."""

    times: StepTimes
    batching: Batching
    reads: bool = True
    """Whether prompts are read here; else only answers are written, after their first tokens."""

    def per_token(self, context: float) -> F:
        """Time per token at each batch from 1 to what it runs and the cache holds. (batches,) [s]"""
        most = int(min(max(self.batching.memory / context, 1.0), self.batching.max_num_seqs))
        batch = np.arange(1, most + 1)
        steps = self.times.base[1 : most + 1] + self.times.slope[1 : most + 1] * batch * context
        return steps / self.batching.yields[0]

    def throughput(self, context: float, limit: float) -> float:
        """Most tokens per second within a time per token; those of one sequence where none is within. [tokens/s]"""
        per_token = self.per_token(context)
        rate = np.arange(1, len(per_token) + 1) / per_token
        within = per_token <= limit
        return float(rate[within].max() if within.any() else rate[0])

    def prompt(self, tokens: float) -> float:
        """Time of a prompt alone, in pieces of the budget. [s]"""
        whole, rest = divmod(ceil(tokens), self.batching.max_num_batched_tokens)
        work = whole * self.times.prompt[self.batching.max_num_batched_tokens] + self.times.prompt[rest]
        return float(work + self.times.pair * tokens * (tokens + 1) / 2)


def replicas_for(load: IntervalMeans, running: float, profile: Profile, limit: float) -> float:
    """Replicas that the load of an interval takes, not rounded; 0 where nobody came.

    Parameters
    ----------
    running : float
        Sequences that a replica works on now.
    limit : float
        Of the time per token. [s]
    """
    if not load.rate > 0:
        return 0.0
    return load.rate * (_prompt_work(load, profile) + _answer_work(load, running, profile, limit))


def _prompt_work(load: IntervalMeans, profile: Profile) -> float:
    """Time of a replica for one prompt. [s]"""
    if not profile.reads:
        return 0.0
    alone = profile.prompt(load.prompt)
    return min(alone, load.first) if isfinite(load.first) else alone


def _answer_work(load: IntervalMeans, running: float, profile: Profile, limit: float) -> float:
    """Time of a replica for one answer, as a part of those that it writes at once. [s]"""
    if load.answer <= 1:
        return 0.0
    context = load.prompt + load.answer / 2
    steps = profile.per_token(context)
    expected = float(steps[min(max(round(running), 1), len(steps)) - 1])
    correction = load.per_token / expected if isfinite(load.per_token) else 1.0
    return (load.answer - 1) / profile.throughput(context, limit / correction)
