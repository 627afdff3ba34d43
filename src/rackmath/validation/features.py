"""All passes behind a table of rows, flattened: times of thousands of passes in a few broadcasts.

Fitting evaluates the same passes hundreds of times with other constants. Their ideal work
is gathered once, operator by operator, into long arrays; the losses are then applied by
the engine's own functions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rackmath.engine import Layout, Losses
from rackmath.engine.communication import Communication
from rackmath.engine.gather import gathered
from rackmath.engine.kernel_curves import Kernels, KernelSeconds
from rackmath.engine.layout import draft_layout, widths
from rackmath.engine.losses import factors_of, host_time, kernel_time, launch_time
from rackmath.engine.pass_work import CollectiveSeconds, PassWork, collectives_time, shown_time
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number
from rackmath.validation.groups import Array, Group, Ints
from rackmath.validation.question_constants import taken

_SECONDS = len(KernelSeconds._fields)


@dataclass(frozen=True, slots=True, eq=False)
class Operators:
    """Operators of one kind and width over all passes."""

    seconds: KernelSeconds
    """Of the chip's kernels, one number per operator and pass."""
    ideal: Array
    scores: Array
    ranks: Array
    training: Array
    owner: Ints
    """Pass that each belongs to."""


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Ideal work of all passes; a pass is one call of a timer for one question."""

    operators: dict[str, Operators]
    """By kind of kernel."""
    work: PassWork
    """Ideal collectives, kernels and sequences, one value per pass."""
    collectives: CollectiveSeconds
    """With the chip's kernels."""
    passes: Array
    """Times that each is made, one after the other. [1]"""
    scheduled: Array
    """1 where the host schedules a pass, 0 where it follows another, as those of a head that drafts do. [1]"""
    question: Ints
    """Question that each pass belongs to."""
    calls: tuple[tuple[tuple[int, int], ...], ...]
    """Ranges of passes, by group and by call of its timer."""

    def kernel_seconds(self, k: Losses, term: str = "", before: Mapping[str, Array] | None = None) -> dict[str, Array]:
        """Seconds of all kernels of a pass, by their kind; losses are given per question. [s] (passes,)

        Of kinds that the loss ``term`` does not reach they are those ``before``.
        """
        result: dict[str, Array] = {}
        for kind, ops in self.operators.items():
            if before is not None and term not in factors_of(kind):
                result[kind] = before[kind]
                continue
            at = self.question[ops.owner]
            constants = Losses().factors._replace(**{name: _at(getattr(k, name), at) for name in factors_of(kind)})
            seconds = kernel_time(kind, ops.ideal, ops.seconds, ops.scores, ops.ranks, constants, ops.training)
            sums = np.bincount(ops.owner, weights=seconds, minlength=len(self.passes))
            result[kind] = np.asarray(sums, dtype=float)
        return result

    def times(self, k: Losses, kernel_seconds: Mapping[str, Array]) -> Array:
        """Seconds of every pass, with losses given per question. [s] (passes,)"""
        of_pass = taken(k, self.question)
        total = np.zeros(len(self.passes))
        for seconds in kernel_seconds.values():
            total = total + seconds
        total = total + shown_time(self.work, self.collectives, of_pass, total)
        total = total + launch_time(
            self.work.kernels, self.work.gaps, self.work.routed, self.work.routed_experts, total, of_pass
        )
        total = total + self.scheduled * host_time(self.work.sequences, self.work.several, total, of_pass)
        return self.passes * total * of_pass.whole


class Recorder:
    """A timer of one group that keeps the ideal work of what it is asked."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.made: list[tuple[PassWork, Array, bool]] = []

    def __call__(
        self,
        phase: str,
        layout: Layout,
        batch: Number,
        context: Number,
        draft_tokens: Number,
        cached_tokens: Number = 0.0,
    ) -> Number:
        """Keep the pass; return its ideal seconds, which only set what is asked next."""
        size = len(self.group.questions)
        wide = {n: _wide(v, size) for n, v in widths(layout).items()}
        hidden = self.group.two_batch
        loads = {
            "batch": batch,
            "context": context,
            "draft_tokens": draft_tokens,
            "cached_tokens": cached_tokens,
            "two_batch": hidden,
            "piece": self.group.piece,
        }
        point = {**wide, **{n: _wide(v, size) for n, v in loads.items()}}
        ideal = self._kept(self.group.architecture, phase, point, 1.0)
        if self.group.draft is None:
            return ideal
        draft_widths = widths(draft_layout(self.group.draft, layout))
        drafts = {**point, **{n: _wide(v, size) for n, v in draft_widths.items()}, "draft_tokens": np.zeros(size)}
        return ideal + self._kept(self.group.draft, phase, drafts, draft_tokens if phase == "decode" else 1.0)

    def _kept(self, architecture: Architecture, phase: str, point: Mapping[str, Array], times: Number) -> Array:
        """Keep a pass that is made so many times; return the ideal seconds of all. (questions,) [s]"""
        size = len(self.group.questions)
        work = gathered(architecture, self.group.system, phase, point, None)
        passes = _wide(work.passes * times, size)
        self.made.append((work.work, passes, architecture is self.group.architecture))
        return _wide(passes * (sum(op.time for op in work.work.operators) + work.work.exchange), size)


def flattened(groups: Sequence[Group], recorders: Sequence[Recorder]) -> Features:
    """Join what all recorders kept."""
    call_places: list[_CallPlace] = []
    calls: list[tuple[tuple[int, int], ...]] = []
    start = 0
    for group, recorder in zip(groups, recorders, strict=True):
        ranges: list[tuple[int, int]] = []
        for work, passes, has_host in recorder.made:
            size = len(group.questions)
            owner = np.arange(start, start + size)
            call_places.append(_CallPlace(work, passes, has_host, group.index, owner, group.kernels))
            ranges.append((start, start + size))
            start += size
        calls.append(tuple(ranges))
    return Features(
        operators=_operators(call_places),
        work=_collectives(call_places),
        collectives=_with_kernels(call_places),
        passes=np.concatenate([p.passes for p in call_places]),
        scheduled=np.concatenate([p.wide(p.scheduled) for p in call_places]),
        question=np.concatenate([p.question for p in call_places]),
        calls=tuple(calls),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _CallPlace:
    """One call of a timer with its place among all passes."""

    work: PassWork
    passes: Array
    scheduled: bool
    question: Ints
    owner: Ints
    kernels: Kernels

    def wide(self, value: Number) -> Array:
        """One value per question."""
        return _wide(value, len(self.owner))


def _operators(calls: Sequence[_CallPlace]) -> dict[str, Operators]:
    """Operators of all passes, by kind of kernel."""
    parts: defaultdict[str, list[tuple[list[Array], Ints]]] = defaultdict(list)
    for p in calls:
        for op in p.work.operators:
            seconds = p.kernels.curve(op.kernel).seconds(op.load)
            numbers = (*seconds, op.time, op.scores, p.work.ranks, p.work.training)
            parts[op.kernel].append(([p.wide(number) for number in numbers], p.owner))
    result: dict[str, Operators] = {}
    for kind, rows in parts.items():
        columns = [np.concatenate(column) for column in zip(*(numbers for numbers, _ in rows), strict=True)]
        owner = np.concatenate([owner for _, owner in rows])
        result[kind] = Operators(KernelSeconds(*columns[:_SECONDS]), *columns[_SECONDS:], owner=owner)
    return result


def _collectives(calls: Sequence[_CallPlace]) -> PassWork:
    """Collectives, kernels and sequences of all passes; their operators are kept apart."""

    def joined(get: Callable[[PassWork], Number]) -> Array:
        return np.concatenate([p.wide(get(p.work)) for p in calls])

    def exchange(get: Callable[[PassWork], Communication]) -> Communication:
        return Communication(
            tensor=joined(lambda w: get(w).tensor),
            dispatch=joined(lambda w: get(w).dispatch),
            combine=joined(lambda w: get(w).combine),
            outside=joined(lambda w: get(w).outside),
            pipeline=joined(lambda w: get(w).pipeline),
        )

    return PassWork(
        operators=(),
        wire=exchange(lambda w: w.wire),
        latency=exchange(lambda w: w.latency),
        kernels=joined(lambda w: w.kernels),
        gaps=joined(lambda w: w.gaps),
        routed=joined(lambda w: w.routed),
        routed_experts=joined(lambda w: w.routed_experts),
        sequences=joined(lambda w: w.sequences),
        ranks=1.0,
        several=joined(lambda w: w.several),
        training=joined(lambda w: w.training),
        hidden=joined(lambda w: w.hidden),
    )


def _with_kernels(calls: Sequence[_CallPlace]) -> CollectiveSeconds:
    """Seconds of the collectives of all passes with each chip's kernels."""
    kernel_times = [(p, collectives_time(p.work, p.kernels)) for p in calls]
    return CollectiveSeconds(*(np.concatenate([p.wide(c[i]) for p, c in kernel_times]) for i in range(4)))


class RecordedTimer:
    """A timer that returns the times of one group's passes in the order they were recorded, each with its drafts'."""

    def __init__(self, times: Array, ranges: Sequence[tuple[int, int]], drafting: bool) -> None:
        self.times = times
        self.left = list(ranges)
        self.drafting = drafting

    def __call__(self, *_pass: object, **_fields: object) -> Number:
        """Return the next recorded pass's seconds."""
        start, stop = self.left.pop(0)
        if not self.drafting:
            return self.times[start:stop]
        first, last = self.left.pop(0)
        return self.times[start:stop] + self.times[first:last]


def _at(value: Number, at: Ints) -> Number:
    return value[at] if isinstance(value, np.ndarray) else value


def _wide(value: Number, size: int) -> Array:
    numbers = np.asarray(value, dtype=float)
    return numbers if numbers.shape == (size,) else np.full(size, numbers)
