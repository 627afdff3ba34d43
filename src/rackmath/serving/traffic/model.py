"""What traffic is like: rate over time, gaps, classes of lengths, reuse of prefixes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError

F = NDArray[np.float64]

PROBABILITIES: F = np.array(
    [0.0, 0.001, 0.005, 0.01, 0.025, *(0.05 * k for k in range(1, 20)), 0.975, 0.99, 0.995, 0.999, 1.0]
)
"""Where quantiles of gaps are told."""
PARTS: F = np.linspace(0.0, 1.0, 9)
"""Where quantiles of reuse are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthClass:
    """Requests whose lengths are log-normal together."""

    share: float
    """Of all requests. [1]"""
    input: float
    """Mean tokens of a prompt. [tokens]"""
    input_spread: float
    """Standard deviation of it over its mean. [1]"""
    output: float
    """Mean tokens of an answer. [tokens]"""
    output_spread: float
    correlation: float
    """Of the logarithms of both. [1]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """How prompts of like length go on as earlier ones do, beyond the beginning that many have."""

    longest: float
    """Blocks beyond that beginning, of the longest of these prompts."""
    share: float
    """Of these prompts, those that go on as an earlier one. [1]"""
    part: tuple[float, ...]
    """Quantiles, at ``PARTS``, of the blocks that are an earlier request's over those of the prompt. [1]"""
    age: tuple[float, ...]
    """Quantiles, at ``PARTS``, of how many requests ago the last one was that has these blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPrefixes:
    """Blocks that prompts share from their beginnings on."""

    block: int
    """Tokens of a block. [tokens]"""
    whole: bool
    """Whether only blocks that a prompt fills are named; else the begun one at its end as well."""
    common: int
    """Blocks of a beginning that many prompts have, as of a system prompt."""
    common_share: float
    """Of the prompts that are longer than it, those that have it. [1]"""
    reuse: tuple[Reuse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficModel:
    """Traffic from which requests can be drawn."""

    rate: float
    """Mean. [requests/s]"""
    period: float
    """After which the rate repeats: a week, a day, or the length of the trace. [s]"""
    profile: tuple[float, ...]
    """Rate in equal parts of the period, over its mean. [1]"""
    gaps: tuple[float, ...]
    """Quantiles, at ``PROBABILITIES``, of the rate's integral between moments of arrival, over its mean. [1]"""
    together: tuple[float, ...]
    """Quantiles, at ``PROBABILITIES``, of the requests that come at one moment; 1 where each comes alone."""
    persistence: float
    """Correlation of a gap with the next, of their normal scores. [1]"""
    classes: tuple[LengthClass, ...]
    longest_input: int
    """[tokens]"""
    longest_output: int
    """[tokens]"""
    prefixes: SharedPrefixes | None = None

    def __post_init__(self) -> None:
        """Refuse what no requests can be drawn from.

        Errors: :class:`InputError` with the field.
        """
        self._check_arrivals()
        self._check_lengths()
        if self.prefixes is not None:
            _check(self.prefixes)

    def _check_arrivals(self) -> None:
        numbers = (self.rate, self.period, *self.profile, *self.gaps, *self.together)
        if not all(np.isfinite(value) and value >= 0 for value in numbers) or not self.rate * self.period > 0:
            raise InputError("rate, period, profile, gaps", self.rate, "write numbers from 0, rate and period above it")
        if not any(self.profile):
            raise InputError("profile", len(self.profile), "write rates, not all of them 0")
        for field, values in (("gaps", self.gaps), ("together", self.together)):
            if not any(values) or len(values) != len(PROBABILITIES):
                raise InputError(field, len(values), f"write {len(PROBABILITIES)} numbers, not all of them 0")
            if any(np.diff(values) < 0):
                raise InputError(field, values, "quantiles do not fall")
        if self.together[0] < 1:
            raise InputError("together", self.together[0], "at least one request comes at a moment")
        if not -1 < self.persistence < 1:
            raise InputError("persistence", self.persistence, "write a correlation between -1 and 1")

    def _check_lengths(self) -> None:
        if not self.classes or min(self.longest_input, self.longest_output) < 1:
            raise InputError("classes", len(self.classes), "write at least one, and longest lengths from 1")
        for traffic_class in self.classes:
            sizes = (traffic_class.share, traffic_class.input, traffic_class.output)
            if not all(0 < size < np.inf for size in sizes) or not -1 < traffic_class.correlation < 1:
                raise InputError(
                    "classes", traffic_class.share, "write a share, means above 0, a correlation between -1 and 1"
                )
            if not (0 <= traffic_class.input_spread <= 100 and 0 <= traffic_class.output_spread <= 100):
                raise InputError("classes", traffic_class.input_spread, "write spreads from 0 to 100")


def _check(prefixes: SharedPrefixes) -> None:
    if prefixes.common < 0 or not 0 <= prefixes.common_share <= 1:
        raise InputError("prefixes.common", prefixes.common, "write blocks from 0 and a share from 0 to 1")
    if prefixes.block < 1:
        raise InputError("prefixes.block", prefixes.block, "write a number of tokens from 1")
    for reuse in prefixes.reuse:
        if len(reuse.part) != len(PARTS) or len(reuse.age) != len(PARTS) or not 0 <= reuse.share <= 1:
            raise InputError(
                "prefixes.reuse", len(reuse.part), f"write a share and {len(PARTS)} quantiles of part and age"
            )
        if not all(0 <= part <= 1 for part in reuse.part) or not all(1 <= age <= 1e12 for age in reuse.age):
            raise InputError("prefixes.reuse", reuse.part, "write parts from 0 to 1, ages from 1 request")
