"""Where requests go, compiled: every replica is brought up to the moment at which it is looked at."""

from __future__ import annotations

from math import inf, isnan

import numpy as np

from rackmath.serving.simulator.advance import advance
from rackmath.serving.simulator.compiled import compiled, inlined
from rackmath.serving.simulator.fixed import DYNAMO, LEAST_LOADED, LLM_D, NONE, ROUND_ROBIN, TWO_CHOICES, Kinds
from rackmath.serving.simulator.loop import enqueue, once
from rackmath.serving.simulator.prefix import leading_blocks, shrink
from rackmath.serving.simulator.scores import best
from rackmath.serving.simulator.state import Edges, PrefixCaches, Replicas, Requests

_BALANCE = 1.5
"""Load over the mean from which a replica gets nothing for its prefixes."""


@compiled
def route(
    kinds: Kinds, s: Replicas, q: Requests, c: PrefixCaches, requests: np.ndarray, now: np.ndarray, router: int,
    dice: np.ndarray, turn: np.ndarray,
) -> None:  # fmt: skip
    """Send requests to replicas that are up, in the order given.

    Parameters
    ----------
    requests, now : array
        Requests, and when each is sent. (n,)
    dice : array
        Two random integers for each, at least as many rows. (n, 2)
    turn : array
        Next replica of a round, kept between calls. (services,)
    """
    for at in range(len(requests)):
        i, t = requests[at], now[at]
        r = _choose(kinds, s, q, c, i, t, router, dice[at], turn)
        f = kinds[s.own[r].kind]
        advance(f, s, q, c, r, t)
        enqueue(f, s, q, r, i, t)


@compiled
def converse(
    kinds: Kinds, s: Replicas, q: Requests, c: PrefixCaches, e: Edges, due: np.ndarray, turns: np.ndarray,
    count: np.ndarray, until: float, router: int, dice: np.ndarray, turn: np.ndarray,
) -> None:  # fmt: skip
    """Requests that are sent some time after others are sent or have ended.

    Parameters
    ----------
    due, turns, count : array
        Heap of requests that are sent at known times; how many it holds, and the next request of a list that users
        share, ``NONE`` where each waits for its own. (requests,), (2,)

    Of the replicas that have work the one that is furthest behind goes on, never beyond the others by more than the
    step that it is in: nobody's answer may call for a request in another's past.
    """
    # Of a replica that failed some were refused by others.
    _let_go_on(s, q, e, due, turns, count)
    while True:
        next_due = due[0] if count[0] else inf
        r, best_replica = NONE, inf
        for column in range(len(s.own)):
            if load(s, column):
                if r == NONE or s.own[column].clock < s.own[r].clock:
                    best_replica = inf if r == NONE else s.own[r].clock
                    r = column
                else:
                    best_replica = min(best_replica, s.own[column].clock)
        behind = s.own[r].clock if r != NONE else inf
        if min(next_due, behind) >= until:
            return
        if behind < next_due:
            if not once(kinds[s.own[r].kind], s, q, c, r, min(min(next_due, until), max(best_replica, behind + 1e-12))):
                # What waits cannot be admitted before somebody else leaves: nobody is there.
                return
            _let_go_on(s, q, e, due, turns, count)
        else:
            i = _first(due, turns, count)
            column = q[i]
            column.arrival = next_due
            place = _choose(kinds, s, q, c, i, next_due, router, dice[i % len(dice)], turn)
            enqueue(kinds[s.own[place].kind], s, q, place, i, next_due)
            _allow(q, e, due, turns, count, i, next_due, True)
            _let_go_on(s, q, e, due, turns, count)


@inlined
def _let_go_on(s: Replicas, q: Requests, e: Edges, due: np.ndarray, turns: np.ndarray, count: np.ndarray) -> None:
    """Requests have ended, or were refused: those that wait for them are sent after their delays."""
    for at in range(s.ended[0]):
        i = s.done[at]
        _allow(q, e, due, turns, count, i, q[i].finish if isnan(q[i].refused) else q[i].refused, False)
    s.ended[0] = 0


@inlined
def _allow(
    q: Requests, e: Edges, due: np.ndarray, turns: np.ndarray, count: np.ndarray, i: int, time: float, dispatch: bool
) -> None:
    """A request is sent, or has ended: those that waited for this alone are sent after their delays."""
    for at in range(e.start[i], e.start[i + 1]):
        if e.dispatch[at] == dispatch:
            after = e.to[at]
            if count[1] != NONE:
                after = count[1]
                count[1] += 1
            column = q[after]
            moment = time + e.delay[at]
            # A request has no time before the first edge allows it, or its own.
            if not column.arrival >= moment:
                column.arrival = moment
            column.awaits -= 1
            if column.awaits == 0:
                _later(due, turns, count, column.arrival, after)


@inlined
def _later(due: np.ndarray, turns: np.ndarray, count: np.ndarray, time: float, i: int) -> None:
    at = count[0]
    count[0] += 1
    while at > 0 and due[(at - 1) // 2] > time:
        up = (at - 1) // 2
        due[at], turns[at] = due[up], turns[up]
        at = up
    due[at], turns[at] = time, i


@inlined
def _first(due: np.ndarray, turns: np.ndarray, count: np.ndarray) -> int:
    first = turns[0]
    count[0] -= 1
    n = count[0]
    time, i, at = due[n], turns[n], 0
    while True:
        down = 2 * at + 1
        if down >= n:
            break
        if down + 1 < n and due[down + 1] < due[down]:
            down += 1
        if due[down] >= time:
            break
        due[at], turns[at] = due[down], turns[down]
        at = down
    due[at], turns[at] = time, i
    return first


@compiled
def drain(kinds: Kinds, s: Replicas, q: Requests, c: PrefixCaches, until: float) -> None:
    """Bring every replica up to a moment; infinity for the end of all work."""
    for r in range(len(s.own)):
        advance(kinds[s.own[r].kind], s, q, c, r, until)


@inlined
def load(s: Replicas, r: int) -> int:
    """Requests that a replica holds."""
    me = s.own[r]
    return me.waiting + me.reading + me.running


@compiled
def _choose(
    kinds: Kinds, s: Replicas, q: Requests, c: PrefixCaches, i: int, t: float, router: int, dice: np.ndarray,
    turn: np.ndarray,
) -> int:  # fmt: skip
    count, service = len(s.own), q[i].service
    if router == ROUND_ROBIN or count == 1:
        return _in_turn(s, turn, service)
    if router == TWO_CHOICES:
        first, two = _nth(s, service, dice[0]), _nth(s, service, dice[1])
        advance(kinds[s.own[first].kind], s, q, c, first, t)
        advance(kinds[s.own[two].kind], s, q, c, two, t)
        return first if _weighted(s, first, t) <= _weighted(s, two, t) else two
    least, total, living = NONE, 0.0, 0
    for r in range(count):
        if _serves(s, r, service):
            advance(kinds[s.own[r].kind], s, q, c, r, t)
            total += _weighted(s, r, t)
            living += 1
            if least == NONE or _weighted(s, r, t) < _weighted(s, least, t):
                least = r
    if router == LEAST_LOADED:
        return least
    if router in (DYNAMO, LLM_D):
        return best(kinds, s, q, c, i, t, router, int(dice[0]) % count, service)
    return _by_prefix(kinds, s, q, c, i, t, service, least, total, living)


@inlined
def _in_turn(s: Replicas, turn: np.ndarray, service: int) -> int:
    """Next replica of a round."""
    count = len(s.own)
    r = int(turn[service]) % count
    while not _serves(s, r, service):
        r = (r + 1) % count
    turn[service] = r + 1
    return r


@inlined
def _by_prefix(
    kinds: Kinds, s: Replicas, q: Requests, c: PrefixCaches, i: int, t: float, service: int, least: int,
    total: float, living: int,
) -> int:  # fmt: skip
    """Replica that holds most of a prompt, among those whose load is not far above the mean."""
    place, most = least, 0
    for r in range(len(s.own)):
        if _serves(s, r, service) and _weighted(s, r, t) * living <= _BALANCE * total + living:
            f = kinds[s.own[r].kind]
            if f.shared:
                shrink(f, c, r, s.own[r].free, t)
            n = leading_blocks(f, c, q, r, i, t)
            if n > most or (n == most and n > 0 and _weighted(s, r, t) < _weighted(s, place, t)):
                place, most = r, n
    return place


@inlined
def _weighted(s: Replicas, r: int, t: float) -> float:
    """Load of a replica at a moment beside others that are faster or slower: who ends with its step is still there."""
    me = s.own[r]
    return (load(s, r) + (me.ended if me.clock > t else 0)) / me.weight


@inlined
def _serves(s: Replicas, r: int, service: int) -> bool:
    """Whether a replica is up and takes such requests."""
    return s.own[r].up and s.own[r].service == service


@inlined
def _nth(s: Replicas, service: int, dice: int) -> int:
    living = 0
    for r in range(len(s.own)):
        living += _serves(s, r, service)
    n = dice % living
    for r in range(len(s.own)):
        if _serves(s, r, service):
            if n == 0:
                return r
            n -= 1
    return 0
