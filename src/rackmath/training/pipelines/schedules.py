"""Orders of the published schedules, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from rackmath.errors import InputError
from rackmath.training.pipelines.interleaved import interleaved, interleaved_zero_bubble, looped
from rackmath.training.pipelines.order import Op, Order, backward, forward, inputs, weights
from rackmath.training.pipelines.two_way import dualpipe, dualpipe_v
from rackmath.training.pipelines.vee import vee

LARGEST = 4_000_000
"""Operations of one order."""


def schedule(name: str, stages: int, microbatches: int, chunks: int | None = None) -> Order:
    """Order of a schedule.

    Parameters
    ----------
    name : str
        One of ``SCHEDULES``.
    stages, microbatches : int
        Ranks of the pipeline, and micro-batches of an iteration.
    chunks : int, optional
        Stages per rank of the interleaved and looped schedules; 2 by default.

    Errors: :class:`InputError` for an unknown name and for numbers that the schedule does not allow.
    """
    if name not in SCHEDULES:
        raise InputError("--schedule", name, f"known are {', '.join(SCHEDULES)}")
    for field, value in (("--stages", stages), ("--microbatches", microbatches), ("--chunks", chunks or 1)):
        if value < 1:
            raise InputError(field, value, "write a number of at least 1")
    if 3 * stages * microbatches * (chunks or 1) > LARGEST:
        raise InputError("--microbatches", microbatches, f"makes more than {LARGEST:,} operations")
    if chunks is not None and name not in CHUNKED:
        raise InputError("--chunks", chunks, f"{name} has none; those that have are {', '.join(CHUNKED)}")
    return SCHEDULES[name](stages, microbatches, chunks or 2)


def _plain(name: str, ranks: int, microbatches: int, operations: Callable[[int], Iterator[Op]]) -> Order:
    """One stage per rank."""
    return Order(
        name=name,
        ranks=ranks,
        microbatches=microbatches,
        place=tuple(range(ranks)),
        starts=frozenset({0}),
        part=1.0,
        operations=tuple(tuple(operations(rank)) for rank in range(ranks)),
    )


def _gpipe(ranks: int, microbatches: int, _: int) -> Order:
    """All forward, all backward. Source: Huang et al. 2019."""

    def operations(rank: int) -> Iterator[Op]:
        yield from (forward(rank, i) for i in range(microbatches))
        yield from (backward(rank, i) for i in range(microbatches))

    return _plain("gpipe", ranks, microbatches, operations)


def _one_forward_one_backward(ranks: int, microbatches: int, _: int) -> Order:
    """Forward passes that fill the pipeline, then one of each. Source: Narayanan et al. 2019, 2021."""

    def operations(rank: int) -> Iterator[Op]:
        ahead = min(ranks - rank, microbatches)
        yield from (forward(rank, i) for i in range(ahead))
        for i in range(microbatches):
            yield backward(rank, i)
            if i + ahead < microbatches:
                yield forward(rank, i + ahead)

    return _plain("1f1b", ranks, microbatches, operations)


def handcrafted(
    name: str, ranks: int, microbatches: int, ahead: Callable[[int], int], behind: Callable[[int], int]
) -> Order:
    """Forward passes ahead of the first gradient of a rank, and weights' gradients that far behind inputs'."""

    def operations(rank: int) -> Iterator[Op]:
        first, lag = min(ahead(rank), microbatches), behind(rank)
        yield from (forward(rank, i) for i in range(first))
        for i in range(microbatches):
            yield inputs(rank, i)
            if i >= lag:
                yield weights(rank, i - lag)
            if i + first < microbatches:
                yield forward(rank, i + first)
        yield from (weights(rank, i) for i in range(max(microbatches - lag, 0), microbatches))

    return _plain(name, ranks, microbatches, operations)


def _zb_h1(ranks: int, microbatches: int, _: int) -> Order:
    """Memory of 1F1B, a third of its bubble. Source: Qi et al. 2024, section 2.2."""
    return handcrafted("zb-h1", ranks, microbatches, lambda rank: ranks - rank, lambda rank: rank)


def _zb_h2(ranks: int, microbatches: int, _: int) -> Order:
    """Twice the memory, no bubble but for skew. Source: Qi et al. 2024, section 2.3."""
    return handcrafted("zb-h2", ranks, microbatches, lambda rank: 2 * (ranks - rank) - 1, lambda rank: 2 * rank)


def _vee(name: str) -> Callable[[int, int, int], Order]:
    return lambda ranks, microbatches, _: vee(name, ranks, microbatches)


SCHEDULES: Mapping[str, Callable[[int, int, int], Order]] = MappingProxyType(
    {
        "gpipe": _gpipe,
        "1f1b": _one_forward_one_backward,
        "interleaved": interleaved,
        "looped-bfs": looped,
        "interleaved-zb": interleaved_zero_bubble,
        "zb-h1": _zb_h1,
        "zb-h2": _zb_h2,
        "zb-v": _vee("zb-v"),
        "v-half": _vee("v-half"),
        "v-min": _vee("v-min"),
        "dualpipe": dualpipe,
        "dualpipev": dualpipe_v,
    }
)
"""By name: ranks, micro-batches and chunks -> order."""

CHUNKED = ("interleaved", "looped-bfs", "interleaved-zb")
"""Schedules whose number of stages per rank is free."""
