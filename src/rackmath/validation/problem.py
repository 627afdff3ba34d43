"""Measured rows under constants: all passes gathered once, and predicted anew whenever a constant moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rackmath.engine import Losses
from rackmath.engine.constants import Constants, EngineVersion
from rackmath.engine.terms import SERVICE, TERM
from rackmath.engine.timer import engine_timer
from rackmath.validation.answers import QuestionConstants, answer, engine_of, stacked_constants, taken
from rackmath.validation.features import Features, RecordedTimer, Recorder, flattened
from rackmath.validation.groups import Array, Group, groups
from rackmath.validation.held import held_by
from rackmath.validation.questions import Question

STEP = 1e-4
"""How far a constant moves on its inner scale for a slope."""


def evaluate(
    questions: Sequence[Question], constants: Constants, moved: Mapping[str, Array] | None = None
) -> tuple[Array, Array]:
    """Predicted values in the rows' units, and the batches behind them. (questions,)

    ``moved`` gives steps of constants on their inner scales, by their names: one of each question.
    """
    losses, scheduling = stacked_constants(constants, [engine_of(q) for q in questions], moved)
    sorted_groups = groups(questions)
    return _answered(sorted_groups, [held_by(group) for group in sorted_groups], losses, scheduling)


def _answered(
    sorted_groups: Sequence[Group], held: Sequence[Array | None], losses: Losses, scheduling: QuestionConstants
) -> tuple[Array, Array]:
    values, running = (np.full(sum(len(group.questions) for group in sorted_groups), np.nan) for _ in range(2))
    for group, most in zip(sorted_groups, held, strict=True):
        with_kernels = replace(taken(losses, group.index), kernels=group.kernels)
        timer = engine_timer(group.architecture, group.system, with_kernels, group.two_batch)
        values[group.index], running[group.index] = answer(group, timer, taken(scheduling, group.index), most)
    return values, running


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """What one set of constants makes of a problem."""

    times: Array
    """Seconds of every pass. [s] (passes,)"""
    values: Array
    """Logarithms of predicted values. (questions,)"""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Rows with their passes at the batches of one set of constants: what stays the same while constants move."""

    groups: list[Group]
    engines: list[EngineVersion]
    features: Features
    running: Array
    held: list[Array | None]
    """Sequences that memory holds, by group."""

    @classmethod
    def of(cls, questions: Sequence[Question], constants: Constants) -> Problem:
        """Gather the passes of all questions at the batches that ``constants`` imply."""
        sorted_groups = groups(questions)
        held = [held_by(group) for group in sorted_groups]
        return cls._gathered(sorted_groups, held, [engine_of(q) for q in questions], constants)

    def again(self, constants: Constants) -> Problem:
        """The same questions at the batches that other constants imply."""
        return self._gathered(self.groups, self.held, self.engines, constants)

    @classmethod
    def _gathered(
        cls, sorted_groups: list[Group], held: list[Array | None], engines: list[EngineVersion], constants: Constants
    ) -> Problem:
        losses, scheduling = stacked_constants(constants, engines)
        _, running = _answered(sorted_groups, held, losses, scheduling)
        recorders: list[Recorder] = []
        for group, most in zip(sorted_groups, held, strict=True):
            recorder = Recorder(group)
            answer(group, recorder, taken(scheduling, group.index), most, running[group.index])
            recorders.append(recorder)
        return cls(sorted_groups, engines, flattened(sorted_groups, recorders), running, held)

    def at(self, constants: Constants) -> Evaluation:
        """All passes and all predicted values."""
        losses, scheduling = stacked_constants(constants, self.engines)
        times = self.features.times(losses)
        return Evaluation(times, self._values(times, scheduling, [True] * len(self.groups)))

    def moved(self, constants: Constants, name: str, before: Evaluation, step: float = STEP) -> Array:
        """Logarithms of predicted values where one constant is a step on from those ``before``; the rest stay.

        Rows whose passes last as long, and that the constant reaches in no other way, are not asked again. (questions,)
        """
        losses, scheduling = stacked_constants(constants, self.engines, {name: step})
        times = self.features.times(losses)
        changed = times != before.times
        reached = [
            _beside_passes(name, group) or any(bool(changed[start:stop].any()) for start, stop in ranges)
            for group, ranges in zip(self.groups, self.features.calls, strict=True)
        ]
        return self._values(times, scheduling, reached, before.values)

    def _values(
        self, times: Array, scheduling: QuestionConstants, asked: Sequence[bool], others: Array | None = None
    ) -> Array:
        """Logarithms of predicted values of some groups, those of the rest from ``others``. (questions,)"""
        values = np.empty(len(self.engines)) if others is None else others.copy()
        for group, ranges, capacity, wanted in zip(self.groups, self.features.calls, self.held, asked, strict=True):
            if wanted:
                part, timer = taken(scheduling, group.index), RecordedTimer(times, ranges)
                values[group.index] = np.log(answer(group, timer, part, capacity, self.running[group.index])[0])
        return values


def _beside_passes(name: str, group: Group) -> bool:
    """Whether a constant acts on a group otherwise than through the times of its passes."""
    in_training = group.kind == "train"
    return in_training if name == "exposed" else not in_training and TERM[name].applies == SERVICE
