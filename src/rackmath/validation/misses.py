"""Which constant of the engine would explain a measurement that lies outside of what was expected of it.

Every constant is as uncertain as it differs between the engines and generations of the fit. If all of them move by
their uncertainty, independently, each has a part in what is missing: the square of what it moves the prediction by
over the sum of all such squares, as of the most probable cause under a linear model (Rasmussen and Williams 2006,
equation 2.9, with one observation).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import hypot, log, sqrt

from rackmath.engine.constants import Constants, EngineVersion, inward, outward
from rackmath.engine.term import Term
from rackmath.engine.terms import TERMS
from rackmath.validation.answers import engine_of
from rackmath.validation.fit import evaluate
from rackmath.validation.questions import Question

_LEAST = 0.05
"""Part below which a constant is not named."""
_MOST = 3
"""Constants that are named."""
_HALVINGS = 14
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


def causes(question: Question, constants: Constants, expected: float, measured: float) -> list[Cause]:
    """Constants that would explain a measured value where another was expected, the most probable first.

    Parameters
    ----------
    expected, measured : float
        Both in the row's unit.

    What a constant alone would have to be is solved for, not extrapolated: parts of a pass hide behind others.
    """
    engine = engine_of(question)

    def predicted(term: Term, step: float) -> float:
        return log(float(evaluate([question], _moved(constants, term, step))[0][0]))

    base = log(float(evaluate([question], constants)[0][0]))
    effects: list[tuple[Term, float, float]] = []
    for term in TERMS:
        if term.name in constants.base:
            spread = _spread(constants, term, engine)
            effects.append((term, spread, predicted(term, spread) - base))
    total = sum(effect**2 for _, _, effect in effects)
    likely = sorted((e for e in effects if e[2] ** 2 > _LEAST * total), key=lambda e: -abs(e[2]))
    answer: list[Cause] = []
    for term, spread, effect in likely[:_MOST]:
        step = _crossing(partial(predicted, term), base + log(measured / expected), _FARTHEST * spread)
        value = None if step is None else constants.value(term.name, engine, step)
        answer.append(Cause(term=term, part=effect**2 / total, value=constants.value(term.name, engine), needed=value))
    return answer


def _crossing(curve: Callable[[float], float], level: float, reach: float) -> float | None:
    """Where a monotone curve has a value, within a reach either way of none; None where it has it nowhere."""
    low, high = -reach, reach
    ends = curve(low), curve(high)
    if not min(ends) <= level <= max(ends):
        return None
    rising = ends[1] >= ends[0]
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if (curve(middle) < level) == rising:
            low = middle
        else:
            high = middle
    return (low + high) / 2


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
