"""Adaptive importance sampling: draws from a density that is only known up to a constant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import lgamma, log, pi

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError

Array = NDArray[np.float64]

_FREEDOM = 5.0
"""Degrees of freedom of the Student-t proposal: tails heavier than a normal density's."""
_ROUNDS = 6
_LEARNING = 4096
"""Draws of a round that shapes the proposal."""
_BATCH = 16_384
_BATCHES = 16
_SEED = 20261121


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draws:
    """Weighted draws from a density."""

    points: Array
    """(draws, dimensions)"""
    weights: Array
    """(draws,), sum 1."""
    log_evidence: float
    """Logarithm of the density's integral."""
    effective: float
    """Independent draws that would say as much: 1 over the sum of the squared weights."""
    pareto_k: float
    """Shape of the tail of the weights; above 0.7 the draws are not to be trusted."""


def draw(
    log_density: Callable[[Array], Array], mean: Array, deviation: Array, effective: float = 1e4, seed: int = _SEED
) -> Draws:
    r"""Draws of which ``effective`` are worth as much as independent ones.

    A Student-t proposal takes the weighted mean and covariance of its own draws, round by
    round; the draws of the last proposal, with weights density / proposal, are the answer.

    Parameters
    ----------
    log_density : (n, d) -> (n,)
        Logarithm of the density, up to a constant.
    mean, deviation : (d,)
        Where to begin.

    Errors: :class:`InputError` if the density is zero everywhere that was looked at.
    Source: Cappe et al. 2008 (adaptive importance sampling); Vehtari et al. 2024 (the tail of the weights).
    """
    random = np.random.default_rng(seed)
    center: Array = np.asarray(mean, dtype=np.float64)
    factor: Array = np.diag(np.asarray(deviation, dtype=np.float64))
    for _ in range(_ROUNDS):
        points, proposal = _student(random, center, factor, _LEARNING)
        weights = _normal_weights(log_density(points) - proposal)[0]
        center = weights @ points
        # A few rows of weight must not collapse the proposal onto themselves.
        spread: Array = (points - center).T * weights @ (points - center)
        factor = np.asarray(np.linalg.cholesky(spread + 1e-9 * np.diag(np.square(deviation))), dtype=np.float64)
    arrays: list[Array] = []
    ratios: list[Array] = []
    worth = 0.0
    weights, evidence = np.empty(0), 0.0
    while worth < effective and len(arrays) < _BATCHES:
        points, proposal = _student(random, center, factor, _BATCH)
        arrays.append(points)
        ratios.append(log_density(points) - proposal)
        weights, evidence = _normal_weights(np.concatenate(ratios))
        worth = 1 / float(np.sum(weights**2))
    return Draws(
        points=np.concatenate(arrays),
        weights=weights,
        log_evidence=evidence,
        effective=worth,
        pareto_k=pareto_shape(weights),
    )


def quantiles(values: Array, weights: Array, at: Array) -> Array:
    """Weighted quantiles of draws: the values below which parts ``at`` of the weight lie."""
    order = np.argsort(values)
    below = np.cumsum(weights[order]) - weights[order] / 2
    return np.interp(at, below, values[order])


def pareto_shape(weights: Array) -> float:
    """Shape k of a generalised Pareto distribution through the largest weights.

    Source: Zhang and Stephens 2009, the estimator; Vehtari et al. 2024, which weights count as the tail.
    """
    sorted_weights = np.sort(weights)
    tail = int(min(0.2 * len(sorted_weights), 3 * np.sqrt(len(sorted_weights))))
    excess = sorted_weights[-tail:] - sorted_weights[-tail - 1]
    if not excess[0] > 0:
        excess = excess[excess > 0]
    if len(excess) < 5:
        return -np.inf
    count = len(excess)
    grid = 30 + int(np.sqrt(count))
    theta = (1 - np.sqrt(grid / (np.arange(1.0, grid + 1) - 0.5))) / (3 * excess[int(count / 4 + 0.5) - 1])
    theta += 1 / excess[-1]
    shape = np.mean(np.log1p(-theta[:, None] * excess), axis=1)
    likelihood = count * (np.log(-theta / shape) - shape - 1)
    part = np.exp(likelihood - likelihood.max())
    best = float(np.sum(theta * part) / np.sum(part))
    tail_logs: Array = np.log1p(-best * excess)
    return float(tail_logs.mean())


def _student(random: np.random.Generator, center: Array, factor: Array, count: int) -> tuple[Array, Array]:
    """Draws of a multivariate Student-t and the logarithm of its density at them."""
    size = len(center)
    normal = random.standard_normal((count, size))
    stretch = np.sqrt(_FREEDOM / random.chisquare(_FREEDOM, count))[:, None]
    square = np.sum((normal * stretch) ** 2, axis=1)
    constant = lgamma((_FREEDOM + size) / 2) - lgamma(_FREEDOM / 2) - size / 2 * log(_FREEDOM * pi)
    constant -= float(np.sum(np.log(np.diag(factor))))
    return center + normal * stretch @ factor.T, constant - (_FREEDOM + size) / 2 * np.log1p(square / _FREEDOM)


def _normal_weights(ratios: Array) -> tuple[Array, float]:
    """Weights that sum to 1, and the logarithm of the mean ratio."""
    ratios = np.where(np.isnan(ratios), -np.inf, ratios)
    top = float(np.max(ratios))
    if not np.isfinite(top):
        raise InputError("density", top, "the observations are impossible under the model: check prices and units")
    part = np.exp(ratios - top)
    total = float(np.sum(part))
    return part / total, top + log(total / len(ratios))
