"""DualPipe: micro-batches enter at both ends, forward and backward passes overlap."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from rackmath.errors import InputError
from rackmath.training.pipelines.order import BOTH, Op, Order, backward, forward, inputs, weights


def dualpipe(ranks: int, microbatches: int, _: int) -> Order:
    """Two copies of the model, one entered at each end, half of the micro-batches each.

    Source: DeepSeek-V3 report 2024, section 3.2.1; deepseek-ai/DualPipe.
    """
    if ranks % 2 or microbatches % 2 or microbatches < 2 * ranks:
        raise InputError("--microbatches", microbatches, f"dualpipe needs even stages and at least {2 * ranks}, even")

    def operations(rank: int) -> tuple[Op, ...]:
        near = min(rank, ranks - 1 - rank)
        first, second = rank, 2 * ranks - 1 - rank
        stages = (first, second) if rank < ranks // 2 else (second, first)
        return tuple(_TwoWayRank(stages).operations(ranks // 2, near, microbatches // 2, microbatches // 2 - ranks))

    return Order(
        name="dualpipe",
        ranks=ranks,
        microbatches=microbatches,
        place=(*range(ranks), *range(ranks - 1, -1, -1)),
        starts=frozenset({0, ranks}),
        part=1.0,
        operations=tuple(operations(rank) for rank in range(ranks)),
    )


def dualpipe_v(ranks: int, microbatches: int, _: int) -> Order:
    """The same folded: one copy of the model in a V, the second half back through the same ranks.

    Source: deepseek-ai/DualPipe, ``dualpipev.py``; Sea AI Lab 2025, "cut in half".
    """
    if microbatches < 2 * ranks:
        raise InputError("--microbatches", microbatches, f"dualpipev needs at least twice its stages, {2 * ranks}")

    def operations(rank: int) -> tuple[Op, ...]:
        stages = (rank, 2 * ranks - 1 - rank)
        return tuple(_TwoWayRank(stages).operations(ranks, rank, microbatches, microbatches - 2 * ranks))

    return Order(
        name="dualpipev",
        ranks=ranks,
        microbatches=microbatches,
        place=(*range(ranks), *range(ranks - 1, -1, -1)),
        starts=frozenset({0}),
        part=0.5,
        operations=tuple(operations(rank) for rank in range(ranks)),
    )


@dataclass(slots=True)
class _TwoWayRank:
    """One rank's two stages: the one it fills first, and the other."""

    stages: tuple[int, int]
    ahead: list[int] = field(default_factory=lambda: [0, 0])
    back: list[int] = field(default_factory=lambda: [0, 0])
    put_off: deque[tuple[int, int]] = field(default_factory=deque[tuple[int, int]])

    def operations(self, ranks: int, rank: int, microbatches: int, middle: int) -> Iterator[Op]:
        """Eight steps: fill, fill both, drain with weights put off, overlap, and the same backwards."""
        far = ranks - rank - 1
        for _ in range(2 * far):
            yield self._forward(0)
        for _ in range(rank + 1):
            yield self._forward(0)
            yield self._forward(1)
        for _ in range(far):
            yield self._backward(1, put_off=True)
            yield self._weights()
            yield self._forward(1)
        for i in range(middle + rank + 1):
            if i == 0 and far == 0:
                # The last rank has nothing in flight yet that could hide the first pair.
                yield self._forward(0)
                yield self._backward(1, put_off=False)
            else:
                yield self._overlapped(0, 1)
            yield self._overlapped(1, 0)
        for _ in range(far):
            yield self._backward(1, put_off=False)
            yield self._overlapped(1, 0)
        yield from self._drain(rank)
        for _ in range(far):
            yield self._weights()
            yield self._backward(0, put_off=True)
        while self.put_off:
            yield self._weights()

    def _drain(self, rank: int) -> Iterator[Op]:
        """Backward passes of both stages; from their middle on weights are put off."""
        half = (rank + 1) // 2
        late = False
        for i in range(rank + 1):
            late = late or (i == half and rank % 2 == 1)
            yield self._backward(1, put_off=late)
            late = late or (i == half and rank % 2 == 0)
            yield self._backward(0, put_off=late)

    def _forward(self, side: int) -> Op:
        self.ahead[side] += 1
        return forward(self.stages[side], self.ahead[side] - 1)

    def _backward(self, side: int, *, put_off: bool) -> Op:
        self.back[side] += 1
        stage, micro = self.stages[side], self.back[side] - 1
        if not put_off:
            return backward(stage, micro)
        self.put_off.append((stage, micro))
        return inputs(stage, micro)

    def _overlapped(self, ahead: int, back: int) -> Op:
        self.ahead[ahead] += 1
        self.back[back] += 1
        return BOTH, self.stages[ahead], self.ahead[ahead] - 1, self.stages[back], self.back[back] - 1

    def _weights(self) -> Op:
        return weights(*self.put_off.popleft())
