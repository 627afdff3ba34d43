"""Event-exact execution of an order: every operation starts when its rank and its inputs are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.training.pipelines.order import (
    BACKWARD,
    BOTH,
    FORWARD,
    INPUT,
    WEIGHT,
    Op,
    Order,
    backward,
    forward,
)

Array = NDArray[np.float64]

_NOT_YET = -1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """Of a whole rank's layers and one micro-batch; one number, or one per stage. [s]"""

    forward: float | Sequence[float]
    backward_input: float | Sequence[float]
    backward_weight: float | Sequence[float]
    send_time: float = 0.0
    """From one rank to another; it overlaps computation. [s]"""
    overlap_time: float | None = None
    """A forward pass beside the whole backward pass of another micro-batch; by default one after the other. [s]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """When everything happens. [s]"""

    order: Order
    start: tuple[tuple[float, ...], ...]
    """By rank, in the order of its operations."""
    end: tuple[tuple[float, ...], ...]
    makespan: float
    """From the first start to the last end: what an optimizer sees that waits for all ranks."""
    longest_span: float
    """Of the rank that takes longest from its first start to its last end: what counts where iterations may skew."""
    work: float
    """Of the busiest rank."""
    peak_activations: tuple[float, ...]
    """By rank, at most, in activations of one micro-batch on a whole rank."""

    @property
    def bubble_makespan(self) -> float:
        """Part of the makespan in which the busiest rank waits. [1]"""
        return 1 - self.work / self.makespan

    @property
    def bubble_longest_span(self) -> float:
        """Part of the longest span in which the busiest rank waits. [1]"""
        return 1 - self.work / self.longest_span


def execute(order: Order, times: StageTimes, weight_share: float = 1.0) -> Timeline:
    """Run an order.

    Parameters
    ----------
    weight_share : float
        Part of an activation that stays from the gradient of its inputs to that of its weights. [1]

    Errors: :class:`InputError` for times that are negative or not one per stage, and for an order that waits for
    itself.
    """
    spans = _durations(order, times)
    if times.overlap_time is None:
        order = replace(order, operations=tuple(map(_apart, order.operations)))
    lanes = [_lane(order, rank, spans, times.send_time) for rank in range(order.ranks)]
    end_of: list[float] = [_NOT_YET] * (2 * len(order.place) * order.microbatches) + [0.0, 0.0]
    begins: list[list[float]] = [[] for _ in lanes]
    finishes: list[list[float]] = [[] for _ in lanes]
    waiting: dict[int, list[int]] = {}
    ready = list(range(order.ranks))
    while ready:
        rank = ready.pop()
        starts, ends = begins[rank], finishes[rank]
        clock = ends[-1] if ends else 0.0
        first, first_lag, second, second_lag, span, first_ops, other_ops = lanes[rank]
        for at in range(len(ends), len(span)):
            when, then = end_of[first[at]], end_of[second[at]]
            if when < 0 or then < 0:
                waiting.setdefault(first[at] if when < 0 else second[at], []).append(rank)
                break
            clock = max(clock, when + first_lag[at], then + second_lag[at])
            starts.append(clock)
            clock += span[at]
            ends.append(clock)
            for slot in (first_ops[at], other_ops[at]):
                end_of[slot] = clock
                if slot in waiting:
                    ready += waiting.pop(slot)
        # The last slot is written by operations that nobody waits for.
        end_of[-1] = 0.0
    for rank, ends in enumerate(finishes):
        if len(ends) < len(order.operations[rank]):
            raise InputError("order", order.name, f"waits for itself: rank {rank} stops at operation {len(ends)}")
    return _timeline(order, begins, finishes, spans, weight_share)


def _apart(operations: tuple[Op, ...]) -> tuple[Op, ...]:
    """Overlapped pairs as a forward pass and then a backward one."""
    if all(op[0] != BOTH for op in operations):
        return operations
    ops: list[Op] = []
    for op in operations:
        ops += [forward(op[1], op[2]), backward(op[3], op[4])] if op[0] == BOTH else [op]
    return tuple(ops)


class _Lane(NamedTuple):
    """One rank's operations as columns: two slots that each waits for and how long after, its time, what it makes."""

    first: list[int]
    first_lag: list[float]
    second: list[int]
    second_lag: list[float]
    span: list[float]
    one: list[int]
    other: list[int]


def _lane(order: Order, rank: int, spans: Array, send: float) -> _Lane:
    """Columns of a rank.

    Slots are results: forward passes by stage and micro-batch, then backward ones; the last but one is
    there from the start, the last is nobody's. That a gradient comes after its own forward pass is in the rank's order.
    """
    many, place = order.microbatches, np.array(order.place)
    back = len(place) * many
    kind, stage, micro, partner, second = np.array(order.operations[rank], dtype=np.int64).reshape(-1, 5).T
    there, nobody = 2 * back, 2 * back + 1
    goes_back = np.isin(kind, (INPUT, BACKWARD, BOTH))
    goes_on = np.isin(kind, (FORWARD, BOTH))
    from_stage, from_micro = np.where(kind == BOTH, partner, stage), np.where(kind == BOTH, second, micro)
    starts, last = np.isin(stage, list(order.starts)), np.isin(from_stage, list(order.last))
    before = np.where(starts, len(place) - 1, stage - 1)
    token = np.where(starts, micro - order.returns, micro)
    ahead = goes_on & (~starts | ((order.returns > 0) & (token >= 0)))
    behind = goes_back & ~last
    after = np.minimum(from_stage + 1, len(place) - 1)
    return _Lane(
        *(
            column.tolist()
            for column in (
                np.where(ahead, before * many + token, there),
                np.where(ahead & (place[before] != rank), send, 0.0),
                np.where(behind, back + after * many + from_micro, there),
                np.where(behind & (place[after] != rank), send, 0.0),
                spans[kind, np.where(kind == BOTH, partner, stage)],
                np.where(goes_on, stage * many + micro, nobody),
                np.where(goes_back, back + from_stage * many + from_micro, nobody),
            )
        )
    )


def _durations(order: Order, times: StageTimes) -> Array:
    """Time of each kind of operation on each stage. (kinds, stages)"""
    stages = len(order.place)
    durations: list[list[float]] = []
    for field in ("forward", "backward_input", "backward_weight"):
        duration = getattr(times, field)
        values = (
            [float(duration)] * stages if isinstance(duration, (int, float)) else [float(value) for value in duration]
        )
        if len(values) == order.ranks and stages != order.ranks:
            values = [values[rank] for rank in order.place]
        if len(values) != stages:
            ways = f"one number, {order.ranks} or {stages} of them" if stages != order.ranks else f"one or {stages}"
            raise InputError(f"--{field.replace('_', '-')}", len(values), f"give {ways}")
        durations.append([value * order.part for value in values])
    all_values = [*(value for side in durations for value in side), times.send_time, times.overlap_time or 0.0]
    for value in all_values:
        if not (isfinite(value) and value >= 0):
            raise InputError("times", value, "write times that are not negative")
    ahead, back, own_time = np.array(durations)
    overlap_time = (
        ahead + back + own_time if times.overlap_time is None else np.full(stages, times.overlap_time * order.part)
    )
    return np.stack([ahead, back, own_time, back + own_time, overlap_time])


def _timeline(
    order: Order, starts: list[list[float]], ends: list[list[float]], spans: Array, weight_share: float
) -> Timeline:
    first = min((side[0] for side in starts if side), default=0.0)
    makespan = max(side[-1] for side in ends if side) - first
    if not makespan > 0:
        raise InputError("times", 0, f"some operation of {order.name} must take time")
    longest = max(end[-1] - start[0] for start, end in zip(starts, ends, strict=True) if start)
    work = max(_work(operations, spans) for operations in order.operations)
    return Timeline(
        order=order,
        start=tuple(map(tuple, starts)),
        end=tuple(map(tuple, ends)),
        makespan=makespan,
        longest_span=longest,
        work=work,
        peak_activations=tuple(_peak(operations, order.part, weight_share) for operations in order.operations),
    )


def _work(operations: Sequence[Op], spans: Array) -> float:
    """Time of a rank's operations; a pair counts as what it would take apart, so that overlapping it shows."""
    kind, stage, _, partner, _ = np.array(operations, dtype=np.int64).T
    apart = spans[FORWARD, stage] + spans[BACKWARD, np.maximum(partner, 0)]
    return float(np.where(kind == BOTH, apart, spans[np.where(kind == BOTH, FORWARD, kind), stage]).sum())


def _peak(operations: Sequence[Op], part: float, weight_share: float) -> float:
    """Most activations of a rank at a time: one from its forward pass until its weights' gradient is done."""
    level = most = 0.0
    for kind, *_ in operations:
        if kind in (FORWARD, BOTH):
            level += 1
            most = max(most, level)
        if kind in (BACKWARD, BOTH):
            level -= 1
        elif kind == INPUT:
            level -= 1 - weight_share
        elif kind == WEIGHT:
            level -= weight_share
    return most * part
