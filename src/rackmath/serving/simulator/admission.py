"""Who gets a seat when a step begins, compiled: classes, blocks, prefixes, what comes back from the host."""

from __future__ import annotations

from math import ceil, isnan

from rackmath.serving.simulator.compiled import inlined
from rackmath.serving.simulator.places import blocks_of, enter
from rackmath.serving.simulator.prefix import insert_blocks, look_up, pin, shrink, unused_blocks, whole_blocks
from rackmath.serving.simulator.queues import unlink
from rackmath.serving.simulator.state import (
    DECODE_FIRST,
    NONE,
    RESERVE,
    STATIC,
    Fixed,
    Prefixes,
    Replicas,
    Requests,
)


@inlined
def admit(f: Fixed, s: Replicas, q: Requests, c: Prefixes, r: int) -> None:
    """Give waiting requests seats and blocks, first class first, in the order of arrival."""
    me = s.own[r]
    if f.policy in (STATIC, DECODE_FIRST) and me.running > 0:
        return
    if f.policy == STATIC and me.reading > 0:
        return
    for k in range(f.classes):
        while s.queue[r, k, 0] != NONE:
            i = s.queue[r, k, 0]
            request = q[i]
            length = request.todo + int(ceil(float(request.stored)))
            if me.running + me.reading >= f.seats:
                return
            # One block of air, so that a step can follow.
            air = 1 if request.left and f.preemption != RESERVE else 0
            need = blocks_of(f, length + (request.left * request.growth if f.preemption == RESERVE else 0))
            room, sharing = need, f.shared and request.todo > 0 and request.stored == 0
            if sharing:
                need -= whole_blocks(f, q, i) * f.per
                room = need + unused_blocks(f, c, q, r, i) * f.per
            if room + air > me.free:
                return
            unlink(s.queue[r], q, k, i)
            me.waiting -= 1
            request.held = need
            _begin(f, s, q, c, r, i, room)


@inlined
def _begin(f: Fixed, s: Replicas, q: Requests, c: Prefixes, r: int, i: int, room: int) -> None:
    """A request has its seat and takes its room: look up its prefix, or bring it back from the host."""
    me = s.own[r]
    request = q[i]
    now = me.clock
    if f.shared:
        # Blocks given up before this moment cannot be found.
        shrink(f, c, r, me.free, now)
    me.free -= room
    if isnan(request.admitted):
        request.admitted = now
    request.ready = now
    if request.todo == 0:
        if request.dropped and request.stored > 0:
            me.stall += f.swap * request.held
        enter(f, s, q, c, r, i)
        return
    if request.dropped == 0:
        # What is encoded outlives a request that loses its place.
        me.stall += f.images
    if len(f.capacity) and request.stop > request.start and request.stored == 0:
        hit, time = look_up(f, c, q, r, i, now)
        if f.shared:
            pin(f, c, q, r, i, now)
        else:
            insert_blocks(f, c, q, r, i, now)
        # The last token is always read: its output is the first one of the answer.
        hit = min(hit, request.prompt - 1, request.todo - 1)
        if request.dropped == 0:
            request.hit = hit
        request.stored = float(hit)
        request.todo -= hit
        if f.overlapped:
            request.ready = now + time
        else:
            me.stall += time
    s.prompts[r, me.reading] = i
    me.reading += 1
    if f.policy == STATIC:
        me.width = me.reading
