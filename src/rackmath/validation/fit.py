"""Robust least squares in log space with shrinkage: constants from measured rows.

Residuals are log(predicted / measured). Every constant has a prior; moves by generation,
family and year are drawn to zero, so that thin groups borrow from the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rackmath.engine.constants import SCALES, Constants, Engine, inward, outward
from rackmath.engine.timer import engine_timer
from rackmath.validation.answers import Array, Group, answer, engine_of, groups, stacked_constants, taken
from rackmath.validation.features import Features, Recorder, Replay, flattened
from rackmath.validation.questions import Question

_SCATTER = 0.15
"""Scale of a residual: below it errors count as squares, above it ever less."""

_STEP = 1e-4
_CONVERGED = 3e-4
_ROUNDS = 3
_ITERATIONS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """Where a constant starts on its inner scale, and how far it may go."""

    name: str
    kind: str
    """base, move or slope."""
    member: str
    centre: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fitted:
    """Constants with their uncertainty, and the batches they imply."""

    constants: Constants
    priors: tuple[Prior, ...]
    deviation: Array
    """Standard deviation of each on its inner scale, from the curvature. (constants,)"""


def evaluate(questions: Sequence[Question], constants: Constants) -> tuple[Array, Array]:
    """Predicted values in the rows' units, and the batches behind them. (questions,)"""
    values, running = np.full(len(questions), np.nan), np.full(len(questions), np.nan)
    losses, scheduling = stacked_constants(constants, [engine_of(q) for q in questions])
    for group in groups(questions):
        timer = engine_timer(group.architecture, group.system, taken(losses, group.index), group.two_batch)
        values[group.index], running[group.index] = answer(group, timer, taken(scheduling, group.index))
    return values, running


def fit(
    questions: Sequence[Question],
    weights: Array,
    priors: Sequence[Prior],
    start: Constants | None = None,
    progress: Callable[[str], None] = lambda _: None,
    rounds: int = _ROUNDS,
    iterations: int = _ITERATIONS,
) -> Fitted:
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

    Returns
    -------
    Fitted
        The same for the same rows: nothing is random.
    """
    theta = np.array([p.centre for p in priors]) if start is None else as_vector(start, priors)
    measured = np.log(np.array([q.row.value for q in questions], dtype=float))
    curvature = np.eye(len(theta))
    for turn in range(rounds):
        problem = _Problem.of(questions, as_constants(theta, priors))
        theta, curvature = _minimised(problem, theta, priors, measured, weights, iterations)
        progress(f"round {turn + 1} of {rounds}")
    deviation = np.sqrt(np.diag(np.linalg.pinv(curvature)))
    return Fitted(constants=as_constants(theta, priors), priors=tuple(priors), deviation=deviation)


@dataclass(frozen=True, slots=True, eq=False)
class _Problem:
    """Everything that stays the same while constants move."""

    groups: list[Group]
    engines: list[Engine]
    features: Features
    running: Array

    @classmethod
    def of(cls, questions: Sequence[Question], constants: Constants) -> _Problem:
        """Gather the passes of all questions at the batches that ``constants`` imply."""
        _, running = evaluate(questions, constants)
        engines = [engine_of(q) for q in questions]
        _, scheduling = stacked_constants(constants, engines)
        sorted_groups = groups(questions)
        recorders: list[Recorder] = []
        for group in sorted_groups:
            recorder = Recorder(group)
            answer(group, recorder, taken(scheduling, group.index), running[group.index])
            recorders.append(recorder)
        return cls(sorted_groups, engines, flattened(sorted_groups, recorders), running)

    def predicted(self, constants: Constants) -> Array:
        """Logarithms of predicted values. (questions,)"""
        losses, scheduling = stacked_constants(constants, self.engines)
        times = self.features.times(losses)
        values = np.empty(len(self.engines))
        for group, ranges in zip(self.groups, self.features.calls, strict=True):
            part = taken(scheduling, group.index)
            values[group.index], _ = answer(group, Replay(times, ranges), part, self.running[group.index])
        return np.log(values)


def _minimised(
    problem: _Problem, theta: Array, priors: Sequence[Prior], measured: Array, weights: Array, iterations: int
) -> tuple[Array, Array]:
    """Gauss-Newton with reweighting and damping."""
    centre = np.array([p.centre for p in priors])
    width = np.array([p.width for p in priors])
    damping = 1e-2

    def cost(vector: Array) -> tuple[float, Array]:
        residual = (problem.predicted(as_constants(vector, priors)) - measured) / _SCATTER
        # Soft absolute value: squares near zero, a line far out.
        bent = 2 * (np.sqrt(1 + residual**2) - 1)
        return float(np.sum(weights * bent) + np.sum(((vector - centre) / width) ** 2)), residual

    value, residual = cost(theta)
    curvature = np.diag(1 / width**2)
    for _ in range(iterations):
        slopes = _slopes(problem, theta, priors, measured, residual)
        pull = weights / np.sqrt(1 + residual**2)
        curvature = slopes.T @ (pull[:, None] * slopes) + np.diag(1 / width**2)
        gradient = slopes.T @ (pull * residual) + (theta - centre) / width**2
        for _ in range(6):
            moved = theta - np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), gradient)
            new, new_residual = cost(moved)
            if new < value:
                break
            damping *= 8
        else:
            break
        gain, theta, value, residual, damping = value - new, moved, new, new_residual, damping / 4
        if gain < _CONVERGED * value:
            break
    return theta, curvature


def _slopes(problem: _Problem, theta: Array, priors: Sequence[Prior], measured: Array, residual: Array) -> Array:
    slopes = np.empty((len(residual), len(theta)))
    for i in range(len(theta)):
        moved = theta.copy()
        moved[i] += _STEP
        changed = (problem.predicted(as_constants(moved, priors)) - measured) / _SCATTER
        slopes[:, i] = (changed - residual) / _STEP
    return slopes


def as_constants(theta: Array, priors: Sequence[Prior], basis: str = "") -> Constants:
    """Vector on the inner scale -> constants."""
    base: dict[str, float] = {}
    kinds: dict[str, dict[str, dict[str, float]]] = {"move": {}, "slope": {}}
    for prior, value in zip(priors, theta, strict=True):
        if prior.kind == "base":
            base[prior.name] = outward(float(value), SCALES[prior.name])
        else:
            kinds[prior.kind].setdefault(prior.name, {})[prior.member] = float(value)
    return Constants(base=base, moves=kinds["move"], slopes=kinds["slope"], basis=basis)


def as_vector(constants: Constants, priors: Sequence[Prior]) -> Array:
    """Constants -> vector on the inner scale; what they lack starts at its centre."""
    found: list[float] = []
    for p in priors:
        if p.kind == "base":
            known = constants.base.get(p.name)
            found.append(p.centre if known is None else inward(known, SCALES[p.name]))
        else:
            kept = constants.moves if p.kind == "move" else constants.slopes
            found.append(kept.get(p.name, {}).get(p.member, p.centre))
    return np.array(found)
