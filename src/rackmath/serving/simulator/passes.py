"""What each step of a replica does to its clock and to those who write, compiled."""

from __future__ import annotations

from math import ceil

from rackmath.serving.simulator.compiled import inlined
from rackmath.serving.simulator.fairness import charge_answer, charge_steps
from rackmath.serving.simulator.fixed import FIXED_INTERVAL, RESERVE, STATIC, RunConstants
from rackmath.serving.simulator.places import end, leave
from rackmath.serving.simulator.queues import pop_end
from rackmath.serving.simulator.ring import time_behind
from rackmath.serving.simulator.state import PrefixCaches, Replicas, Requests


@inlined
def pass_time(f: RunConstants, s: Replicas, r: int, time: float, steps: int, last: float, follows: bool) -> None:
    """Move the clock and the integrals; ``last`` is the time of the last of these steps. [s]

    Where another piece ``follows`` through the stages of a pipeline, a single step lasts until that one begins.
    """
    me = s.own[r]
    began = me.clock
    me.ended = 0
    me.ended_unread = 0
    me.ended_prompts = 0
    me.ended_blocks = 0
    time += me.stall
    if f.turns > 1:
        time = time_behind(f, s, r, time, steps)
        if follows:
            time -= last - last / f.turns
    me.stall = 0.0
    if f.policy == FIXED_INTERVAL:
        # A step waits for its departure; one that is late takes the next.
        time = max(1.0 * steps, ceil(time / f.period - 1e-9)) * f.period
    me.clock += time
    me.began = began if steps == 1 else me.clock - last
    me.busy += time
    me.batch += time * me.running
    me.kept += time * (f.blocks - me.free)


@inlined
def grow(f: RunConstants, s: Replicas, r: int) -> None:
    """One decode step beside prompts."""
    me = s.own[r]
    if f.preemption != RESERVE:
        me.free -= s.phase[r, me.iteration % f.block]
    me.iteration += 1
    me.attended += me.grows
    me.tokens += me.grows
    charge_steps(f, s, r, 1)


@inlined
def finish(f: RunConstants, s: Replicas, q: Requests, c: PrefixCaches, r: int) -> None:
    """All whose last step this was."""
    me = s.own[r]
    if f.policy == STATIC and me.running and latest(s, r) > me.iteration:
        return
    while me.running > 0 and s.ends[r, 0] <= me.iteration:
        i = s.who[r, 0]
        request = q[i]
        if f.policy == STATIC:
            # Seats of a static batch stay taken until its last one ends; nobody writes beyond his answer.
            over = me.iteration - request.entered - request.left
            me.tokens -= over * request.growth
            charge_answer(f, s, r, request.rank, -over * request.growth)
        leave(f, s, q, c, r, i)
        pop_end(s, r)
        end(f, s, q, c, r, i)


@inlined
def latest(s: Replicas, r: int) -> int:
    """Step with which the last of those who write ends."""
    me = s.own[r]
    last = s.ends[r, 0]
    for at in range(me.running):
        last = max(last, s.ends[r, at])
    return last
