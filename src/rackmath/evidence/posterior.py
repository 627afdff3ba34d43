r"""What near measurements say of a configuration: a Gaussian process over residuals, solved among the nearest rows.

The residual of a row is the logarithm of its measured over its computed time. Physics is the mean; residuals covary as
:mod:`rackmath.evidence.kernel` says. Each row has a noise of its own: larger for rows of low confidence, and larger
still for outliers, whose noise is that of a Student-t distribution seen as a mixture of Gaussians (West 1984), so that
they drag nobody. Where nothing is near, the expected residual is none: physics alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rackmath.evidence.configurations import NAMES
from rackmath.evidence.kernel import Array, Part, covariance, of_names, own_variance, prior_variance

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
_ORDER = ("source", "question", "generation", "kind", "engine", "model")
"""Names by which configurations of like nearest rows stand together."""
_TOGETHER = 64
"""Configurations whose nearest rows are gathered before their covariances are computed."""


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
        return distance_of(self.unexplained)

    @property
    def range_class(self) -> str:
        """Distance, and whether the source is known: what ranges are calibrated by."""
        return _range_class(self.unexplained, self.unknown_source)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Residuals:
    """Residuals of many configurations, as near rows tell them; fields as of :class:`Posterior`. (configurations,)"""

    expected: Array
    deviation: Array
    unexplained: Array
    unknown_source: NDArray[np.bool_]


def distance_of(unexplained_part: float) -> str:
    """near, middling or far, by the part of the variance that no row explains."""
    return next(name for limit, name in BANDS if unexplained_part <= limit)


def _range_class(unexplained_part: float, unknown_source: bool) -> str:
    distance = distance_of(unexplained_part)
    return f"{distance}, unknown source" if unknown_source else distance


def posteriors(
    process: Process, base: Base, at: Configurations, without: Sequence[Sequence[int]] | None = None
) -> list[Posterior]:
    """Residual of each of many configurations, solved among its own nearest rows.

    What is said of a configuration does not depend on the others that are asked with it.

    Parameters
    ----------
    without : sequence of sequences of int, optional
        Places of rows that may not be looked at, by configuration: the row itself, or its group.
    """
    hidden = [np.array([] if without is None else without[i], dtype=np.intp) for i in range(len(at))]
    # Neighbours in this order share most of their nearest rows, whose covariances are then computed once.
    order = np.lexsort([at.names[:, NAMES.index(name)] for name in reversed(_ORDER)])
    answers: list[Posterior] = []
    for start in range(0, len(at), _TOGETHER):
        places = order[start : start + _TOGETHER]
        unseen: list[NDArray[np.intp]] = [hidden[i] for i in places.tolist()]
        answers += _solved_together(process, base, at.take(places), unseen)
    return [answers[i] for i in np.argsort(order).tolist()]


def _solved_together(
    process: Process, base: Base, at: Configurations, without: Sequence[NDArray[np.intp]]
) -> Iterator[Posterior]:
    cross = covariance(process.parts, at, base.configurations)
    for i, hidden in enumerate(without):
        cross[i, hidden] = -1.0
    orders = [_nearest_first(process, row) for row in cross]
    nearest = [order[:NEAREST][row[order[:NEAREST]] >= 0.0] for order, row in zip(orders, cross, strict=True)]
    near_rows = np.unique(np.concatenate(nearest))
    gram = _gram(process, base, near_rows)
    prior = prior_variance(process.parts)
    for i, (order, near) in enumerate(zip(orders, nearest, strict=True)):
        local = np.searchsorted(near_rows, near)
        answer = _solved(
            process, at.take(np.array([i])), cross[i : i + 1, near], base.residuals[near], gram[np.ix_(local, local)]
        )
        reach = order[cross[i, order] > _REACH * prior]
        yield Posterior(
            expected=answer.expected.item(),
            deviation=answer.deviation.item(),
            unexplained=answer.unexplained.item(),
            unknown_source=answer.unknown_source.item(),
            rows=reach,
            correlation=cross[i, reach] / prior,
        )


def residuals(process: Process, base: Base, at: Configurations, near: NDArray[np.intp]) -> Residuals:
    """Residuals of configurations, solved among the same rows ``near``."""
    cross = covariance(process.parts, at, base.configurations.take(near))
    return _solved(process, at, cross, base.residuals[near], _gram(process, base, near))


def _gram(process: Process, base: Base, rows: NDArray[np.intp]) -> Array:
    """Covariance of measurements of rows with one another, noise included. (rows, rows)"""
    configurations = base.configurations.take(rows)
    return covariance(process.parts, configurations, configurations) + np.diag(base.noise[rows] ** 2)


def _solved(process: Process, at: Configurations, cross: Array, measured: Array, gram: Array) -> Residuals:
    """Residuals of configurations from the ``measured`` ones of near rows; ``cross`` is (configurations, rows)."""
    prior = prior_variance(process.parts)
    # A name that nobody knows differs even from itself: what stands on it is out of every row's reach.
    reachable = own_variance(process.parts, at)
    expected, variance = np.zeros(len(at)), np.full(len(at), prior)
    if len(measured):
        weights = np.linalg.solve(gram, np.concatenate([measured[:, None], cross.T], axis=1))
        expected = cross @ weights[:, 0]
        variance = np.maximum(prior - np.sum(cross * weights[:, 1:].T, axis=1), 0.0)
    unknown_source = at.names[:, _SOURCE] < 0
    unexplained_part = np.ones(len(at))
    np.divide(variance - prior + reachable, reachable, out=unexplained_part, where=reachable.astype(bool))
    weight = np.where(unknown_source, process.unknown_source_weight, 1.0)
    return Residuals(
        # Rows that explain little of the variance correct nothing: physics alone.
        expected=np.where(unexplained_part <= BANDS[1][0], weight * expected, 0.0),
        deviation=np.sqrt(variance + process.noise**2),
        unexplained=unexplained_part,
        unknown_source=unknown_source,
    )


def nearest_by_name(process: Process, base: Base, at: Configurations, count: int) -> NDArray[np.intp]:
    """Rows that tell the most of one set of names, whatever its amounts, at most so many.

    Parameters
    ----------
    at : Configurations
        One configuration; its amounts do not matter.
    """
    cross = covariance(of_names(process.parts), at, base.configurations)[0]
    return _nearest_first(process, cross)[:count]


_DIGITS = 9
"""Digits of a covariance that tell rows apart: the rest is rounding, which differs from one processor to another."""


def _nearest_first(process: Process, cross: NDArray[np.float64]) -> NDArray[np.intp]:
    """Places of rows by falling covariance; rows that are as near stand as in the table, on every machine. (rows,)"""
    return np.argsort(-np.round(cross / prior_variance(process.parts), _DIGITS), kind="stable")


def factors(process: Process, answer: Posterior, question: str) -> tuple[float, float, float]:
    """Factors on a computed time: expected, and the ends of the 90 % range of a question."""
    below, above = _quantiles(process, answer.range_class, question)
    return (
        float(np.exp(answer.expected)),
        float(np.exp(answer.expected - below * answer.deviation)),
        float(np.exp(answer.expected + above * answer.deviation)),
    )


def all_factors(process: Process, answers: Residuals, question: str) -> tuple[Array, Array, Array]:
    """:func:`factors` of many configurations. (configurations,)"""
    classes = [_range_class(*pair) for pair in zip(answers.unexplained, answers.unknown_source, strict=True)]
    below, above = np.array([_quantiles(process, name, question) for name in classes]).reshape(-1, 2).T
    e, d = answers.expected, answers.deviation
    return np.exp(e), np.exp(e - below * d), np.exp(e + above * d)


def _quantiles(process: Process, range_class: str, question: str) -> tuple[float, float]:
    table = process.quantile[range_class]
    return table.get(question, table["all"])
