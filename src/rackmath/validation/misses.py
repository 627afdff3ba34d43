"""Which constant of the engine would explain a measurement that lies outside of what was expected of it.

Every constant is as uncertain as it differs between the engines and generations of the fit. If all of them move by
their uncertainty, independently, each has a part in what is missing: the square of what it moves the prediction by
over the sum of all such squares, as of the most probable cause under a linear model (Rasmussen and Williams 2006,
equation 2.9, with one observation).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import hypot, log, sqrt

import numpy as np

from rackmath.engine.constants import Constants, EngineVersion, inward, outward
from rackmath.engine.term import Term
from rackmath.engine.terms import TERMS
from rackmath.validation.answers import engine_of
from rackmath.validation.problem import evaluate
from rackmath.validation.questions import Question

_LEAST = 0.05
"""Part below which a constant is not named."""
_MOST = 3
"""Constants that are named."""
_STEPS = 40
"""Seldom more than eight are needed."""
_SMALLEST = 1e-12
_CLOSE = 1e-4
"""Part of a prediction by which it may miss what it is solved for. [1]"""
_FARTHEST = 4.0
"""Uncertainties beyond which a constant alone explains nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One constant that would explain a measurement, or a part of it."""

    term: Term
    part: float
    """Of what is missing, as the most probable cause. [1]"""
    value: float
    """As it is, in its own unit."""
    needed: float | None
    """What it alone would have to be; None where it would be out of all proportion."""


def causes(
    questions: Sequence[Question], constants: Constants, expected: Sequence[float], measured: Sequence[float]
) -> list[list[Cause]]:
    """Of each measured value, the constants that would explain it where another was expected, most probable first.

    Parameters
    ----------
    expected, measured : sequence of float
        Of each question, both in the row's unit.

    What a constant alone would have to be is solved for, not extrapolated: parts of a pass hide behind others.
    """
    if not questions:
        return []
    terms = [term for term in TERMS if term.name in constants.base]
    engines = [engine_of(question) for question in questions]
    base = np.log(evaluate(questions, constants)[0])
    spreads = np.array([[_spread(constants, term, engine) for term in terms] for engine in engines])
    effects = np.zeros_like(spreads)
    for place, term in enumerate(terms):
        # Rows of one engine are as uncertain: all of them are asked at once.
        for spread in np.unique(spreads[:, place]):
            rows = [row for row in range(len(questions)) if spreads[row, place] == spread]
            moved = evaluate([questions[row] for row in rows], _moved(constants, term, float(spread)))[0]
            effects[rows, place] = np.log(moved) - base[rows]
    answer: list[list[Cause]] = []
    for row, question in enumerate(questions):
        parts = effects[row] ** 2 / max(float(np.sum(effects[row] ** 2)), _SMALLEST)
        likely = [int(place) for place in np.argsort(-parts, kind="stable")[:_MOST] if parts[place] > _LEAST]
        level = float(base[row]) + log(measured[row] / expected[row])
        answer.append([])
        for place in likely:
            term, reach = terms[place], _FARTHEST * float(spreads[row, place])
            step = _crossing(partial(_predicted, question, constants, term), level, reach)
            needed = None if step is None else constants.value(term.name, engines[row], step)
            value = constants.value(term.name, engines[row])
            answer[-1].append(Cause(term=term, part=float(parts[place]), value=value, needed=needed))
    return answer


def _predicted(question: Question, constants: Constants, term: Term, step: float) -> float:
    """Logarithm of a prediction, one constant moved by a step on its inner scale."""
    return log(float(evaluate([question], _moved(constants, term, step))[0][0]))


def _crossing(curve: Callable[[float], float], level: float, reach: float) -> float | None:
    """Where a monotone curve has a value, within a reach either way of none; None where it has it nowhere.

    False position as of Illinois (Dowell and Jarratt 1971): each value of the curve is a prediction of its own.
    """
    other, step = -reach, reach
    behind, ahead = curve(other) - level, curve(step) - level
    if behind * ahead > 0:
        return None
    for _ in range(_STEPS):
        if abs(ahead) < _CLOSE:
            break
        middle = step - ahead * (step - other) / (ahead - behind)
        value = curve(middle) - level
        if value * ahead < 0:
            other, behind = step, ahead
        else:
            behind /= 2
        step, ahead = middle, value
    return step


def _spread(constants: Constants, term: Term, engine: EngineVersion) -> float:
    """How uncertain a constant is, on its inner scale: as its prior says, and as it differs between members.

    Where nothing of an engine moves a constant, it is known from timings: that others differ says nothing of it.
    """
    moves = constants.moves.get(term.name, {})
    if not any(member in moves for member in engine.members):
        return term.width
    return hypot(term.width, sqrt(sum(m**2 for m in moves.values()) / len(moves)))


def _moved(constants: Constants, term: Term, step: float) -> Constants:
    value = outward(inward(constants.base[term.name], term.scale) + step, term.scale)
    return replace(constants, base={**constants.base, term.name: value})
