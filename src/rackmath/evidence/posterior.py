r"""What near measurements say of a configuration: a Gaussian process over residuals, solved among the nearest rows.

The residual of a row is the logarithm of its measured over its computed time. Physics is the mean; residuals covary as
:mod:`rackmath.evidence.kernel` says. Each row has a noise of its own: larger for rows of low confidence, and larger
still for outliers, whose noise is that of a Student-t distribution seen as a mixture of Gaussians (West 1984), so that
they drag nobody. Where nothing is near, the expected residual is none: physics alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rackmath.evidence.configurations import NAMES
from rackmath.evidence.kernel import Array, Part, covariance, prior_variance

if TYPE_CHECKING:
    from rackmath.evidence.configurations import Configurations

NEAREST = 160
"""Rows that an answer is solved among."""
NEAR, MIDDLING = "near", "middling"
FAR = "far"
BANDS = ((0.35, NEAR), (0.7, MIDDLING), (np.inf, FAR))
"""Unexplained part of the variance up to which a configuration is near or middling."""
_SOURCE = NAMES.index("source")
_REACH = 0.1
"""Correlation with an answer from which a row is within reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """Hyperparameters; ``tools/evidence.py`` learns them on rows left out by group."""

    parts: tuple[Part, ...]
    noise: float
    """Standard deviation of a row's own noise. [1]"""
    unknown_source_weight: float
    """Part of the expected residual that is applied to an answer of no known source. [1]"""
    quantile: Mapping[str, Mapping[str, tuple[float, float]]]
    """By :attr:`Posterior.range_class` and question (or ``all``): standard deviations below and above the expected
    residual that hold 90 % of the rows left out."""


@dataclass(frozen=True, slots=True, eq=False)
class Base:
    """Rows with their residuals."""

    configurations: Configurations
    residuals: Array
    """(rows,)"""
    noise: Array
    """Standard deviation of each row's own noise. (rows,)"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Posterior:
    """The residual of one configuration, as near rows tell it."""

    expected: float
    """Logarithm of measured over computed time. [1]"""
    deviation: float
    """Standard deviation of a further measurement around it. [1]"""
    unexplained: float
    """Part of the variance that rows could explain and none does. [1]"""
    unknown_source: bool
    """Whether no row is of the configuration's source: what is common to a source cannot be told."""
    rows: NDArray[np.intp]
    """Rows within reach, the most telling first."""
    correlation: Array
    """Their correlation with the configuration."""

    @property
    def distance(self) -> str:
        """near, middling or far, by the part of the variance that no row explains."""
        return next(name for limit, name in BANDS if self.unexplained <= limit)

    @property
    def range_class(self) -> str:
        """Distance, and whether the source is known: what ranges are calibrated by."""
        return f"{self.distance}, unknown source" if self.unknown_source else self.distance


def posterior(process: Process, base: Base, at: Configurations, without: NDArray[np.bool_] | None = None) -> Posterior:
    """Residual of one configuration.

    Parameters
    ----------
    at : Configurations
        One configuration.
    without : array of bool, optional
        Rows that may not be looked at: the row itself, or its group. (rows,)
    """
    prior = prior_variance(process.parts)
    # A name that nobody knows differs even from itself: what stands on it is out of every row's reach.
    reachable = float(covariance(process.parts, at, at)[0, 0])
    unknown_source = bool(at.names[0, _SOURCE] < 0)
    cross = covariance(process.parts, at, base.configurations)[0]
    if without is not None:
        cross = np.where(without, -1.0, cross)
    order = np.argsort(-cross, kind="stable")
    near = order[:NEAREST]
    near = near[cross[near] >= 0.0]
    expected, variance = 0.0, prior
    if len(near):
        some = base.configurations.take(near)
        gram = covariance(process.parts, some, some) + np.diag(base.noise[near] ** 2)
        weights = np.linalg.solve(gram, np.stack([base.residuals[near], cross[near]], axis=1))
        expected += float(cross[near] @ weights[:, 0])
        variance = max(prior - float(cross[near] @ weights[:, 1]), 0.0)
    reach = order[cross[order] > _REACH * prior]
    unexplained = (variance - prior + reachable) / reachable if reachable > 0 else 1.0
    weight = process.unknown_source_weight if unknown_source else 1.0
    return Posterior(
        # Rows that explain little of the variance correct nothing: physics alone.
        expected=weight * expected if unexplained <= BANDS[1][0] else 0.0,
        deviation=float(np.sqrt(variance + process.noise**2)),
        unexplained=unexplained,
        unknown_source=unknown_source,
        rows=reach,
        correlation=cross[reach] / prior,
    )


def factors(process: Process, answer: Posterior, question: str) -> tuple[float, float, float]:
    """Factors on a computed time: expected, and the ends of the 90 % range of a question."""
    table = process.quantile[answer.range_class]
    below, above = table.get(question, table["all"])
    return (
        float(np.exp(answer.expected)),
        float(np.exp(answer.expected - below * answer.deviation)),
        float(np.exp(answer.expected + above * answer.deviation)),
    )
