"""Schedules in which a rank holds several stages, a round apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rackmath.errors import InputError
from rackmath.training.pipelines.order import Op, Order, backward, forward, inputs, weights


def interleaved(ranks: int, microbatches: int, chunks: int) -> Order:
    """1F1B over stages that lie a round apart. Source: Narayanan et al. 2021, section 2.2."""
    return _rounds("interleaved", ranks, microbatches, chunks, zero_bubble=False)


def interleaved_zero_bubble(ranks: int, microbatches: int, chunks: int) -> Order:
    """The same with weights' gradients put off, a rank's number behind. Source: torch.distributed.pipelining."""
    return _rounds("interleaved-zb", ranks, microbatches, chunks, zero_bubble=True)


def looped(ranks: int, microbatches: int, chunks: int) -> Order:
    """All micro-batches through a stage before the next stage of the rank. Source: Lamy-Poirier 2023."""

    def operations(rank: int) -> Iterator[Op]:
        for chunk in range(chunks):
            yield from (forward(chunk * ranks + rank, i) for i in range(microbatches))
        for chunk in reversed(range(chunks)):
            yield from (backward(chunk * ranks + rank, i) for i in reversed(range(microbatches)))

    return _looping("looped-bfs", ranks, microbatches, chunks, operations)


def _rounds(name: str, ranks: int, microbatches: int, chunks: int, *, zero_bubble: bool) -> Order:
    rounds = max(1, microbatches // ranks)
    if microbatches % rounds:
        raise InputError("--microbatches", microbatches, f"{name} needs a multiple of its {rounds} rounds")
    wide = microbatches // rounds
    total = microbatches * chunks

    def stage(step: int, rank: int, *, reverse: bool) -> tuple[int, int]:
        """Stage and micro-batch of a rank's step in one direction."""
        chunk = step // wide % chunks
        chunk = chunks - 1 - chunk if reverse else chunk
        return chunk * ranks + rank, step // (wide * chunks) * wide + step % wide

    def operations(rank: int) -> Iterator[Op]:
        reach = 1 if zero_bubble else 2
        ahead = min((chunks - 1) * wide + reach * (ranks - 1 - rank), total)
        yield from (forward(*stage(i, rank, reverse=False)) for i in range(ahead))
        for i in range(total):
            if i + ahead < total:
                yield forward(*stage(i + ahead, rank, reverse=False))
            back = stage(i, rank, reverse=True)
            if not zero_bubble:
                yield backward(*back)
                continue
            yield inputs(*back)
            if i >= rank:
                yield weights(*stage(i - rank, rank, reverse=True))
        if zero_bubble:
            yield from (weights(*stage(i, rank, reverse=True)) for i in range(max(total - rank, 0), total))

    return _looping(name, ranks, microbatches, chunks, operations)


def _looping(name: str, ranks: int, microbatches: int, chunks: int, operations: Callable[[int], Iterator[Op]]) -> Order:
    return Order(
        name=name,
        ranks=ranks,
        microbatches=microbatches,
        place=tuple(stage % ranks for stage in range(ranks * chunks)),
        starts=frozenset({0}),
        part=1 / chunks,
        operations=tuple(tuple(operations(rank)) for rank in range(ranks)),
    )
