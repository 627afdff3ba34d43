"""Routers that weigh prefixes against load, compiled: Dynamo's and llm-d's with their defaults.

Both look at every replica at the moment of the request, amid its step; in service they learn of changes a little later.
Of equal replicas one is drawn.
"""

from __future__ import annotations

from rackmath.serving.simulator.compiled import inlined
from rackmath.serving.simulator.fixed import DYNAMO, NONE, Kinds
from rackmath.serving.simulator.places import blocks_of
from rackmath.serving.simulator.prefix import leading_blocks, shrink
from rackmath.serving.simulator.state import PrefixCaches, Replicas, Requests

_PREFIX, _QUEUE, _CACHE = 3.0, 2.0, 2.0
"""Weights of llm-d's scorers. Source: the default plugins of Gateway API Inference Extension and llm-d, of 2026:
``prefix-cache-scorer``, ``queue-scorer``, ``kv-cache-utilization-scorer``."""


@inlined
def best(
    kinds: Kinds, s: Replicas, q: Requests, c: PrefixCaches, i: int, t: float, router: int, start: int, service: int
) -> int:
    """Replica of the least cost, or of the highest score; all have been brought up to the moment ``t``.

    Of replicas that are equal it is the first from ``start`` on. A prompt's tokens that the replica is taken not to
    have are written to the request.
    """
    count, least, most = len(s.own), NONE, NONE
    for r in range(count):
        me = s.own[r]
        if me.up and me.service == service:
            least = me.waiting if least == NONE else min(least, me.waiting)
            most = max(most, me.waiting)
    place, value, tokens = NONE, 0.0, 0
    for k in range(count):
        r = (start + k) % count
        me = s.own[r]
        if not (me.up and me.service == service):
            continue
        f = kinds[me.kind]
        if f.shared:
            shrink(f, c, r, me.free, t)
        unread = q[i].todo - min(leading_blocks(f, c, q, r, i, t) * f.prefix, q[i].todo)
        if router == DYNAMO:
            score = -dynamo_cost(s, r, f.block, unread, blocks_of(f, q[i].prompt), t)
        else:
            usage = 1 - (me.free - (me.ended_blocks if me.clock > t else 0)) / f.blocks
            score = llm_d_score(1 - unread / max(q[i].todo, 1), me.waiting, least, most, usage)
        if place == NONE or score > value:
            place, value, tokens = r, score, unread
    if router == DYNAMO:
        q[i].unread = tokens
    return place


@inlined
def dynamo_cost(s: Replicas, r: int, block: int, unread: int, blocks: int, t: float) -> float:
    """Blocks of prompts that a replica has yet to read, and blocks that it would hold, the new request's included.

    Blocks that several requests share count for each of them; Dynamo counts them once. What is read with the step that
    runs at the moment ``t``, or ends with it, is there until it ends.
    Source: ai-dynamo/dynamo, ``lib/kv-router/src/scheduling/selector.rs``, ``overlap_score_weight`` 1.
    """
    me = s.own[r]
    present = (me.unread + unread) / block + me.prompts + blocks
    return present + (me.ended_unread / block + me.ended_prompts if me.clock > t else 0.0)


@inlined
def llm_d_score(prefix: float, waiting: int, least: int, most: int, cache_use: float) -> float:
    """Weighted sum of three scores from 0 to 1: prefix in the cache, queue among the replicas', cache that is free."""
    queue = 1.0 if most == least else (most - waiting) / (most - least)
    return _PREFIX * prefix + _QUEUE * queue + _CACHE * (1 - cache_use)
