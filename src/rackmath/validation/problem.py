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
    questions: Sequence[Question], constants: Constants, moved: Mapping[str, Array] | None = None
) -> tuple[Array, Array]:
    """Predicted values in the rows' units, and the batches behind them. (questions,)

    ``moved`` gives steps of constants on their inner scales, by their names: one of each question.
    """
    stacked = stacked_constants(constants, Engines.of(questions), moved)
    sorted_groups = groups(questions)
    return _answered(sorted_groups, [held_by(group) for group in sorted_groups], stacked)


def _answered(sorted_groups: Sequence[Group], held: Sequence[Array | None], stacked: Stacked) -> tuple[Array, Array]:
    values, running = (np.full(np.size(stacked.losses.compute), np.nan) for _ in range(2))
    for group, most in zip(sorted_groups, held, strict=True):
        with_kernels = replace(taken(stacked.losses, group.index), kernels=group.kernels)
        timer = engine_timer(group.architecture, group.system, with_kernels, group.two_batch, group.draft)
        values[group.index], running[group.index] = answer(group, timer, taken(stacked.outside, group.index), most)
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
        held = [held_by(group) for group in sorted_groups]
        return cls._gathered(sorted_groups, held, Engines.of(questions), constants)

    def again(self, constants: Constants) -> Problem:
        """The active groups at the batches that other constants imply."""
        groups, held = list(compress(self.groups, self.is_active)), list(compress(self.held, self.is_active))
        return self._gathered(groups, held, self.engines, constants)

    def of_weights(self, weights: Array) -> Problem:
        """The same; groups whose rows all weigh nothing are not active, and keep the values that they had."""
        return replace(self, is_active=[bool(weights[group.index].any()) for group in self.groups])

    @classmethod
    def _gathered(
        cls, sorted_groups: list[Group], held: list[Array | None], engines: Engines, constants: Constants
    ) -> Problem:
        stacked = stacked_constants(constants, engines)
        _, running = _answered(sorted_groups, held, stacked)
        recorders: list[Recorder] = []
        for group, most in zip(sorted_groups, held, strict=True):
            recorder = Recorder(group)
            answer(group, recorder, taken(stacked.outside, group.index), most, running[group.index])
            recorders.append(recorder)
        features = flattened(sorted_groups, recorders)
        return cls(sorted_groups, engines, features, running, held, [True] * len(sorted_groups))

    def at(self, constants: Constants) -> Evaluation:
        """All passes and all predicted values."""
        stacked = stacked_constants(constants, self.engines)
        kernel_seconds = self.features.kernel_seconds(stacked.losses)
        times = self.features.times(stacked.losses, kernel_seconds)
        outside = self._by_group(stacked.outside)
        return Evaluation(times, self._values(times, outside, self.is_active), stacked, outside, kernel_seconds)

    def moved(self, constants: Constants, name: str, before: Evaluation, step: float = STEP) -> Array:
        """Logarithms of predicted values where one constant is a step on from those ``before``; the rest stay.

        Rows whose passes last as long, and that the constant reaches in no other way, are not asked again. (questions,)
        """
        stacked = stacked_constants(constants, self.engines, {name: step}, before.stacked)
        kernel_seconds = self.features.kernel_seconds(stacked.losses, name, before.kernel_seconds)
        times = self.features.times(stacked.losses, kernel_seconds)
        changed = times != before.times
        reached = [
            is_active
            and (_beside_passes(name, group) or any(bool(changed[start:stop].any()) for start, stop in ranges))
            for group, ranges, is_active in zip(self.groups, self.features.calls, self.is_active, strict=True)
        ]
        outside = self._by_group(stacked.outside) if name in _OUTSIDE else before.outside
        return self._values(times, outside, reached, before.values)

    def _by_group(self, constants: QuestionConstants) -> list[QuestionConstants]:
        return [taken(constants, group.index) for group in self.groups]

    def _values(
        self, times: Array, outside: Sequence[QuestionConstants], asked: Sequence[bool], others: Array | None = None
    ) -> Array:
        """Logarithms of predicted values of some groups, those of the rest from ``others``, or 0. (questions,)"""
        values = np.zeros(len(self.engines.at)) if others is None else others.copy()
        columns = (self.groups, self.features.calls, self.held, outside, asked)
        for group, ranges, capacity, part, wanted in zip(*columns, strict=True):
            if wanted:
                timer = RecordedTimer(times, ranges, group.draft is not None)
                values[group.index] = np.log(answer(group, timer, part, capacity, self.running[group.index])[0])
        return values


def _beside_passes(name: str, group: Group) -> bool:
    """Whether a constant acts on a group otherwise than through the times of its passes."""
    in_training = group.kind == "train"
    return in_training if name == "exposed" else not in_training and TERM[name].applies == SERVICE
