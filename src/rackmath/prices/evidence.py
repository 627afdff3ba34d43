"""How much better one hypothesis foretells a ratio than the habits of other providers do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log10

import numpy as np
from numpy.typing import NDArray

from rackmath.prices.decode import Interval
from rackmath.prices.hypotheses import CONVENTION, RatioContext, RatioDraws, stories
from rackmath.prices.importance import quantiles
from rackmath.prices.page import CLIFF, Listing, Ratio, ratios
from rackmath.prices.population import Population

Array = NDArray[np.float64]

CELLS = 10
"""Cells per decade: the Renard series R10 (ISO 3), to which round prices and powers of two both fall."""
_MULTIPLES, _CLIFFS = (-30, 30), (30, 70)
"""Cells that a multiple, and a context, can fall into: 0.001 to 1,000, and 1,000 to 10 M tokens."""
SLACK = 0.01
"""Chance that a hypothesis is right but this page is not what it says."""
_AT = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


@dataclass(frozen=True, slots=True, kw_only=True)
class HypothesisTest:
    """One hypothesis about one ratio."""

    hypothesis: str
    predicted: Interval | None
    """None for what other providers do, and where no finite price would do."""
    probability: float
    """Of the cell that the published ratio is in."""
    log10_factor: float
    """Bayes factor against convention, as a decimal logarithm."""
    implies: str
    implied: Interval | None
    impossible: float
    """Part of the models that the hypothesis cannot be true of, given the ratio."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioEvidence:
    """One ratio of one model and what each hypothesis makes of it."""

    model: str
    ratio: Ratio
    evidence: tuple[HypothesisTest, ...]


def cell(value: float) -> int:
    """Number of the cell that a ratio falls into."""
    return round(CELLS * log10(value))


class ProviderHabits:
    """How often each provider prints each ratio; providers count once, however many models they sell."""

    def __init__(self, listings: Iterable[Listing]) -> None:
        self._seen: defaultdict[str, defaultdict[str, list[tuple[str, int]]]] = defaultdict(lambda: defaultdict(list))
        for listing in listings:
            for ratio in ratios(listing):
                name = listing.prices.model.rsplit("/", 1)[-1].lower()
                self._seen[ratio.kind][listing.prices.provider].append((name, cell(ratio.value)))
        self._parts: dict[tuple[str, str, frozenset[str]], tuple[dict[int, float], int]] = {}

    def probability(self, ratio: Ratio, provider: str, products: frozenset[str]) -> float:
        """Chance of a ratio's cell if providers copy each other: those who are not this one, models not sold here.

        One provider's worth of an even spread over all cells stands beside the others, so that
        nothing is impossible.
        """
        key = ratio.kind, provider, products
        if key not in self._parts:
            parts: defaultdict[int, float] = defaultdict(float)
            other_count = 0
            for name, models in self._seen[ratio.kind].items():
                cells = [at for model, at in models if model not in products]
                if name != provider and cells:
                    other_count += 1
                    for at in cells:
                        parts[at] += 1 / len(cells)
            self._parts[key] = dict(parts), other_count
        shares, other_count = self._parts[key]
        return (shares.get(cell(ratio.value), 0.0) + _even(ratio)) / (other_count + 1)


def read(
    listing: Listing,
    products: frozenset[str],
    habits: ProviderHabits,
    models: Population,
    speeds: Mapping[str, float],
) -> list[RatioEvidence]:
    """All ratios of a listing against all hypotheses.

    Parameters
    ----------
    products : set of str
        Models of this provider, which say nothing about the habits of others.
    speeds : mapping
        Claimed speed over the standard tier's, by tier.
    """
    price = listing.prices.tiers[0].input
    weights = models.given(price)
    readings: list[RatioEvidence] = []
    for ratio in ratios(listing):
        usual = habits.probability(ratio, listing.prices.provider, products)
        question = RatioContext(ratio=ratio, input=price, speed=speeds.get(ratio.kind))
        entries = [_evidence(story, ratio, weights, usual) for story in stories(question, models)]
        entries.append(
            HypothesisTest(
                hypothesis=CONVENTION,
                predicted=None,
                probability=usual,
                log10_factor=0.0,
                implies="",
                implied=None,
                impossible=0.0,
            )
        )
        readings.append(RatioEvidence(model=listing.prices.model, ratio=ratio, evidence=tuple(entries)))
    return readings


def mass(story: RatioDraws, ratio: Ratio, weights: Array) -> float:
    """Chance of a ratio's cell under a hypothesis, its slack included. Sums to at most 1 over cells."""
    predicted = np.broadcast_to(story.predicted, weights.shape)
    is_finite = np.isfinite(predicted)
    at = np.round(CELLS * np.log10(np.where(is_finite, predicted, 1.0)))
    inside = float(weights[is_finite & (at == cell(ratio.value))].sum())
    return (1 - SLACK) * inside + SLACK * _even(ratio)


def _even(ratio: Ratio) -> float:
    """Chance of one cell when all are alike."""
    low, high = _CLIFFS if ratio.kind == CLIFF else _MULTIPLES
    return 1 / (high - low + 1)


def _evidence(story: RatioDraws, ratio: Ratio, weights: Array, usual: float) -> HypothesisTest:
    chance = mass(story, ratio, weights)
    interval, missing = None, 0.0
    if story.implied is not None:
        values = np.broadcast_to(story.implied, weights.shape)
        missing = float(weights[~np.isfinite(values)].sum())
        interval = _interval(values, weights)
    return HypothesisTest(
        hypothesis=story.hypothesis,
        predicted=_interval(np.broadcast_to(story.predicted, weights.shape), weights),
        probability=chance,
        log10_factor=log10(chance / usual),
        implies=story.implies,
        implied=interval,
        impossible=missing,
    )


def _interval(values: Array, weights: Array) -> Interval | None:
    """Middle and ranges of the finite ones; None where there are none."""
    is_finite = np.isfinite(values)
    total = float(weights[is_finite].sum())
    if not total > 0:
        return None
    low90, low50, median, high50, high90 = (
        float(value) for value in quantiles(values[is_finite], weights[is_finite] / total, _AT)
    )
    return Interval(median=median, low50=low50, high50=high50, low90=low90, high90=high90)
