"""What a token of equal capability cost over time: the cheapest model that reaches a score, day by day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, sqrt

import numpy as np

from rackmath.errors import InputError

BLEND = 3.0
"""Input tokens for each output token of the price that is compared, as analysts blend them."""
_FEWEST = 3
"""Records through which a line has a range."""
_SHORTEST = 1.0
"""Of the time between the first and the last record, for a rate per year. [years]"""
_APART = 0.05
"""Between the scores of leading models that are followed. [1]"""
_T90 = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812)
"""95th percentile of Student's t with 1 to 10 degrees of freedom; further ones take the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredOffer:
    """A model with a published score, at a price from a day on. [USD per million tokens]"""

    model: str
    score: float
    """Part of the benchmark that is right. [1]"""
    year: float
    """From when it was sold so, as a decimal year."""
    input: float
    output: float

    @property
    def price(self) -> float:
        """Of a million tokens, three of input for each of output. [USD]"""
        return (BLEND * self.input + self.output) / (BLEND + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decline:
    """How the price of one score fell."""

    score: float
    records: tuple[ScoredOffer, ...]
    """Each cheaper than all before it that reach the score, by date."""
    per_year: float | None
    """Factor by which the price falls in a year, by a line through ln price of the records; None where they span less
    than a year. [1]"""
    low: float | None
    """5th percentile of that, None for fewer than three records. [1]"""
    high: float | None

    @property
    def factor(self) -> float:
        """First price over last. [1]"""
        return self.records[0].price / self.records[-1].price


def leading_scores(models: Sequence[ScoredOffer]) -> list[float]:
    """Scores of models that led on their day and that a cheaper model has reached since, well apart, ascending."""
    scores: list[float] = []
    best = 0.0
    for model in sorted(models, key=lambda model: (model.year, -model.score)):
        if model.score >= best + _APART and len(decline(models, model.score).records) > 1:
            scores.append(model.score)
            best = model.score
    return scores


def decline(models: Sequence[ScoredOffer], score: float) -> Decline:
    """Records of the price of a score, and how fast it falls.

    A record stands from its day on: a model whose price rises later does not undo it. The range is that of a straight
    line through few points that were chosen for being lowest; it says nothing of the years that come.

    Errors: :class:`InputError` for a score that nobody reaches.
    """
    if not 0 < score <= 1:
        raise InputError("--score", score, "write a part of the benchmark above 0 and up to 1, as in 0.5 or 50%")
    reaching = sorted((m for m in models if m.score >= score), key=lambda model: (model.year, model.price))
    if not reaching:
        best = max((model.score for model in models), default=0.0)
        raise InputError("--score", score, f"no model of the table reaches it; the best has {best:g}")
    records: list[ScoredOffer] = []
    for model in reaching:
        if not records or model.price < records[-1].price:
            records.append(model)
    per_year, low, high = _line(records)
    return Decline(score=score, records=tuple(records), per_year=per_year, low=low, high=high)


def _line(records: Sequence[ScoredOffer]) -> tuple[float | None, float | None, float | None]:
    """Fall per year by least squares on ln price, and its 90 % range."""
    years = np.array([record.year for record in records])
    if years[-1] - years[0] < _SHORTEST:
        return None, None, None
    across = years - years.mean()
    spread = float(across @ across)
    prices = np.log([record.price for record in records])
    slope = float(across @ prices) / spread
    if len(records) < _FEWEST:
        return exp(-slope), None, None
    rest = prices - prices.mean() - slope * across
    free = len(records) - 2
    error = sqrt(float(rest @ rest) / free / spread) * _T90[min(free, len(_T90)) - 1]
    return exp(-slope), exp(-slope - error), exp(-slope + error)
