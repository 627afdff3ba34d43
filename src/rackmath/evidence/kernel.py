r"""How much the residual of one configuration tells about that of another.

.. math::

    k(x, y) = \sum_c \sigma_c^2
    \exp\Bigl(-\sum_j w_{cj} [x_j \neq y_j] - \tfrac12 \sum_d (x_d - y_d)^2 / \ell_{cd}^2\Bigr)

A sum of parts that each have a meaning: what an engine does on a generation of chips, what it does to a model, what a
source does to its measurements, and so on. A feature in which a part has no weight does not matter to it; one of
infinite weight has to agree. Every part is positive definite: indicators of equality and Gaussians are, and so are
products and sums of such (Rasmussen and Williams 2006, chapter 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rackmath.evidence.configurations import AMOUNTS, NAMES, Configurations

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """One part of the covariance."""

    name: str
    deviation: float
    """Standard deviation of the residuals that it explains. [1, of a logarithm]"""
    differs: Mapping[str, float]
    """Weight of each name that matters: the logarithm of the covariance that is lost where it differs."""
    length: Mapping[str, float]
    """Distance of each amount that matters over which correlation falls by exp(-1/2)."""


def covariance(parts: tuple[Part, ...], left: Configurations, right: Configurations) -> Array:
    """Covariance of residuals. (left, right)"""
    result = np.empty((len(left), len(right)))
    # Blocks of pairs that stay in a processor's cache: whole matrices took three times as long.
    rows = max(1, _PAIRS // max(len(right), 1))
    features = np.empty((len(NAMES) + len(AMOUNTS), rows, len(right)))
    weights, squares = -_weights(parts), _squares(parts)
    right_names, right_amounts = np.ascontiguousarray(right.names.T), np.ascontiguousarray(right.amounts.T)
    for start in range(0, len(left), rows):
        names, amounts = left.names[start : start + rows], left.amounts[start : start + rows]
        block = features[:, : len(names)]
        for i in range(len(NAMES)):
            a = names[:, i, None]
            block[i] = (a != right_names[i]) | (a < 0)
        for i in range(len(AMOUNTS)):
            np.square(amounts[:, i, None] - right_amounts[i], out=block[len(NAMES) + i])
        exponents = weights @ block.reshape(len(block), -1)
        np.exp(exponents, out=exponents)
        result[start : start + rows] = (squares @ exponents).reshape(block.shape[1:])
    return result


@lru_cache(maxsize=8)
def of_names(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The same parts where amounts do not matter."""
    return tuple(replace(part, length={}) for part in parts)


@lru_cache(maxsize=8)
def _weights(parts: tuple[Part, ...]) -> Array:
    """Weight of each feature in the exponent of each part. (parts, features)"""
    return np.array(
        [
            [
                *(min(part.differs.get(name, 0.0), _FAR) for name in NAMES),
                *(0.5 / part.length[name] ** 2 if name in part.length else 0.0 for name in AMOUNTS),
            ]
            for part in parts
        ]
    )


def _squares(parts: tuple[Part, ...]) -> Array:
    return np.array([part.deviation**2 for part in parts])


_FAR = 60.0
"""Exponent from which a covariance is nothing: 1e-26 of a part."""
_PAIRS = 8192
"""Pairs of configurations whose features are computed at once."""


def own_variance(parts: tuple[Part, ...], at: Configurations) -> Array:
    """Covariance of each configuration with itself: less than the prior's where a name is unknown. (configurations,)"""
    exponents = _weights(parts)[:, : len(NAMES)] @ (at.names < 0).T.astype(float)
    return _squares(parts) @ np.exp(-exponents)


def prior_variance(parts: tuple[Part, ...]) -> float:
    """Variance of a residual before any row is looked at. [1]"""
    return sum(part.deviation**2 for part in parts)
