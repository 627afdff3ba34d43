"""Blocks of the next step, compiled: what answers and pieces of prompts need, and who loses its place for them."""

from __future__ import annotations

from rackmath.serving.simulator.compiled import compiled, inlined
from rackmath.serving.simulator.fairness import urgency
from rackmath.serving.simulator.fixed import (
    CHUNKED,
    FIXED_INTERVAL,
    NONE,
    RECOMPUTE,
    RESERVE,
    RETRACT,
    UNCHUNKED,
    RunConstants,
)
from rackmath.serving.simulator.places import blocks_of, drop, drop_reader
from rackmath.serving.simulator.queues import prepend
from rackmath.serving.simulator.retraction import retract
from rackmath.serving.simulator.state import PrefixCaches, Replicas, Requests


@inlined
def mixes(f: RunConstants) -> bool:
    """Whether prompts are read in the steps of answers."""
    return f.policy in (CHUNKED, FIXED_INTERVAL, UNCHUNKED)


@inlined
def in_pieces(f: RunConstants) -> bool:
    """Whether a prompt takes blocks as it is read; else all of them when it is admitted."""
    return f.preemption != RESERVE and f.policy in (CHUNKED, FIXED_INTERVAL)


@inlined
def answer_blocks(f: RunConstants, s: Replicas, r: int) -> int:
    """Blocks that the answers of the next step need."""
    return 0 if f.preemption == RESERVE else s.phase[r, s.own[r].iteration % f.block]


@inlined
def step_tokens(f: RunConstants, s: Replicas, r: int) -> int:
    """Tokens that answers leave of a step for prompts. [tokens]"""
    return f.max_num_batched_tokens - s.own[r].running * f.verified if mixes(f) else f.max_num_batched_tokens


@inlined
def piece(f: RunConstants, todo: int, tokens: float, tokens_left: int) -> int:
    """Tokens of a prompt that a step reads, of those that are left of it; 0 for one that waits to be read whole."""
    if f.policy == UNCHUNKED and tokens_left < todo and todo + tokens <= f.max_num_batched_tokens:
        return 0
    return max(min(todo, tokens_left), 0)


@inlined
def take_piece(f: RunConstants, s: Replicas, q: Requests, r: int, i: int, tokens: int) -> bool:
    """Blocks for the next tokens of a prompt; false where there are too few beside the answers'."""
    me = s.own[r]
    request = q[i]
    more = max(blocks_of(f, request.stored + tokens) - request.held - request.pinned * f.per, 0)
    if more > me.free - answer_blocks(f, s, r):
        return False
    me.free -= more
    request.held += more
    return True


@inlined
def make_room(f: RunConstants, s: Replicas, q: Requests, c: PrefixCaches, r: int) -> bool:
    """Take places away until the next step has its blocks: those that its answers need, and its pieces of prompts.

    Returns whether anybody lost its place.
    """
    drops = False
    if f.preemption != RESERVE:
        while answer_blocks(f, s, r) > s.own[r].free or not _take_pieces(f, s, q, r):
            drops = True
            if f.preemption == RETRACT:
                retract(f, s, q, c, r)
            else:
                _drop_last(f, s, q, c, r)
    return drops


@inlined
def _take_pieces(f: RunConstants, s: Replicas, q: Requests, r: int) -> bool:
    """Blocks for what the next step reads of the prompts that have begun; false where there are too few."""
    me = s.own[r]
    if in_pieces(f):
        budget = step_tokens(f, s, r)
        for at in range(me.reading):
            i = s.prompts[r, at]
            request = q[i]
            if request.ready > me.clock:
                continue
            n = piece(f, request.todo, request.stored, budget)
            if n == 0:
                break
            if not take_piece(f, s, q, r, i, n):
                return False
            budget -= n
    return True


@compiled
def _drop_last(f: RunConstants, s: Replicas, q: Requests, c: PrefixCaches, r: int) -> None:
    """Take away the place of the last class's last admitted, whose prompt is read again, or whose blocks wait."""
    me = s.own[r]
    k, at, i = f.classes - 1, NONE, NONE
    while i == NONE:
        # Those whose prompts are being read came after those who write.
        for place in range(me.reading):
            if urgency(f, q[s.prompts[r, place]].rank) == k:
                at = place
                i = s.prompts[r, place]
        if i == NONE:
            i = s.order[r, k, 1]
        k -= 1
    request = q[i]
    if at != NONE:
        drop_reader(f, s, q, c, r, at)
    else:
        drop(f, s, q, c, r, i)
        if f.preemption == RECOMPUTE:
            request.stored = 0.0
        else:
            # On the host: its blocks wait there, nothing is read again.
            me.stall += f.swap * blocks_of(f, request.stored)
            request.todo = 0
    prepend(s.queue[r], q, request.rank, i)
    me.waiting += 1
