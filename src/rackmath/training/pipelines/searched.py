"""Orders found for given times: ZB-2p, as little bubble as twice the memory allows."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush

from rackmath.training.pipelines.execute import StageTimes, Timeline, execute
from rackmath.training.pipelines.order import FORWARD, INPUT, WEIGHT, Op, Order, forward, inputs, weights

_PATIENCE = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
"""Parts of a weights' gradient that a rank waits for something better, if it knows that it comes."""

_LONG = 20_000
"""Micro-batches of all ranks from which on a bubble below one forward pass is good enough."""


def zb_2p(ranks: int, microbatches: int, times: StageTimes, weight_share: float = 1.0, memory: float = 2.0) -> Timeline:
    """Shortest of a family of greedy orders, by longest span and then makespan.

    A rank takes gradients of inputs first, forward passes as memory allows, and fills what is left with gradients of
    weights. Ranks start as many forward passes as memory allows.

    Parameters
    ----------
    weight_share : float
        Part of an activation that stays from the gradient of its inputs to that of its weights. [1]
    memory : float
        Activations that a rank may hold, over those of 1F1B's first rank.

    Source: the idea of Qi et al. 2024, appendix E (their heuristic and integer programme differ).
    """
    best: Timeline | None = None
    limit = memory * ranks
    for patience in _PATIENCE:
        for more in (-1, 0, 1):
            caps = [min(max(_first(rank, ranks, times) + more, 1), int(limit)) for rank in range(ranks)]
            ran = execute(
                _greedy(ranks, microbatches, times, caps, (limit, weight_share), patience), times, weight_share
            )
            if best is None or (ran.longest_span, ran.makespan) < (best.longest_span, best.makespan):
                best = ran
            # What is left of a long schedule is not worth many more tries.
            if ranks * microbatches > _LONG and best.longest_span - best.work < max(_each(ranks, times)[0]):
                return best
    assert best is not None
    return best


@dataclass(slots=True)
class _RankState:
    """What a rank has done and what has arrived."""

    free: float = 0.0
    ahead: int = 0
    back: int = 0
    done: int = 0
    forwards: list[float] = field(default_factory=list[float])
    """When inputs of forward passes arrive, by micro-batch."""
    gradients: list[float] = field(default_factory=list[float])
    order: list[Op] = field(default_factory=list[Op])


def _first(rank: int, ranks: int, times: StageTimes) -> int:
    """Forward passes that fit until the first gradient comes back to a rank."""
    ahead, back, _ = _each(ranks, times)
    until = sum(ahead[rank:]) + sum(back[rank + 1 :]) + 2 * (ranks - 1 - rank) * times.send_time
    return int(until / ahead[rank] + 1e-9) if ahead[rank] else ranks - rank


def _each(ranks: int, times: StageTimes) -> tuple[list[float], ...]:
    return tuple(
        [float(side)] * ranks if isinstance(side, (int, float)) else [float(value) for value in side]
        for side in (times.forward, times.backward_input, times.backward_weight)
    )


def _greedy(
    ranks: int, microbatches: int, times: StageTimes, caps: list[int], memory: tuple[float, float], patience: float
) -> Order:
    """One order: decisions in the order of time; ``memory`` is what is held at most, and the part weight_share."""
    ahead, back, own_time = _each(ranks, times)
    state = [_RankState() for _ in range(ranks)]
    state[0].forwards = [0.0] * microbatches
    clock: list[tuple[float, int]] = [(0.0, rank) for rank in range(ranks)]
    while clock:
        now, rank = heappop(clock)
        me = state[rank]
        if now < me.free or me.done == microbatches:
            continue
        kind, wake = _choice(me, now, microbatches, caps[rank], memory, patience * own_time[rank])
        if kind is None:
            if wake is not None:
                heappush(clock, (wake, rank))
            continue
        if kind == FORWARD:
            me.order.append(forward(rank, me.ahead))
            me.free = now + ahead[rank]
            me.ahead += 1
            if rank + 1 < ranks:
                state[rank + 1].forwards.append(me.free + times.send_time)
                heappush(clock, (me.free + times.send_time, rank + 1))
            else:
                me.gradients.append(me.free)
        elif kind == INPUT:
            me.order.append(inputs(rank, me.back))
            me.free = now + back[rank]
            me.back += 1
            if rank:
                state[rank - 1].gradients.append(me.free + times.send_time)
                heappush(clock, (me.free + times.send_time, rank - 1))
        else:
            me.order.append(weights(rank, me.done))
            me.free = now + own_time[rank]
            me.done += 1
        heappush(clock, (me.free, rank))
    return Order(
        name="zb-2p",
        ranks=ranks,
        microbatches=microbatches,
        place=tuple(range(ranks)),
        starts=frozenset({0}),
        part=1.0,
        operations=tuple(tuple(stage.order) for stage in state),
    )


def _choice(
    me: _RankState, now: float, microbatches: int, cap: int, memory: tuple[float, float], patience: float
) -> tuple[int | None, float | None]:
    """What a free rank does, or until when it waits at least."""
    most, weight_part = memory
    level = me.ahead - me.back + weight_part * (me.back - me.done)
    # Until its first gradient a rank leaves off early enough to take it at once.
    room = me.ahead < microbatches and level + 1 <= most and (me.back > 0 or me.ahead < cap)
    gradient = me.gradients[me.back] if me.back < len(me.gradients) else None
    coming = me.forwards[me.ahead] if room and me.ahead < len(me.forwards) else None
    if gradient is not None and gradient <= now:
        return INPUT, None
    if coming is not None and coming <= now:
        return FORWARD, None
    soon = min((when for when in (gradient, coming) if when is not None), default=None)
    if me.done < me.back and (soon is None or soon - now > patience):
        return WEIGHT, None
    return None, soon
