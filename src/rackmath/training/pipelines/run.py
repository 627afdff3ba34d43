"""One door to all schedules: those with a fixed order, and those that are searched for given times."""

from __future__ import annotations

from rackmath.errors import InputError
from rackmath.training.pipelines.execute import StageTimes, Timeline, execute
from rackmath.training.pipelines.order import Op, Order, forward
from rackmath.training.pipelines.schedules import SCHEDULES, schedule
from rackmath.training.pipelines.searched import zb_2p

SEARCHED = "zb-2p"
NAMES = (*SCHEDULES, SEARCHED)
"""Schedules of training."""


def run(
    name: str, stages: int, microbatches: int, times: StageTimes, chunks: int | None = None, weight_share: float = 1.0
) -> Timeline:
    """Execute a schedule by name.

    Parameters
    ----------
    weight_share : float
        Part of an activation that stays from the gradient of its inputs to that of its weights. [1]

    Errors: :class:`InputError` for an unknown name, and for numbers that the schedule does not allow.
    """
    if not 0 <= weight_share <= 1:
        raise InputError("--weight-share", weight_share, "write a part from 0 to 1")
    if name != SEARCHED:
        if name not in SCHEDULES:
            raise InputError("--schedule", name, f"known are {', '.join(NAMES)}")
        return execute(schedule(name, stages, microbatches, chunks), times, weight_share)
    if chunks is not None:
        raise InputError("--chunks", chunks, f"{name} has none")
    # The same limits, and the times, are checked on a plain order first.
    execute(schedule("1f1b", stages, microbatches), times)
    return zb_2p(stages, microbatches, times, weight_share)


def round_robin(stages: int, microbatches: int, passes: int) -> Order:
    """Decoding: micro-batches follow each other around the stages, each token after the one before.

    With at least as many micro-batches as stages, and hops that are hidden, no stage waits: a token takes m
    passes of a stage. With fewer, it takes as many as there are stages. Source: lecture chapter 3.

    Errors: :class:`InputError` for numbers below 1.
    """
    for field, value in (("--stages", stages), ("--microbatches", microbatches), ("--passes", passes)):
        if value < 1:
            raise InputError(field, value, "write a number of at least 1")

    def operations(rank: int) -> tuple[Op, ...]:
        return tuple(forward(rank, i) for i in range(microbatches * passes))

    return Order(
        name="round-robin",
        ranks=stages,
        microbatches=microbatches * passes,
        place=tuple(range(stages)),
        starts=frozenset({0}),
        part=1.0,
        operations=tuple(operations(rank) for rank in range(stages)),
        returns=microbatches,
    )
