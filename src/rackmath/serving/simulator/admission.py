"""Who gets a seat when a step begins, compiled: classes, blocks, prefixes, what comes back from the host."""

from __future__ import annotations

from math import ceil, inf, isnan

from rackmath.serving.simulator.compiled import inlined
from rackmath.serving.simulator.fairness import charge_prompt, next_class
from rackmath.serving.simulator.fixed import DECODE_FIRST, NONE, RESERVE, RETRACT, STATIC, RunConstants
from rackmath.serving.simulator.places import blocks_of, enter
from rackmath.serving.simulator.prefix import insert_blocks, look_up, pin, shrink, unused_blocks, whole_blocks
from rackmath.serving.simulator.queues import unlink
from rackmath.serving.simulator.retraction import fits_rest
from rackmath.serving.simulator.room import answer_blocks, in_pieces, mixes, piece, step_tokens, take_piece
from rackmath.serving.simulator.state import PrefixCaches, Replicas, Requests


@inlined
def admit(f: RunConstants, s: Replicas, q: Requests, c: PrefixCaches, r: int) -> None:
    """Give waiting requests places and blocks, class by class, in the order of arrival."""
    me = s.own[r]
    if f.policy in (STATIC, DECODE_FIRST) and me.running > 0:
        return
    if f.policy == STATIC and me.reading > 0:
        return
    if me.full and me.running == 0:
        me.full = False
        me.departure = False
    if me.full:
        return
    until = horizon(f, s, r)
    # Schedulers of today admit no more than the next step begins to read.
    bound = mixes(f) or f.preemption == RETRACT
    budget = step_tokens(f, s, r) - prompt_work(f, s, q, r)[0]
    k = next_class(f, s, q, r, until)
    while k != NONE:
        i = s.queue[r, k, 0]
        request = q[i]
        if bound and piece(f, max(request.todo, 1), request.stored, budget) == 0:
            return
        room = _room(f, s, q, c, r, i) if me.running + me.reading < f.max_num_seqs else NONE
        if room == NONE:
            me.full = f.preemption == RETRACT
            return
        unlink(s.queue[r], q, k, i)
        me.waiting -= 1
        me.last = k
        budget -= _begin(f, s, q, c, r, i, room, budget)
        k = next_class(f, s, q, r, until)


@inlined
def horizon(f: RunConstants, s: Replicas, r: int) -> float:
    """Moment until which the scheduler of the next step has seen arrivals. [s]"""
    me = s.own[r]
    if f.looks > 1:
        return me.looked
    return me.began if f.ahead and me.running + me.reading > 0 else inf


@inlined
def look(f: RunConstants, s: Replicas, q: Requests, r: int) -> None:
    """Look at new requests, where it is time to; a replica that has nothing to do looks all the time.

    Source: SGLang's ``scheduler_recv_skipper.py``: a decode step counts 1, one that reads prompts 1,000, and the count
    begins anew with each look.
    """
    me = s.own[r]
    if f.looks > 1:
        if me.running + me.reading == 0 and me.waiting == unseen(f, s, q, r):
            me.looked = me.clock
            me.skipped = 0
        elif me.skipped >= f.looks:
            me.looked = me.began if f.ahead else me.clock
            me.skipped = 0


@inlined
def unseen(f: RunConstants, s: Replicas, q: Requests, r: int) -> int:
    """Requests that wait and came after the last look: the last ones of their class."""
    me = s.own[r]
    n = 0
    for k in range(f.classes):
        i = s.queue[r, k, 1]
        while i != NONE and q[i].arrival > me.looked:
            n += 1
            i = q[i].before
    return n


@inlined
def prompt_work(f: RunConstants, s: Replicas, q: Requests, r: int) -> tuple[int, float]:
    """Prompt tokens of the next step, and their pairs with tokens before them."""
    me = s.own[r]
    budget = step_tokens(f, s, r)
    tokens, pairs = 0, 0.0
    for at in range(me.reading):
        request = q[s.prompts[r, at]]
        if request.ready > me.clock:
            continue
        n = piece(f, request.todo, request.stored, budget - tokens)
        if n == 0:
            break
        tokens += n
        pairs += n * request.stored + n * (n + 1) / 2
    return tokens, pairs


@inlined
def _room(f: RunConstants, s: Replicas, q: Requests, c: PrefixCaches, r: int, i: int) -> int:
    """Blocks that a request needs to be admitted; ``NONE`` where there are too few."""
    me = s.own[r]
    request = q[i]
    whole = request.todo + int(ceil(float(request.stored)))
    room = blocks_of(f, whole + (request.left * request.growth if f.preemption == RESERVE else 0))
    if f.shared and request.todo > 0 and request.stored == 0:
        room += (unused_blocks(f, c, q, r, i) - whole_blocks(f, q, i)) * f.per
    if f.preemption == RETRACT:
        return room if fits_rest(f, s, q, r, i, room) else NONE
    free = me.free
    if mixes(f):
        free -= answer_blocks(f, s, r)
    # One block of air, so that a step can follow; one that cuts prompts makes room before it admits.
    if request.left and f.preemption != RESERVE and not (mixes(f) and request.todo > 0):
        free -= 1
    return room if room <= free else NONE


@inlined
def _begin(
    f: RunConstants, s: Replicas, q: Requests, c: PrefixCaches, r: int, i: int, room: int, tokens_left: int
) -> int:
    """A request has its seat and takes its room: look up its prefix, or bring it back from the host.

    Returns its tokens in the next step, of ``tokens_left`` that others leave.
    """
    me = s.own[r]
    request = q[i]
    now = me.clock
    if f.shared:
        # Blocks given up before this moment cannot be found.
        shrink(f, c, r, me.free, now)
    own_room = room
    if f.shared and request.todo > 0 and request.stored == 0:
        own_room -= unused_blocks(f, c, q, r, i) * f.per
    if in_pieces(f) and request.todo > 0:
        # What its pieces need it takes as they are read.
        room -= own_room
        own_room = 0
    request.held = own_room
    me.free -= room
    if isnan(request.admitted):
        request.admitted = now
        if request.todo > 0:
            charge_prompt(f, s, r, request.rank, request.prompt)
    request.ready = now
    if request.todo == 0:
        if request.dropped and request.stored > 0:
            me.stall += f.swap * request.held
        enter(f, s, q, c, r, i)
        return f.verified if mixes(f) else 0
    if request.dropped == 0:
        # What is encoded outlives a request that loses its place.
        me.stall += f.images
    if len(f.capacity) and request.stop > request.start and request.stored == 0:
        _find_prefix(f, s, q, c, r, i)
    s.prompts[r, me.reading] = i
    me.reading += 1
    if f.policy == STATIC:
        me.width = me.reading
    n = piece(f, request.todo, request.stored, tokens_left) if request.ready <= now else 0
    if in_pieces(f):
        # The whole prompt has room, so a piece of it has.
        take_piece(f, s, q, r, i, n)
    return n


@inlined
def _find_prefix(f: RunConstants, s: Replicas, q: Requests, c: PrefixCaches, r: int, i: int) -> None:
    """Look a request's prefix up: what is found is not read, and is there when it has come from its tier."""
    me = s.own[r]
    request = q[i]
    now = me.clock
    hit, time = look_up(f, c, q, r, i, now)
    if f.shared:
        pin(f, c, q, r, i, now)
    else:
        insert_blocks(f, c, r, q[i].start, q[i].stop, now)
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
