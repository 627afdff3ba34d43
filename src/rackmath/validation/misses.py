"""Which constant of the engine would explain a measurement that lies outside of what was expected of it.

Every constant is as uncertain as it differs between the engines and generations of the fit. If all of them move by
their uncertainty, independently, each has a part in what is missing: the square of what it moves the prediction by
over the sum of all such squares, as of the most probable cause under a linear model (Rasmussen and Williams 2006,
equation 2.9, with one observation).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, sqrt

import numpy as np

from rackmath.engine.constants import Constants, EngineVersion
from rackmath.engine.term import Term
from rackmath.engine.terms import TERMS
from rackmath.models.roots import zeros
from rackmath.validation.groups import Array, Ints
from rackmath.validation.problem import evaluate
from rackmath.validation.question_constants import engine_of
from rackmath.validation.questions import Question

_LEAST = 0.05
"""Part below which a constant is not named."""
_MOST = 3
"""Constants that are named."""
_TOGETHER = 1000
"""Cases that are predicted at once: more would only take memory."""
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
    rows, places = (index.ravel() for index in np.indices(spreads.shape))
    every = _Moved(questions, constants, terms, rows, places)
    shifts = every.predicted(spreads.ravel(), np.arange(spreads.size))
    effects = shifts.reshape(spreads.shape) - base[:, None]
    parts = effects**2 / np.maximum(np.sum(effects**2, axis=1, keepdims=True), _SMALLEST)
    order = np.argsort(-parts, axis=1, kind="stable")[:, :_MOST]
    likely = [
        (row, int(place))
        for row, term_places in enumerate(order)
        for place in term_places
        if parts[row, place] > _LEAST
    ]
    at = tuple(np.array(likely, dtype=int).reshape(-1, 2).T)
    levels = (base + np.log(measured) - np.log(expected))[at[0]]
    moves, reach = _Moved(questions, constants, terms, *at), _FARTHEST * spreads[at]
    # Each value of a curve is a prediction of its own.
    steps = zeros(
        lambda steps, row_places: moves.predicted(steps, row_places) - levels[row_places], -reach, reach, _CLOSE
    )
    answer: list[list[Cause]] = [[] for _ in questions]
    for (row, place), step in zip(likely, steps.tolist(), strict=True):
        name, engine = terms[place].name, engines[row]
        value_needed = None if np.isnan(step) else constants.value(name, engine, step)
        value = constants.value(name, engine)
        answer[row].append(Cause(term=terms[place], part=float(parts[row, place]), value=value, needed=value_needed))
    return answer


@dataclass(frozen=True, slots=True, eq=False)
class _Moved:
    """Questions of which each has one constant moved; a question stands there once for every constant that is tried."""

    questions: Sequence[Question]
    constants: Constants
    terms: Sequence[Term]
    rows: Ints
    """Which question. (cases,)"""
    places: Ints
    """Which constant. (cases,)"""

    def predicted(self, steps: Array, cases: Ints) -> Array:
        """Logarithms of predictions of some cases, each with its constant a step further on its inner scale."""
        rows, places = self.rows[cases], self.places[cases]
        values = np.empty(len(rows))
        for begin in range(0, len(rows), _TOGETHER):
            part = slice(begin, begin + _TOGETHER)
            here = places[part]
            moves = {self.terms[int(p)].name: np.where(here == p, steps[part], 0.0) for p in np.unique(here)}
            values[part] = np.log(evaluate([self.questions[int(row)] for row in rows[part]], self.constants, moves)[0])
        return values


def _spread(constants: Constants, term: Term, engine: EngineVersion) -> float:
    """How uncertain a constant is, on its inner scale: as its prior says, and as it differs between members.

    Where nothing of an engine moves a constant, it is known from timings: that others differ says nothing of it.
    """
    moves = constants.moves.get(term.name, {})
    if not any(member in moves for member in engine.members):
        return term.width
    return hypot(term.width, sqrt(sum(m**2 for m in moves.values()) / len(moves)))
