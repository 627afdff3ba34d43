"""Places of decoding requests, compiled: taking one, leaving it, losing it, and the blocks that it holds."""

from __future__ import annotations

from math import ceil

import numpy as np

from rackmath.serving.simulator.compiled import compiled, inlined
from rackmath.serving.simulator.fairness import urgency
from rackmath.serving.simulator.fixed import NONE, RESERVE, Kinds, RunConstants
from rackmath.serving.simulator.prefix import clear, insert_blocks, shrink, unpin
from rackmath.serving.simulator.queues import append, push_end, remove_end, unlink
from rackmath.serving.simulator.state import PrefixCaches, Replicas, Requests


@inlined
def drop(f: RunConstants, s: Replicas, q: Requests, c: PrefixCaches, r: int, i: int) -> None:
    """Take a decoding request's place away; what it has written is read again, with its prompt.

    Its last token stands in no cache yet: it is read as well, and gives the next one.
    """
    me = s.own[r]
    request = q[i]
    steps = me.iteration - request.entered
    leave(f, s, q, c, r, i)
    request.left -= steps
    request.stored += steps * request.growth
    request.todo = int(ceil(float(request.stored))) + 1
    request.held = 0
    request.dropped += 1
    remove_end(s, r, i)


@inlined
def drop_reader(f: RunConstants, s: Replicas, q: Requests, c: PrefixCaches, r: int, at: int) -> int:
    """Take away the place of a request whose prompt is being read, which is read again; returns the request."""
    me = s.own[r]
    i = s.prompts[r, at]
    request = q[i]
    me.reading -= 1
    for later in range(at, me.reading):
        s.prompts[r, later] = s.prompts[r, later + 1]
    _give_back(f, s, q, c, r, i)
    request.todo += int(ceil(float(request.stored)))
    request.stored = 0.0
    request.held = 0
    request.dropped += 1
    return i


@compiled
def fail(kinds: Kinds, s: Replicas, q: Requests, c: PrefixCaches, r: int, requests: np.ndarray) -> int:
    """Everything of a replica that fails loses its place.

    Returns how many requests there are, which are written to ``requests``.
    """
    me = s.own[r]
    f = kinds[me.kind]
    n = 0
    for k in range(f.classes):
        while s.order[r, k, 0] != NONE:
            i = s.order[r, k, 0]
            request = q[i]
            drop(f, s, q, c, r, i)
            request.stored = 0.0
            requests[n] = i
            n += 1
    for at in range(me.reading):
        i = s.prompts[r, at]
        request = q[i]
        request.todo = int(ceil(float(request.stored))) + request.todo
        request.stored = 0.0
        request.dropped += 1
        requests[n] = i
        n += 1
    me.reading = 0
    for k in range(f.classes):
        while s.queue[r, k, 0] != NONE:
            i = s.queue[r, k, 0]
            request = q[i]
            unlink(s.queue[r], q, k, i)
            if request.dropped and request.todo == 0:
                # Its blocks were on the host.
                request.todo = int(ceil(float(request.stored))) + 1
                request.stored = 0.0
            requests[n] = i
            n += 1
    me.waiting = 0
    me.free = f.blocks
    s.phase[r] = 0
    me.attended = 0.0
    me.grows = 0.0
    me.stall = 0.0
    me.unread = 0
    me.prompts = 0
    me.full = False
    for at in range(n):
        q[requests[at]].held = 0
        q[requests[at]].pinned = 0
    if len(f.capacity):
        clear(f, c, r, me.clock)
    return n


@inlined
def steps_of_room(f: RunConstants, s: Replicas, r: int) -> int:
    """Decode steps for which there are blocks."""
    me = s.own[r]
    free, b = me.free, me.running
    cycles = free // b
    remainder = free - cycles * b
    k = cycles * f.block
    at = me.iteration % f.block
    for _ in range(f.block):
        remainder -= s.phase[r, at]
        if remainder < 0:
            break
        k += 1
        at = at + 1 if at + 1 < f.block else 0
    return k


@inlined
def enter(f: RunConstants, s: Replicas, q: Requests, c: PrefixCaches, r: int, i: int) -> None:
    """Begin to decode, or end where the first token was all."""
    me = s.own[r]
    request = q[i]
    if request.left == 0:
        _give_back(f, s, q, c, r, i)
        me.full = False
        end(f, s, q, c, r, i)
        return
    request.entered = me.iteration
    me.attended += request.stored + 1
    me.grows += request.growth
    s.growing[r, request.rank] += request.growth
    s.phase[r, (me.iteration - int(request.stored)) % f.block] += 1
    push_end(s, r, i, me.iteration + request.left)
    append(s.order[r], q, urgency(f, request.rank), i)


@inlined
def end(f: RunConstants, s: Replicas, q: Requests, c: PrefixCaches, r: int, i: int) -> None:
    """A request has all of its answer, which the prefix cache keeps behind its prompt."""
    me = s.own[r]
    request = q[i]
    me.prompts -= blocks_of(f, request.prompt)
    me.ended_prompts += blocks_of(f, request.prompt)
    request.finish = me.clock
    me.ended += 1
    if request.last > request.stop and len(f.capacity):
        insert_blocks(f, c, r, request.stop, request.last, me.clock)
    if request.precedes:
        s.done[s.ended[0]] = i
        s.ended[0] += 1


@inlined
def leave(f: RunConstants, s: Replicas, q: Requests, c: PrefixCaches, r: int, i: int) -> None:
    """Stop to decode: blocks and sums go back."""
    me = s.own[r]
    request = q[i]
    steps = me.iteration - request.entered
    tokens = request.stored + steps * request.growth
    me.attended -= tokens + 1
    me.grows -= request.growth
    s.growing[r, request.rank] -= request.growth
    phase = (request.entered - int(request.stored)) % f.block
    s.phase[r, phase] -= 1
    if f.preemption != RESERVE:
        request.held = blocks_of(f, tokens) - request.pinned * f.per
    _give_back(f, s, q, c, r, i)
    me.departure = True
    unlink(s.order[r], q, urgency(f, request.rank), i)
    if me.grows < 1e-9:
        # Sums of thousands of additions and subtractions begin afresh.
        me.attended = 0.0
        me.grows = 0.0
        s.growing[r] = 0.0


@inlined
def _give_back(f: RunConstants, s: Replicas, q: Requests, c: PrefixCaches, r: int, i: int) -> None:
    """Blocks of a request are free again; what it shared stays where it is until somebody needs the room."""
    me = s.own[r]
    request = q[i]
    free = me.free
    if f.shared:
        # What the cache kept must go before room comes back, or it would be kept for longer.
        shrink(f, c, r, me.free, me.clock)
        me.free += unpin(f, c, q, r, i, me.clock)
    me.free += request.held
    me.ended_blocks += me.free - free


@inlined
def blocks_of(f: RunConstants, tokens: float) -> int:
    """Blocks that so many tokens fill."""
    return int(ceil(tokens / f.block))
