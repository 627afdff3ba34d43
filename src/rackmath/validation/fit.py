"""Robust least squares in log space with shrinkage: constants from measured rows.

Residuals are log(predicted / measured). Every constant has a prior; moves by generation,
family and year are drawn to zero, so that thin groups borrow from the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rackmath.engine.constants import Constants, inward, outward
from rackmath.engine.terms import TERM
from rackmath.validation.groups import Array, Ints
from rackmath.validation.problem import STEP, Evaluation, Problem
from rackmath.validation.questions import Question

_SCATTER = 0.15
"""Scale of a residual: below it errors count as squares, above it ever less."""

_CONVERGED = 1e-5
_ROUNDS = 5
_ITERATIONS = 10
_SHRINKING = 3
"""Rounds in which widths of moves are estimated: later ones only follow the batches."""
_TRIES = 8
_DAMPING = 1e-2
_LEAST_DAMPING = 1e-3
_LARGEST = 24
"""Constants that are looked at one by one where a step of all of them fails, those that it moves farthest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """Where a constant starts on its inner scale, and how far it may go."""

    name: str
    kind: str
    """base or move."""
    member: str
    axis: str
    """Of a move: generation, family or stage; moves of one constant and axis share their width."""
    centre: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FitResult:
    """Constants with their uncertainty, and the batches they imply."""

    constants: Constants
    priors: tuple[Prior, ...]
    deviation: Array
    """Standard deviation of each on its inner scale, from the curvature. (constants,)"""
    effective: float
    """Parameters that the rows fix: what the curvature of the rows makes of all curvature, added up."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Start:
    """Rows at the constants that a fit starts from: the same for all fits that start there, whatever rows weigh."""

    problem: Problem
    here: Evaluation
    slopes: Mapping[str, Array]
    """Slopes of residuals by constant. (questions,)"""

    @classmethod
    def of(cls, questions: Sequence[Question], constants: Constants, names: Sequence[str]) -> Start:
        """Gather the passes of all questions, and the slopes of the named constants."""
        return cls.at(Problem.of(questions, constants), constants, names)

    @classmethod
    def at(cls, problem: Problem, constants: Constants, names: Sequence[str]) -> Start:
        """The same of passes that have been gathered."""
        here = problem.at(constants)
        return cls(problem=problem, here=here, slopes=_slopes(problem, constants, names, here))


def fit(
    questions: Sequence[Question],
    weights: Array,
    priors: Sequence[Prior],
    start: Constants | None = None,
    progress: Callable[[str], None] = lambda _: None,
    rounds: int = _ROUNDS,
    iterations: int = _ITERATIONS,
    shrink: bool = True,
    first: Start | None = None,
) -> FitResult:
    """Fit all constants on rows with measured values.

    Parameters
    ----------
    questions : sequence of Question
        Rows with a value.
    weights : array
        Weight of each row's residual. (questions,)
    priors : sequence of Prior
        What is fitted; one number each.
    start : Constants, optional
        Where to begin; by default the priors' centres.
    rounds, iterations : int
        How often batches are recomputed with the new constants, and steps of the minimiser
        each time.
    shrink : bool
        Whether widths of moves are estimated as well.
    first : Start, optional
        The rows at the constants that the fit starts from, where they have been gathered for another fit.

    Returns
    -------
    FitResult
        The same for the same rows: nothing is random.
    """
    theta = _centres(priors) if start is None else as_vector(start, priors)
    measured = np.log(np.array([q.row.value for q in questions], dtype=float))
    curvature, damping = np.eye(len(theta)), np.full(len(theta), _DAMPING)
    first_start = first or Start.of(questions, as_constants(theta, priors), _names(priors))
    first_start = replace(first_start, problem=first_start.problem.of_weights(weights))
    for turn in range(rounds):
        if turn:
            constants = as_constants(theta, priors)
            first_start = Start.at(first_start.problem.again(constants), constants, _names(priors))
        theta, curvature, damping = _minimised(first_start, theta, priors, measured, weights, iterations, damping)
        if shrink and turn < _SHRINKING:
            priors = shrunk(priors, theta, np.asarray(np.linalg.pinv(curvature), dtype=float))
        progress(f"round {turn + 1} of {rounds}")
    covariance = np.linalg.pinv(curvature)
    width = np.array([p.width for p in priors])
    return FitResult(
        constants=as_constants(theta, priors),
        priors=tuple(priors),
        deviation=np.sqrt(np.diag(covariance)),
        effective=float(np.sum(1 - np.diag(covariance) / width**2)),
    )


_NARROWEST = 0.02
"""Least width of a prior that rows may ask for: below it members do not differ at all."""


def shrunk(priors: Sequence[Prior], theta: Array, covariance: Array) -> tuple[Prior, ...]:
    """Widths of moves as the rows want them: the mean square of what moved, with its uncertainty.

    One step of expectation and maximisation of the marginal likelihood, for all moves of one constant along one axis.
    Widths only shrink: what a source does alike on all its rows is no move of a generation, and rows of one source
    would widen it. Source: MacKay, "Bayesian interpolation", 1992.
    """
    groups: dict[tuple[str, str], list[int]] = {}
    for i, p in enumerate(priors):
        if p.kind == "move":
            groups.setdefault((p.name, p.axis), []).append(i)
    result = list(priors)
    for places in groups.values():
        spread = float(np.mean([(theta[i] - priors[i].centre) ** 2 + covariance[i, i] for i in places]))
        for i in places:
            result[i] = replace(priors[i], width=min(max(spread**0.5, _NARROWEST), priors[i].width))
    return tuple(result)


def _minimised(
    start: Start,
    theta: Array,
    priors: Sequence[Prior],
    measured: Array,
    weights: Array,
    iterations: int,
    damping: Array,
) -> tuple[Array, Array, Array]:
    """Gauss-Newton with reweighting, and damping of each constant: vector, curvature, damping. (constants,)

    A time that is the larger of two, as of a host and its device, has a kink, beyond which slopes say nothing. Where a
    step fails, constants that by themselves cost more than their slopes promise are held back and the others go on:
    damped alike, all of them would stand still at the first kink.
    """
    problem, here, by_name = start.problem, start.here, start.slopes
    centre = _centres(priors)
    width = np.array([p.width for p in priors])
    by_engine = _by_engine(problem, priors)

    def at(vector: Array, there: Evaluation | None = None) -> tuple[float, Evaluation]:
        there = there or problem.at(as_constants(vector, priors))
        residual = (there.values - measured) / _SCATTER
        # Soft absolute value: squares near zero, a line far out.
        bent = 2 * (np.sqrt(1 + residual**2) - 1)
        return float(np.sum(weights * bent) + np.sum(((vector - centre) / width) ** 2)), there

    value = at(theta, here)[0]
    curvature = np.diag(1 / width**2)
    for turn in range(iterations):
        if turn:
            by_name = _slopes(problem, as_constants(theta, priors), _names(priors), here)
        residual = (here.values - measured) / _SCATTER
        pull = weights / np.sqrt(1 + residual**2)
        of_rows, gradient = _sums(by_name, priors, by_engine, pull, residual)
        curvature = of_rows + np.diag(1 / width**2)
        gradient = gradient + (theta - centre) / width**2
        diagonal = np.diag(curvature)
        for _ in range(_TRIES):
            step = -np.linalg.solve(curvature + np.diag(damping * diagonal), gradient)
            new, there = at(theta + step)
            if new < value:
                break
            is_misjudged = np.zeros(len(theta), dtype=bool)
            for place in np.argsort(-np.abs(step / width))[:_LARGEST]:
                alone = np.where(np.arange(len(theta)) == place, step, 0.0)
                forecast = 2 * gradient[place] * step[place] + diagonal[place] * step[place] ** 2
                rise = at(theta + alone)[0] - value
                is_misjudged[place] = rise > forecast + 0.5 * abs(forecast) + _CONVERGED * value
            damping = damping * np.where(is_misjudged, 64.0, 1.0 if is_misjudged.any() else 8.0)
        else:
            break
        gain, theta, value, here, damping = (
            value - new,
            theta + step,
            new,
            there,
            np.maximum(damping / 4, _LEAST_DAMPING),
        )
        if gain < _CONVERGED * value:
            break
    return theta, curvature, damping


def at_centres(questions: Sequence[Question], priors: Sequence[Prior]) -> Start:
    """The rows at the centres of priors, where every fit without ``start`` begins."""
    return Start.of(questions, as_constants(_centres(priors), priors), _names(priors))


def _names(priors: Sequence[Prior]) -> list[str]:
    """Constants of which something is fitted."""
    return list(dict.fromkeys(p.name for p in priors))


def _centres(priors: Sequence[Prior]) -> Array:
    return np.array([p.centre for p in priors])


def _slopes(problem: Problem, constants: Constants, names: Sequence[str], here: Evaluation) -> dict[str, Array]:
    """Slopes of residuals by constant. (questions,)"""
    return {name: (problem.moved(constants, name, here) - here.values) / (_SCATTER * STEP) for name in names}


def _by_engine(problem: Problem, priors: Sequence[Prior]) -> list[tuple[Ints, Ints]]:
    """Rows of each engine, and the priors that move them: those of a member move the rows of that member alone."""
    engines = problem.engines
    return [
        (
            np.flatnonzero(engines.at == place),
            np.flatnonzero([not p.member or p.member in engine.members for p in priors]),
        )
        for place, engine in enumerate(engines.distinct)
    ]


def _sums(
    by_name: Mapping[str, Array],
    priors: Sequence[Prior],
    by_engine: Sequence[tuple[Ints, Ints]],
    pull: Array,
    residual: Array,
) -> tuple[Array, Array]:
    """Curvature and gradient of the rows' cost: few priors move any one of them. (priors, priors), (priors,)"""
    curvature, gradient = np.zeros((len(priors), len(priors))), np.zeros(len(priors))
    for rows, places in by_engine:
        slopes = np.stack([by_name[priors[place].name][rows] for place in map(int, places)], axis=1)
        curvature[np.ix_(places, places)] += slopes.T @ (pull[rows, None] * slopes)
        gradient[places] += slopes.T @ (pull[rows] * residual[rows])
    return curvature, gradient


def as_constants(theta: Array, priors: Sequence[Prior], basis: str = "") -> Constants:
    """Vector on the inner scale -> constants."""
    base: dict[str, float] = {}
    moves: dict[str, dict[str, float]] = {}
    for prior, value in zip(priors, theta, strict=True):
        if prior.kind == "base":
            base[prior.name] = outward(float(value), TERM[prior.name].scale)
        else:
            moves.setdefault(prior.name, {})[prior.member] = float(value)
    return Constants(base=base, moves=moves, basis=basis)


def as_vector(constants: Constants, priors: Sequence[Prior]) -> Array:
    """Constants -> vector on the inner scale; what they lack starts at its centre."""
    numbers: list[float] = []
    for p in priors:
        if p.kind == "base":
            base = constants.base.get(p.name)
            numbers.append(p.centre if base is None else inward(base, TERM[p.name].scale))
        else:
            numbers.append(constants.moves.get(p.name, {}).get(p.member, p.centre))
    return np.array(numbers)
