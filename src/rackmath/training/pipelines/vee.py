"""Schedules of stages in a V: the second half of the model comes back through the same ranks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product

from rackmath.errors import InputError
from rackmath.training.pipelines.order import Op, Order, forward, inputs, weights

_UNITS = 6
"""Of a block that repeats: two stages, three operations each of one unit."""
_HOPS = {"v-half": (2, 1, 2, 1), "v-min": (1, 1, 1, 1)}
"""Units from rank to rank: forward out, forward home, backward out, backward home. Their sum sets the memory: twelve
would be that of 1F1B."""


def vee(name: str, ranks: int, microbatches: int) -> Order:
    """Two stages per rank, first ahead and then back."""
    if name == "zb-v":
        orders = [_zero_bubble(rank, ranks, microbatches) for rank in range(ranks)]
    else:
        orders = _repeated(_HOPS[name], ranks, microbatches)
    return Order(
        name=name,
        ranks=ranks,
        microbatches=microbatches,
        place=(*range(ranks), *range(ranks - 1, -1, -1)),
        starts=frozenset({0}),
        part=0.5,
        operations=tuple(orders),
    )


def _zero_bubble(rank: int, ranks: int, microbatches: int) -> tuple[Op, ...]:
    """Memory of 1F1B on every rank and no bubble for equal times.

    Source: Qi et al. 2024, section 6; the order of torch.distributed.pipelining. Where there are
    fewer micro-batches than the pattern needs, those beyond are left out.
    """
    first, second = rank, 2 * ranks - 1 - rank
    many = max(microbatches, 2 * ranks - 1)
    ops: list[Op] = []
    ahead, back, gradients = [0, 0], [0, 0], [0, 0]

    def step(kind: str, side: int) -> None:
        stage = (first, second)[side]
        counter, make = {"F": (ahead, forward), "I": (back, inputs), "W": (gradients, weights)}[kind]
        ops.append(make(stage, counter[side]))
        counter[side] += 1

    for _ in range(2 * (ranks - rank) - 1):
        step("F", 0)
    for _ in range(rank):
        step("F", 1)
        step("F", 0)
    for _ in range(ranks - rank):
        step("F", 1)
        step("I", 1)
        step("W", 1)
    while ahead[1] < ahead[0] or ahead[0] < many:
        if ahead[0] < many:
            step("F", 0)
        step("I", 0)
        step("W", 0)
        step("F", 1)
        step("I", 1)
        step("W", 1)
    for _ in range(rank):
        step("I", 0)
        step("I", 1)
    for _ in range(ranks - rank):
        step("I", 0)
        step("W", 0)
    while gradients[1] < back[1]:
        step("W", 1)
    while gradients[0] < back[0]:
        step("W", 0)
    return tuple(op for op in ops if op[2] < microbatches)


def _repeated(hops: tuple[int, int, int, int], ranks: int, microbatches: int) -> list[tuple[Op, ...]]:
    """A block of one micro-batch that repeats every six units without meeting itself.

    Source: Qi, Wan et al. 2024, "Pipeline parallelism with controllable memory", section 3.
    """
    blocks = _block(hops, ranks)
    orders: list[tuple[Op, ...]] = []
    for rank, times in enumerate(blocks):
        stages = rank, 2 * ranks - 1 - rank
        makers = (forward, stages[0]), (forward, stages[1]), (inputs, stages[1]), (inputs, stages[0])
        entries = [*zip(times, makers, strict=True), *_weights_of(times, stages)]
        passes = [
            (time + _UNITS * micro, make(stage, micro))
            for time, (make, stage) in entries
            for micro in range(microbatches)
        ]
        orders.append(tuple(op for _, op in sorted(passes)))
    return orders


def _block(hops: tuple[int, int, int, int], ranks: int) -> list[tuple[int, int, int, int]]:
    """Units at which a rank does the four operations of the first micro-batch; the shortest turns that never meet."""
    out, home, back_out, back_home = hops
    far = ranks - 1
    for turns in sorted(product(range(1, _UNITS + 1), repeat=3), key=sum):
        first, second, _ = turns
        blocks = [
            (
                out * rank,
                out * far + first + home * (far - rank),
                (out + home) * far + first + second + back_out * rank,
                (out + home + back_out) * far + sum(turns) + back_home * (far - rank),
            )
            for rank in range(ranks)
        ]
        if all(len({time % _UNITS for time in block}) == len(block) for block in blocks):
            return blocks
    raise InputError("hops", hops, "no turns keep these from meeting")


def _weights_of(
    times: tuple[int, int, int, int], stages: tuple[int, int]
) -> list[tuple[int, tuple[Callable[[int, int], Op], int]]]:
    """Weights' gradients in the two units that are left, each after its inputs' one."""
    free_units = [unit for unit in range(_UNITS) if unit not in {time % _UNITS for time in times}]
    later = [(times[2], stages[1]), (times[3], stages[0])]
    best = min(
        permutations(free_units),
        key=lambda units: sum((unit - time) % _UNITS for unit, (time, _) in zip(units, later, strict=True)),
    )
    return [(time + (unit - time) % _UNITS, (weights, stage)) for unit, (time, stage) in zip(best, later, strict=True)]
