"""Replicas up to a moment, compiled: each by itself, those of one pipeline side by side."""

from __future__ import annotations

from math import inf

from rackmath.serving.simulator.compiled import compiled, inlined
from rackmath.serving.simulator.fixed import NONE, RunConstants
from rackmath.serving.simulator.loop import once
from rackmath.serving.simulator.state import PrefixCaches, Replicas, Requests


@inlined
def advance(f: RunConstants, s: Replicas, q: Requests, c: PrefixCaches, r: int, until: float) -> None:
    """Run a replica until its next step would not begin before ``until``, or until it has nothing to do.

    With it the other micro-batches of its pipeline, which may have to wait for it.
    """
    if f.turns > 1:
        _advance_ring(f, s, q, c, r, until)
    else:
        _advance_alone(f, s, q, c, r, until)


# Where both were one function each step took a call, a third of the loop's time.
@compiled
def _advance_alone(f: RunConstants, s: Replicas, q: Requests, c: PrefixCaches, r: int, until: float) -> None:
    me = s.own[r]
    while me.clock < until:
        if not once(f, s, q, c, r, until):
            return


@compiled
def _advance_ring(f: RunConstants, s: Replicas, q: Requests, c: PrefixCaches, r: int, until: float) -> None:
    """The one that is furthest behind goes on, never beyond the others by more than the step that it is in."""
    first = s.own[r].ring
    last = min(first + f.turns, len(s.own))
    while True:
        place, following = NONE, inf
        for k in range(first, last):
            micro_batch = s.own[k]
            has_work = micro_batch.running + micro_batch.reading + micro_batch.waiting > 0
            if micro_batch.ring != first or not has_work:
                continue
            if place == NONE or micro_batch.clock < s.own[place].clock:
                following = inf if place == NONE else s.own[place].clock
                place = k
            else:
                following = min(following, micro_batch.clock)
        if place == NONE or s.own[place].clock >= until:
            return
        if not once(f, s, q, c, place, min(until, max(following, s.own[place].clock + 1e-12))):
            # The requests that wait cannot be admitted before another leaves, and none runs.
            return
