"""Measured rows under constants: all passes gathered once, and predicted anew whenever a constant moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from rackmath.engine.constants import Constants
from rackmath.engine.terms import OF_SCHEDULING, SERVICE, TERM
from rackmath.engine.timer import engine_timer
from rackmath.validation.answers import answer
from rackmath.validation.features import Features, RecordedTimer, Recorder, flattened
from rackmath.validation.groups import Array, Group, groups
from rackmath.validation.held import held_by
from rackmath.validation.question_constants import Engines, QuestionConstants, Stacked, stacked_constants, taken
from rackmath.validation.questions import Question

_OUTSIDE = (*OF_SCHEDULING, "exposed")
"""Constants beside the losses."""
STEP = 1e-4
"""How far a constant moves on its inner scale for a slope."""


def evaluate(
    questions: Sequence[Question], constants: Constants, moves: Mapping[str, Array] | None = None
) -> tuple[Array, Array]:
    """Predicted values in the rows' units, and the batches behind them. (questions,)

    ``moves`` gives steps of constants on their inner scales, by their names: one of each question.
    """
    columns = stacked_constants(constants, Engines.of(questions), moves)
    sorted_groups = groups(questions)
    return _answered(sorted_groups, [held_by(group) for group in sorted_groups], columns)


def _answered(
    sorted_groups: Sequence[Group], capacities: Sequence[Array | None], columns: Stacked
) -> tuple[Array, Array]:
    values, running = (np.full(np.size(columns.losses.compute), np.nan) for _ in range(2))
    for group, most in zip(sorted_groups, capacities, strict=True):
        with_kernels = replace(taken(columns.losses, group.index), kernels=group.kernels)
        timer = engine_timer(group.architecture, group.system, with_kernels, group.two_batch, group.draft, group.piece)
        values[group.index], running[group.index] = answer(group, timer, taken(columns.outside, group.index), most)
    return values, running


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """What one set of constants makes of a problem."""

    times: Array
    """Seconds of every pass. [s] (passes,)"""
    values: Array
    """Logarithms of predicted values. (questions,)"""
    stacked: Stacked
    outside: list[QuestionConstants]
    """Constants beside the losses, by group."""
    kernel_seconds: Mapping[str, Array]
    """Of every pass, by kind of kernel. [s] (passes,)"""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Rows with their passes at the batches of one set of constants: what stays the same while constants move."""

    groups: list[Group]
    engines: Engines
    features: Features
    running: Array
    held: list[Array | None]
    """Sequences that memory holds, by group."""
    is_active: list[bool]
    """Whether each group is computed: others keep the values that they had."""

    @classmethod
    def of(cls, questions: Sequence[Question], constants: Constants) -> Problem:
        """Gather the passes of all questions at the batches that ``constants`` imply."""
        sorted_groups = groups(questions)
        capacities = [held_by(group) for group in sorted_groups]
        return cls._gathered(sorted_groups, capacities, Engines.of(questions), constants)

    def again(self, constants: Constants) -> Problem:
        """The active groups at the batches that other constants imply."""
        groups, capacities = list(compress(self.groups, self.is_active)), list(compress(self.held, self.is_active))
        return self._gathered(groups, capacities, self.engines, constants)

    def of_weights(self, weights: Array) -> Problem:
        """The same; groups whose rows all weigh nothing are not active, and keep the values that they had."""
        return replace(self, is_active=[bool(weights[group.index].any()) for group in self.groups])

    @classmethod
    def _gathered(
        cls, sorted_groups: list[Group], capacities: list[Array | None], engines: Engines, constants: Constants
    ) -> Problem:
        columns = stacked_constants(constants, engines)
        _, running = _answered(sorted_groups, capacities, columns)
        recorders: list[Recorder] = []
        for group, most in zip(sorted_groups, capacities, strict=True):
            recorder = Recorder(group)
            answer(group, recorder, taken(columns.outside, group.index), most, running[group.index])
            recorders.append(recorder)
        features = flattened(sorted_groups, recorders)
        return cls(sorted_groups, engines, features, running, capacities, [True] * len(sorted_groups))

    def at(self, constants: Constants) -> Evaluation:
        """All passes and all predicted values."""
        columns = stacked_constants(constants, self.engines)
        kernel_seconds = self.features.kernel_seconds(columns.losses)
        times = self.features.times(columns.losses, kernel_seconds)
        outside = self._by_group(columns.outside)
        return Evaluation(times, self._values(times, outside, self.is_active), columns, outside, kernel_seconds)

    def moved(self, constants: Constants, name: str, before: Evaluation, step: float = STEP) -> Array:
        """Logarithms of predicted values where one constant is a step on from those ``before``; the rest stay.

        Rows whose passes last as long, and that the constant reaches in no other way, are not asked again. (questions,)
        """
        columns = stacked_constants(constants, self.engines, {name: step}, before.stacked)
        kernel_seconds = self.features.kernel_seconds(columns.losses, name, before.kernel_seconds)
        times = self.features.times(columns.losses, kernel_seconds)
        has_changed = times != before.times
        is_reached = [
            is_active
            and (_beside_passes(name, group) or any(bool(has_changed[start:stop].any()) for start, stop in ranges))
            for group, ranges, is_active in zip(self.groups, self.features.calls, self.is_active, strict=True)
        ]
        outside = self._by_group(columns.outside) if name in _OUTSIDE else before.outside
        return self._values(times, outside, is_reached, before.values)

    def _by_group(self, constants: QuestionConstants) -> list[QuestionConstants]:
        return [taken(constants, group.index) for group in self.groups]

    def _values(
        self,
        times: Array,
        outside: Sequence[QuestionConstants],
        is_asked: Sequence[bool],
        other_values: Array | None = None,
    ) -> Array:
        """Logarithms of predicted values of some groups, those of the rest from ``other_values``, or 0. (questions,)"""
        values = np.zeros(len(self.engines.at)) if other_values is None else other_values.copy()
        columns = (self.groups, self.features.calls, self.held, outside, is_asked)
        for group, ranges, capacity, part, is_asked_here in zip(*columns, strict=True):
            if is_asked_here:
                timer = RecordedTimer(times, ranges, group.draft is not None)
                values[group.index] = np.log(answer(group, timer, part, capacity, self.running[group.index])[0])
        return values


def _beside_passes(name: str, group: Group) -> bool:
    """Whether a constant acts on a group otherwise than through the times of its passes."""
    in_training = group.kind == "train"
    return in_training if name == "exposed" else not in_training and TERM[name].applies == SERVICE
