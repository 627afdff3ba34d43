"""Micro-batches of a pipeline, which are replicas here and wait for each other, compiled."""

from __future__ import annotations

from rackmath.serving.simulator.compiled import compiled
from rackmath.serving.simulator.fixed import RunConstants
from rackmath.serving.simulator.state import Replicas


@compiled
def hold_up_ring(f: RunConstants, s: Replicas, r: int) -> None:
    """The pass that a replica has just read prompts in stands before all other micro-batches of its pipeline."""
    me = s.own[r]
    for k in range(me.ring, min(me.ring + f.turns, len(s.own))):
        micro_batch = s.own[k]
        if k != r and micro_batch.ring == me.ring:
            micro_batch.behind = max(micro_batch.behind, me.clock)


@compiled
def time_behind(f: RunConstants, s: Replicas, r: int, time: float, steps: int) -> float:
    """Time of steps that begin now, the first of which leaves no stage before the pass that stands before it."""
    me = s.own[r]
    if me.behind <= me.clock:
        return time
    step = time / steps
    return time + max(me.behind + step / f.turns - me.clock - step, 0.0)
