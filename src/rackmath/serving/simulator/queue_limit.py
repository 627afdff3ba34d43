"""Who is refused where a replica's queue is full, compiled.

A request that comes, or is sent back by a replica that retracts, finds as many waiting as may wait: it is refused, or
the last one of the least urgent class below its own is in its place. Users get an error at once; nobody asks again for
the same answer.

Source: SGLang's ``scheduler.py`` (``_abort_on_queued_limit``, ``--max-queued-requests``), of 2026.
"""

from __future__ import annotations

from rackmath.serving.simulator.compiled import inlined
from rackmath.serving.simulator.fixed import NONE, RunConstants
from rackmath.serving.simulator.places import blocks_of
from rackmath.serving.simulator.queues import unlink
from rackmath.serving.simulator.state import Replicas, Requests


@inlined
def request_to_refuse(f: RunConstants, s: Replicas, q: Requests, r: int, i: int) -> int:
    """Request that is refused when one comes to a queue; ``NONE`` while there is room for it."""
    if f.queue_limit == NONE or s.own[r].waiting < f.queue_limit:
        return NONE
    if not f.fair:
        for k in range(f.classes - 1, q[i].rank, -1):
            if s.queue[r, k, 1] != NONE:
                return s.queue[r, k, 1]
    return i


@inlined
def refuse(f: RunConstants, s: Replicas, q: Requests, r: int, i: int, now: float) -> None:
    """A request that a replica held without a place ends without its answer; those that wait for it go on."""
    me = s.own[r]
    request = q[i]
    me.unread -= request.unread
    me.prompts -= blocks_of(f, request.prompt)
    refuse_arrival(s, q, i, now)


@inlined
def refuse_waiting(f: RunConstants, s: Replicas, q: Requests, r: int, i: int, now: float) -> None:
    """The same for a request that waits in the queue."""
    unlink(s.queue[r], q, q[i].rank, i)
    s.own[r].waiting -= 1
    refuse(f, s, q, r, i, now)


@inlined
def refuse_arrival(s: Replicas, q: Requests, i: int, now: float) -> None:
    """The same for a request that just comes."""
    request = q[i]
    request.place = NONE
    request.refused = now
    if request.precedes:
        s.done[s.ended[0]] = i
        s.ended[0] += 1
