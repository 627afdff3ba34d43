"""What a context cliff adds to the size of a cache: it may stand where KV reads overtake the weights, or anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.prices.market import RIDGE, Market

Array = NDArray[np.float64]

SHORTEST, LONGEST = 1e3, 1e7
"""Contexts at which a cliff may stand. [tokens]"""
_CELL = 0.1 * log(10)
"""Cliffs stand at round numbers, ten to a decade."""
_BY_CHOICE = 0.1 / log(LONGEST / SHORTEST, 10)
"""Chance of one round number if a provider takes any of them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CacheDraws:
    """Draws of stored bytes per token at 16 bit, and how likely the cliff is to show them."""

    logs: Array
    weights: Array
    crossover: float
    """Probability that the cliff stands where KV reads overtake the weights; even before it is seen."""


def cache_from_cliff(cliff: float, active: Array, weights: Array, market: Market) -> CacheDraws:
    r"""Cache given a cliff, over draws of the active parameters.

    Where KV reads at 8 bit overtake 8-bit weights, :math:`c = 2 N / (\rho T)`. That this
    is why the cliff is there counts as much, before it is seen, as that somebody chose a round number.

    Parameters
    ----------
    cliff : float
        [tokens]
    active, weights : array
        Logarithms of active parameters and the weights of the draws. (draws,)

    Errors: :class:`InputError` for a cliff below 1,000 or above 10 M tokens.
    """
    if not SHORTEST <= cliff <= LONGEST:
        raise InputError("cliff", cliff, f"write a context from {SHORTEST:g} to {LONGEST:g} tokens")
    log_cache = active + log(2 / (RIDGE * cliff))
    off = (log_cache - market.cache) / market.cache_scale
    chance = weights * np.exp(-(off**2) / 2) / (sqrt(2 * pi) * market.cache_scale) * _CELL
    total = float(chance.sum())
    part = total / (total + _BY_CHOICE)
    random = np.random.default_rng(len(active))
    prior = market.cache + market.cache_scale * random.standard_normal(len(active))
    even = np.full(len(active), (1 - part) / len(active))
    return CacheDraws(
        logs=np.concatenate([log_cache, prior]),
        weights=np.concatenate([chance / total * part, even]),
        crossover=part,
    )
