"""How tokens choose among the experts of a mixture: evenly, by a power law, or as counted; alone or together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import lgamma

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.models.numbers import Number

Array = NDArray[np.float64]

GRID = np.unique(np.concatenate([np.arange(0, 16, 0.25), np.arange(16.0, 33.0), np.geomspace(33, 1e7, 128)]))
"""Tokens at which distinct experts are computed; between them they are interpolated."""

INTERVAL = 3000
"""Passes between two placements of experts by load where nothing is said: vLLM's ``EPLBConfig.step_interval``; SGLang's
``--eplb-rebalance-num-iterations`` is 1,000. [passes]"""

_NONE = 1e-6
"""Correlation below which tokens choose independently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """Popularity of experts, and what is done about it.

    Parameters
    ----------
    skew : float
        Exponent s of a power law: the i-th expert is wanted in proportion to 1 / i^s.
    counts : tuple of float
        Tokens of each expert as counted, in any order, instead of the power law; of several layers one after the other.
    correlation : float
        Correlation of two tokens' choices of one expert: 0 where they choose independently, as the tokens of unlike
        requests do. [1]
    redundant : int or None
        Copies that are placed by load (EPLB); None where experts lie in order and nothing is copied.
    interval : int
        Passes from one placement by load to the next. [passes]

    Errors: :class:`InputError` for numbers out of range.
    """

    skew: float = 0.0
    counts: tuple[float, ...] = ()
    correlation: float = 0.0
    redundant: int | None = None
    interval: int = INTERVAL

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        for field, value, low, high in (
            ("--expert-skew", self.skew, 0.0, 5.0),
            ("--expert-correlation", self.correlation, 0.0, 0.9),
            ("--redundant-experts", self.redundant or 0, 0, 100_000),
            ("--eplb-step-interval", self.interval, 1, 10**9),
        ):
            if not low <= value <= high:
                raise InputError(field, value, f"write a number from {low:g} to {high:g}")
        if self.counts and not (min(self.counts) >= 0 and sum(self.counts) > 0 and np.isfinite(sum(self.counts))):
            raise InputError("--expert-load", "counts", "write tokens of each expert, none negative, not all zero")

    def chances(self, experts: int, active: float) -> Array:
        r"""Chance that a token goes to each expert, by layer: they add up to those that it meets. (layers, experts)

        .. math:: p_i = \min(1, c w_i), \quad \sum_i p_i = k

        Errors: :class:`InputError` for counts of another number of experts.
        """
        return _chances(self, experts, active)

    def distinct(self, experts: int, active: float, tokens: Number) -> Number:
        r"""Expected distinct experts that tokens touch, the mean over layers. [experts]

        .. math:: \sum_i 1 - \frac{\Gamma(b_i + T) \Gamma(a_i + b_i)}{\Gamma(b_i) \Gamma(a_i + b_i + T)},
                  \quad a_i = p_i \kappa, \quad b_i = (1 - p_i) \kappa, \quad \kappa = 1 / \rho - 1

        the chance that an expert is left out by T tokens whose choices of it have correlation rho: a beta-binomial's.
        Without correlation it is (1 - p)^T.
        """
        return interpolated(tokens, _distinct_on_grid(self, experts, active))


def interpolated(tokens: Number, values: Array) -> Number:
    """Values at :data:`GRID` for any number of tokens."""
    result = np.interp(np.asarray(tokens, dtype=float), GRID, values)
    return float(result) if np.ndim(result) == 0 else result


def touched(routing: Routing, chance: Array, tokens: Array) -> Array:
    """Chance that experts of these chances are met by any of so many tokens. (..., tokens)"""
    if routing.correlation < _NONE:
        return -np.expm1(tokens * np.log1p(-np.minimum(chance[..., np.newaxis], 1 - 1e-15)))
    # Orders of the same experts, and experts that are wanted alike, have the same few chances.
    unlike, place = np.unique(chance, return_inverse=True)
    return _met_together(routing.correlation, tuple(unlike), tuple(tokens))[place.reshape(chance.shape)]


@lru_cache(maxsize=64)
def _chances(routing: Routing, experts: int, active: float) -> Array:
    if routing.counts:
        if len(routing.counts) % experts:
            raise InputError(
                "--expert-load", len(routing.counts), f"counts: write {experts}, or as many for each layer"
            )
        weights = np.array(routing.counts).reshape(-1, experts)
        fewest = int((weights > 0).sum(axis=1).min())
        if fewest < min(active, experts):
            raise InputError("--expert-load", fewest, f"experts of a layer have tokens: each token goes to {active:g}")
    else:
        weights = np.arange(1.0, experts + 1)[np.newaxis, :] ** -routing.skew
    return np.array([_limited(row / row.sum(), min(active, float(experts))) for row in weights])


def _limited(weights: Array, total: float) -> Array:
    """Chances in proportion to weights, none above 1, that add up to a total."""
    chance = weights * total
    for _ in range(len(weights)):
        full = chance >= 1
        rest = weights[~full].sum()
        if not full.any() or rest <= 0:
            break
        shares = np.where(full, 1.0, weights * (total - full.sum()) / rest)
        if (shares <= 1 + 1e-12).all():
            chance = shares
            break
        chance = shares
    return np.minimum(chance, 1.0)


@lru_cache(maxsize=64)
def _met_together(correlation: float, chances: tuple[float, ...], tokens: tuple[float, ...]) -> Array:
    """Chance that an expert is met where choices have a correlation: a beta-binomial's. (chances, tokens)"""
    strength, step = 1 / correlation - 1, np.array(tokens)
    b = np.maximum((1 - np.array(chances)) * strength, 1e-12)[:, np.newaxis]
    return -np.expm1(_log_gamma_step(b, step) - _log_gamma_step(np.array(strength), step))


def _log_gamma_step(x: Array, step: Array) -> Array:
    """Logarithm of Gamma(x + step) over Gamma(x)."""
    return _log_gamma(x + step) - _log_gamma(x)


_log_gamma = np.vectorize(lgamma, otypes=[float])


@lru_cache(maxsize=64)
def _distinct_on_grid(routing: Routing, experts: int, active: float) -> Array:
    return touched(routing, routing.chances(experts, active), GRID).sum(axis=1).mean(axis=0)
