"""SGLang's way with a full cache, compiled: whom it admits without room for whole answers, and whom it sends back.

A request is admitted where its prompt, its whole answer and a page fit into what is free, less a part of what the
running answers may still need. That part begins at ``NEW_TOKEN_RATIO`` and declines with every decode step. Where the
next step's pages are not free after all, the requests with the shortest answers go back to the end of the queue, and
the part is set by how long the answers of the others are. Once nobody else fits, nobody is looked at until somebody has
left and one more decode step has begun.

Source: SGLang's ``schedule_policy.py`` (``PrefillAdder``), ``schedule_batch.py`` (``retract_decode``), ``scheduler.py``
(``update_running_batch``) and ``environ.py``, of 2026. Answers are as long as their users let them be.
"""

from __future__ import annotations

from math import isnan

from rackmath.serving.simulator.compiled import compiled, inlined
from rackmath.serving.simulator.fixed import NEW_TOKEN_RATIO, NONE, RunConstants
from rackmath.serving.simulator.places import drop
from rackmath.serving.simulator.queue_limit import refuse, refuse_waiting, request_to_refuse
from rackmath.serving.simulator.queues import append, insert, prepend
from rackmath.serving.simulator.state import PrefixCaches, Replicas, Requests

_LEAST_RATIO = 0.14 * NEW_TOKEN_RATIO
_DECLINE = (NEW_TOKEN_RATIO - _LEAST_RATIO) / 600
"""Of a decode step. [1]"""
_CLIP = 4096
"""Tokens of an answer that are counted at most. [tokens]"""
_AHEAD = 20
"""Tokens that each of those who stay is taken to write before anybody is retracted again. [tokens]"""


@inlined
def new_token_ratio(s: Replicas, r: int) -> float:
    """Part of the rest of its answer that a running request is taken to write. [1]"""
    me = s.own[r]
    return max(me.ratio - _DECLINE * max(me.iteration - me.declines, 0), _LEAST_RATIO)


@inlined
def begin_ratio(s: Replicas, r: int) -> None:
    """A replica that had nothing to do begins afresh."""
    me = s.own[r]
    me.ratio = NEW_TOKEN_RATIO
    me.declines = me.iteration
    me.full = False
    me.departure = False


@compiled
def fits_rest(f: RunConstants, s: Replicas, q: Requests, r: int, i: int, room: int) -> bool:
    """Whether a request may be admitted that needs so many blocks for its prompt."""
    me = s.own[r]
    writing, entering = 0, 0
    for at in range(me.running):
        writing += min(s.ends[r, at] - me.iteration, _CLIP)
    for at in range(me.reading):
        entering += _rest(q, s.prompts[r, at]) + f.block
    claims = writing * new_token_ratio(s, r) + entering
    return room * f.block + _rest(q, i) + f.block < me.free * f.block - claims


@inlined
def _rest(q: Requests, i: int) -> int:
    """Tokens that a request which is not running has yet to write. [tokens]"""
    request = q[i]
    return min(request.left + isnan(request.first), _CLIP)


@compiled
def retract(f: RunConstants, s: Replicas, q: Requests, c: PrefixCaches, r: int) -> None:
    """Take away the place of the request that has written least, of the last class, and set the ratio anew.

    Of those that have written as much the one with the longest prompt goes, then the one that came last.
    """
    me = s.own[r]
    k = f.classes - 1
    while s.order[r, k, 1] == NONE:
        k -= 1
    victim = s.order[r, k, 1]
    i = q[victim].before
    while i != NONE:
        request, victim_request = q[i], q[victim]
        tokens, least = _written(s, q, r, i), _written(s, q, r, victim)
        if tokens < least or (tokens == least and request.prompt > victim_request.prompt):
            victim = i
        i = request.before
    drop(f, s, q, c, r, victim)
    request = q[victim]
    request.stored = 0.0
    out = request_to_refuse(f, s, q, r, victim)
    if out == victim:
        refuse(f, s, q, r, victim, me.clock)
    else:
        if out != NONE:
            refuse_waiting(f, s, q, r, out, me.clock)
        _append_seen(f, s, q, r, request.rank, victim)
        me.waiting += 1
    answer_tokens, whole = 0, 0
    for at in range(me.running):
        answer_tokens += _written(s, q, r, s.who[r, at])
        whole += q[s.who[r, at]].steps + 1
    me.ratio = min(1.0, (answer_tokens + _AHEAD * me.running) / (whole + 1))
    # The step for which room was made is the first that the ratio holds for.
    me.declines = me.iteration + 1


@inlined
def _append_seen(f: RunConstants, s: Replicas, q: Requests, r: int, k: int, i: int) -> None:
    """Put a request behind all of its class that the replica has seen, before those that it will see later."""
    me = s.own[r]
    after = s.queue[r, k, 1]
    while f.looks > 1 and after != NONE and q[after].arrival > me.looked:
        after = q[after].before
    if after == NONE:
        prepend(s.queue[r], q, k, i)
    elif after == s.queue[r, k, 1]:
        append(s.queue[r], q, k, i)
    else:
        insert(q, after, i)


@inlined
def _written(s: Replicas, q: Requests, r: int, i: int) -> int:
    """Tokens of a running request's answer so far. [tokens]"""
    me = s.own[r]
    request = q[i]
    return request.steps + 1 - request.left + me.iteration - request.entered
