"""Constants -> arrays with one number of each question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from rackmath.engine import Losses
from rackmath.engine.constants import Constants, EngineVersion
from rackmath.engine.kernel_curves import Kernels
from rackmath.engine.terms import OF_LOSSES, OF_SCHEDULING
from rackmath.models.numbers import Number
from rackmath.serving import Scheduling
from rackmath.serving.engines import engine_at, fuses_experts, scheduling_rules
from rackmath.validation.groups import Array, Ints
from rackmath.validation.questions import Question


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuestionConstants:
    """Constants beside the losses of a pass, one per question."""

    serving: Scheduling
    exposed: Number
    """Part of the data-parallel exchange of training that nothing hides."""


T = TypeVar("T", Losses, Scheduling, QuestionConstants)


class Stacked(NamedTuple):
    """All constants, one number of each question."""

    losses: Losses
    outside: QuestionConstants


@dataclass(frozen=True, slots=True, eq=False)
class Engines:
    """Engines of all questions: few differ, and what is computed of each is computed once."""

    distinct: tuple[EngineVersion, ...]
    at: Ints
    """Place of each question's engine among them. (questions,)"""

    @classmethod
    def of(cls, questions: Sequence[Question]) -> Engines:
        """Sort the engines of questions."""
        engines = [engine_of(q) for q in questions]
        distinct = tuple(sorted(set(engines)))
        place = {engine: i for i, engine in enumerate(distinct)}
        return cls(distinct, np.array([place[engine] for engine in engines]))


def engine_of(question: Question) -> EngineVersion:
    """What the constants of a question depend on."""
    row, chip = question.row, question.system.chip
    engine = engine_at(chip, row.family, row.when, row.flag("eager"))
    return replace(
        engine,
        stage=row.stage,
        unfused=engine.unfused or row.flag("attention_math"),
        fused_experts=fuses_experts(row.family, row.when, chip, question.architecture),
    )


_FITTED = {"started": "dispatch"}
"""Losses that are another constant under a condition."""


def stacked_constants(
    constants: Constants,
    engines: Engines,
    moves: Mapping[str, float | Array] | None = None,
    before: Stacked | None = None,
) -> Stacked:
    """Losses and the constants beside them, with one value per question.

    Parameters
    ----------
    moves : mapping, optional
        Steps of constants on their inner scales by their names: one for all questions, or one of each.
    before : Stacked, optional
        The same constants without those steps: what does not move is taken from there.
    """
    steps = moves or {}

    def values(name: str) -> Array:
        step = steps.get(_FITTED.get(name, name), 0.0)
        if np.ndim(step):
            of_each = [engines.distinct[int(i)] for i in engines.at.tolist()]
            pairs = zip(of_each, np.ravel(step).tolist(), strict=True)
            return np.array([constants.value(name, engine, float(step_value)) for engine, step_value in pairs])
        return np.array([constants.value(name, engine, float(step)) for engine in engines.distinct])[engines.at]

    def stacked(names: Sequence[str]) -> dict[str, Any]:
        return {name: values(name) for name in names if before is None or _FITTED.get(name, name) in steps}

    losses, serving, outside = stacked((*OF_LOSSES, "started")), stacked(OF_SCHEDULING), stacked(("exposed",))
    if before is not None:
        scheduling = replace(before.outside.serving, **serving)
        return Stacked(replace(before.losses, **losses), replace(before.outside, serving=scheduling, **outside))
    rules = [scheduling_rules(engine) for engine in engines.distinct]
    rule_columns = {name: np.array([rule[name] for rule in rules])[engines.at] for name in rules[0]}
    return Stacked(Losses(**losses), QuestionConstants(serving=Scheduling(**serving, **rule_columns), **outside))


def taken(record: T, at: Ints) -> T:
    """Part of a record whose numbers are one per question."""
    parts: dict[str, Any] = {}
    for f in fields(record):
        value = getattr(record, f.name)
        if isinstance(value, Scheduling):
            parts[f.name] = taken(value, at)
        elif not isinstance(value, (str, tuple, Kernels, Mapping)):
            numbers = np.asarray(value)
            parts[f.name] = numbers[at] if numbers.ndim else numbers
    return type(record)(**parts)
