"""Micro-batches of a pipeline, which are replicas here and wait for each other, compiled."""

from __future__ import annotations

from rackmath.serving.simulator.compiled import compiled, inlined
from rackmath.serving.simulator.fixed import NONE, RunConstants
from rackmath.serving.simulator.room import step_tokens
from rackmath.serving.simulator.state import Replicas, Requests


@compiled
def reads_alone(f: RunConstants, s: Replicas, q: Requests, r: int) -> bool:
    """Whether pieces of this micro-batch's prompt take the others' turns as well: nobody's prompt was there before.

    Source: SGLang's documentation of pipeline parallelism (chunks of one request are worked on by several stages at a
    time), vLLM's pull request 13637 (the next chunk is scheduled when the one before has begun).
    """
    ring = s.own[r].ring
    for k in range(ring, min(ring + f.turns, len(s.own))):
        if k != r and s.own[k].ring == ring and _stands_before(s, q, k, r):
            return False
    return True


@compiled
def reader_before(f: RunConstants, s: Replicas, q: Requests, r: int) -> int:
    """The micro-batch whose prompt takes all turns before this one's, since it was there first; else ``NONE``."""
    ring = s.own[r].ring
    for k in range(ring, min(ring + f.turns, len(s.own))):
        if k != r and s.own[k].ring == ring and _stands_before(s, q, k, r):
            request = q[s.prompts[k, 0]]
            is_long = s.own[k].turn > 0 or request.todo > step_tokens(f, s, k)
            if is_long and request.ready <= s.own[k].clock:
                return k
    return NONE


@inlined
def _stands_before(s: Replicas, q: Requests, k: int, r: int) -> bool:
    """Whether the first prompt that one micro-batch reads was admitted before that of another."""
    if s.own[k].reading == 0:
        return False
    time, own_time = q[s.prompts[k, 0]].admitted, q[s.prompts[r, 0]].admitted
    return time < own_time or (time == own_time and k < r)


@compiled
def hold_up_ring(f: RunConstants, s: Replicas, r: int, end: float) -> None:
    """The pass in which a replica reads prompts until ``end`` stands before all micro-batches of its pipeline."""
    ring = s.own[r].ring
    for k in range(ring, min(ring + f.turns, len(s.own))):
        micro_batch = s.own[k]
        if micro_batch.ring == ring:
            micro_batch.behind = max(micro_batch.behind, end)


@compiled
def time_behind(f: RunConstants, s: Replicas, r: int, time: float, steps: int) -> float:
    """Time of steps that begin now, the first of which leaves no stage before the pass that stands before it."""
    me = s.own[r]
    if me.behind <= me.clock:
        return time
    step = time / steps
    return time + max(me.behind + step / f.turns - me.clock - step, 0.0)
