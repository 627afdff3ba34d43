"""Heaps of endings and linked lists of requests, compiled."""

from __future__ import annotations

import numpy as np

from rackmath.serving.simulator.compiled import inlined
from rackmath.serving.simulator.fixed import NONE
from rackmath.serving.simulator.state import Replicas, Requests


@inlined
def push_end(s: Replicas, r: int, i: int, end: int) -> None:
    """A request will end at an iteration; of those that end together the one that came first is first."""
    me = s.own[r]
    at = me.running
    me.running += 1
    while at > 0:
        up = (at - 1) // 2
        if _sooner(s, r, up, end, i):
            break
        s.ends[r, at], s.who[r, at] = s.ends[r, up], s.who[r, up]
        at = up
    s.ends[r, at], s.who[r, at] = end, i


@inlined
def pop_end(s: Replicas, r: int) -> None:
    """Forget the one that ends first."""
    _cut_end(s, r, 0)


@inlined
def remove_end(s: Replicas, r: int, i: int) -> None:
    """Forget a request."""
    me = s.own[r]
    for at in range(me.running):
        if s.who[r, at] == i:
            _cut_end(s, r, at)
            return


@inlined
def _cut_end(s: Replicas, r: int, at: int) -> None:
    """Take one entry out of the heap: the last one fills its place and moves where it belongs."""
    me = s.own[r]
    n = me.running - 1
    me.running = n
    end, request = s.ends[r, n], s.who[r, n]
    while at > 0:
        up = (at - 1) // 2
        if _sooner(s, r, up, end, request):
            break
        s.ends[r, at], s.who[r, at] = s.ends[r, up], s.who[r, up]
        at = up
    while True:
        down = 2 * at + 1
        if down >= n:
            break
        if down + 1 < n and _sooner(s, r, down + 1, s.ends[r, down], s.who[r, down]):
            down += 1
        if not _sooner(s, r, down, end, request):
            break
        s.ends[r, at], s.who[r, at] = s.ends[r, down], s.who[r, down]
        at = down
    s.ends[r, at], s.who[r, at] = end, request


@inlined
def _sooner(s: Replicas, r: int, at: int, end: int, request: int) -> bool:
    """Whether an entry stands before another."""
    return s.ends[r, at] < end or (s.ends[r, at] == end and s.who[r, at] < request)


@inlined
def append(lists: np.ndarray, q: Requests, k: int, i: int) -> None:
    """Put a request last in class k of a list."""
    request = q[i]
    last = lists[k, 1]
    request.before, request.after = last, NONE
    if last == NONE:
        lists[k, 0] = i
    else:
        q[last].after = i
    lists[k, 1] = i


@inlined
def prepend(lists: np.ndarray, q: Requests, k: int, i: int) -> None:
    """Put a request first in class k of a list."""
    request = q[i]
    head = lists[k, 0]
    request.after, request.before = head, NONE
    if head == NONE:
        lists[k, 1] = i
    else:
        q[head].before = i
    lists[k, 0] = i


@inlined
def insert(q: Requests, after: int, i: int) -> None:
    """Put a request behind another, which is not the last one of its list."""
    newer = q[after].after
    q[i].before, q[i].after = after, newer
    q[after].after = i
    q[newer].before = i


@inlined
def unlink(lists: np.ndarray, q: Requests, k: int, i: int) -> None:
    """Take a request out of class k of a list."""
    request = q[i]
    older, newer = request.before, request.after
    if older == NONE:
        lists[k, 0] = newer
    else:
        q[older].after = newer
    if newer == NONE:
        lists[k, 1] = older
    else:
        q[newer].before = older
