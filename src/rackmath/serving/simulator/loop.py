"""One replica from event to event, compiled.

Between events the batch is fixed and every sequence yields the same each step, so k decode steps take

.. math:: k a + b (k S + Y k (k - 1) / 2)

with a and b the step's base and slope at this batch, S the tokens that the first of them attends to and Y what a step
adds. Steps that read prompts are taken one by one. A reference that steps through every iteration stands in the tests.
"""

from __future__ import annotations

from math import ceil, floor, inf, sqrt

from rackmath.serving.simulator.admission import admit, horizon, look, prompt_work, unseen
from rackmath.serving.simulator.compiled import compiled, inlined
from rackmath.serving.simulator.fairness import charge_steps, lift, steps_of_turn
from rackmath.serving.simulator.fixed import FIXED_INTERVAL, NONE, RESERVE, RETRACT, STATIC, RunConstants
from rackmath.serving.simulator.passes import finish, latest, pass_time
from rackmath.serving.simulator.places import blocks_of, steps_of_room
from rackmath.serving.simulator.queue_limit import refuse_arrival, refuse_waiting, request_to_refuse
from rackmath.serving.simulator.queues import append
from rackmath.serving.simulator.reading import read_step
from rackmath.serving.simulator.retraction import begin_ratio
from rackmath.serving.simulator.ring import reader_before
from rackmath.serving.simulator.room import make_room, mixes
from rackmath.serving.simulator.state import PrefixCaches, Replicas, Requests

_AFTER = 1e-6
"""Time by which a micro-batch that waits for another one looks later. [s]"""


@inlined
def enqueue(f: RunConstants, s: Replicas, q: Requests, r: int, i: int, now: float) -> None:
    """A request reaches a replica and waits for a step to begin, or is refused."""
    me = s.own[r]
    request = q[i]
    out = request_to_refuse(f, s, q, r, i)
    if out == i:
        refuse_arrival(s, q, i, now)
        return
    if out != NONE:
        refuse_waiting(f, s, q, r, out, now)
    if me.running == 0 and me.reading == 0 and me.clock < now:
        me.clock = now if f.policy != FIXED_INTERVAL else ceil(now / f.period) * f.period
        begin_ratio(s, r)
    request.place = r
    me.unread += request.unread
    me.prompts += blocks_of(f, request.prompt)
    lift(f, s, r, request.rank)
    append(s.queue[r], q, request.rank, i)
    me.waiting += 1


@compiled
def once(f: RunConstants, s: Replicas, q: Requests, c: PrefixCaches, r: int, until: float) -> bool:
    """Go on to the next event of a replica: a step with prompts, or decode steps; false where there is no work."""
    me = s.own[r]
    look(f, s, q, r)
    # Who loses its place and who gets one are never of one step where prompts are read beside answers.
    drops = mixes(f) and make_room(f, s, q, c, r)
    if not drops:
        admit(f, s, q, c, r)
    if me.running == 0 and me.reading == 0:
        return False
    tokens, pairs = prompt_work(f, s, q, r)
    reader = reader_before(f, s, q, r) if tokens > 0 and f.turns > 1 else NONE
    if tokens > 0 and reader == NONE:
        read_step(f, s, q, c, r, tokens, pairs)
    elif me.running > 0:
        _decode(f, s, q, c, r, until, drops)
    elif reader != NONE:
        # It looks again when the reader has had its turn.
        me.clock = max(me.clock, s.own[reader].clock) + _AFTER
    else:
        # Prompts whose blocks are still on their way from a lower tier.
        me.clock = max(me.clock, _soonest(s, q, r))
    return True


@inlined
def _decode(f: RunConstants, s: Replicas, q: Requests, c: PrefixCaches, r: int, until: float, drops: bool) -> None:
    """Decode steps until somebody ends, blocks run out, or ``until``; a single one where others may follow."""
    me = s.own[r]
    if not mixes(f):
        drops = make_room(f, s, q, c, r)
    # One that waits for a prompt of its pipeline does not know what is read while it does.
    waits = f.turns > 1 and me.behind > me.clock
    alone = _others_may_follow(f, s, q, r, drops) or waits
    b = me.running
    if b == 0:
        return
    width = me.width if f.policy == STATIC else b
    base, slope = float(f.base[width]), float(f.slope[width])
    first, grows = me.attended, me.grows
    k = int((latest(s, r) if f.policy == STATIC else s.ends[r, 0]) - me.iteration)
    # Within a cycle of so many steps as a block has tokens everybody needs one block.
    if f.preemption != RESERVE and me.free < b * (k // f.block + 1):
        k = min(k, max(steps_of_room(f, s, r), 1))
    k = 1 if alone else steps_of_turn(f, s, q, r, horizon(f, s, r), _before_look(f, s, q, r, k))
    for at in range(me.reading):
        # Blocks on their way: the step that finds them begins when they have come.
        until = min(until, float(q[s.prompts[r, at]].ready))
    now = me.clock + me.stall
    if f.policy == FIXED_INTERVAL:
        if me.stall > 0 or base + slope * first > f.period:
            k = 1
        else:
            if slope * grows > 0:
                k = min(k, 1 + int(floor(float((f.period - base - slope * first) / (slope * grows)))))
            base, slope = f.period, 0.0
    if until < inf:
        k = min(k, _steps_until(base, slope, float(first), float(grows), float(until - now)))
    time = k * base + slope * (k * first + grows * k * (k - 1) / 2)
    pass_time(f, s, r, time, k, base + slope * (first + grows * (k - 1)), False)
    if f.preemption != RESERVE:
        me.free -= k // f.block * b
        at = me.iteration % f.block
        for _ in range(k % f.block):
            me.free -= s.phase[r, at]
            at = at + 1 if at + 1 < f.block else 0
    me.skipped = (me.skipped + k - 1) % f.looks + 1
    me.iteration += k
    me.attended += k * grows
    me.tokens += k * grows
    charge_steps(f, s, r, k)
    finish(f, s, q, c, r)


@inlined
def _before_look(f: RunConstants, s: Replicas, q: Requests, r: int, k: int) -> int:
    """Of ``k`` steps those before the next look at new requests, where somebody waits for it."""
    if f.looks > 1 and unseen(f, s, q, r) > 0:
        return min(k, f.looks - s.own[r].skipped)
    return k


@inlined
def _steps_until(base: float, slope: float, first: float, grows: float, span: float) -> int:
    """Fewest steps, at least one, that take ``span`` or longer."""
    linear = base + slope * first - slope * grows / 2
    square = slope * grows / 2
    if span <= 0:
        return 1
    if square > 1e-12 * linear:
        k = int(ceil((sqrt(linear * linear + 4 * square * span) - linear) / (2 * square)))
    else:
        k = int(ceil(span / linear))
    k = max(k, 1)
    while k > 1 and (k - 1) * linear + square * (k - 1) * (k - 1) >= span:
        k -= 1
    while k * linear + square * k * k < span:
        k += 1
    return k


@inlined
def _others_may_follow(f: RunConstants, s: Replicas, q: Requests, r: int, drops: bool) -> bool:
    """Whether others may be admitted when this decode step ends: somebody has left, or waits whom nobody saw."""
    me = s.own[r]
    follow = drops or (me.departure and f.preemption == RETRACT)
    if me.departure:
        me.full = False
        me.departure = False
    if f.ahead and f.looks == 1:
        for k in range(f.classes):
            follow = follow or (s.queue[r, k, 0] != NONE and q[s.queue[r, k, 0]].arrival > me.began)
    return follow


@inlined
def _soonest(s: Replicas, q: Requests, r: int) -> float:
    me = s.own[r]
    when = inf
    for at in range(me.reading):
        when = min(when, float(q[s.prompts[r, at]].ready))
    return when
