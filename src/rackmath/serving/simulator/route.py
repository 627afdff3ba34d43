"""Where requests go, compiled: every replica is brought up to the moment at which it is looked at."""

from __future__ import annotations

from math import inf

import numpy as np

from rackmath.serving.simulator import prefix
from rackmath.serving.simulator.compiled import compiled
from rackmath.serving.simulator.loop import advance, enqueue, once
from rackmath.serving.simulator.state import (
    LEAST_LOADED,
    NONE,
    ROUND_ROBIN,
    TWO_CHOICES,
    Fixed,
    Prefixes,
    Replicas,
    Requests,
)

_BALANCE = 1.5
"""Load over the mean from which a replica gets nothing for its prefixes."""


@compiled
def route(
    f: Fixed, s: Replicas, q: Requests, c: Prefixes, which: np.ndarray, now: np.ndarray, router: int, dice: np.ndarray,
    turn: np.ndarray,
) -> None:  # fmt: skip
    """Send requests to replicas that are up, in the order given.

    Parameters
    ----------
    which, now : array
        Requests, and when each is sent. (n,)
    dice : array
        Two random integers for each, at least as many rows. (n, 2)
    turn : array
        Next replica of a round, kept between calls. (1,)
    """
    for at in range(len(which)):
        i, t = which[at], now[at]
        r = _choose(f, s, q, c, i, t, router, dice[at], turn)
        advance(f, s, q, c, r, t)
        enqueue(f, s, q, r, i, t)


@compiled
def converse(
    f: Fixed, s: Replicas, q: Requests, c: Prefixes, due: np.ndarray, who: np.ndarray, count: np.ndarray, until: float,
    router: int, dice: np.ndarray, turn: np.ndarray,
) -> None:  # fmt: skip
    """Requests whose users send the next one some time after the last one's end.

    Parameters
    ----------
    due, who, count : array
        Heap of requests that are sent at known times, and how many it holds. (requests,), (1,)

    Of the replicas that have work the one that is furthest behind goes on, never beyond the others by more than the
    step that it is in: nobody's answer may call for a request in another's past.
    """
    while True:
        sent = due[0] if count[0] else inf
        r, other = NONE, inf
        for one in range(len(s.own)):
            if load(s, one):
                if r == NONE or s.own[one].clock < s.own[r].clock:
                    other = inf if r == NONE else s.own[r].clock
                    r = one
                else:
                    other = min(other, s.own[one].clock)
        behind = s.own[r].clock if r != NONE else inf
        if min(sent, behind) >= until:
            return
        if behind < sent:
            if not once(f, s, q, c, r, min(min(sent, until), max(other, behind + 1e-12))):
                # What waits cannot be admitted before somebody else leaves: nobody is there.
                return
            for at in range(s.ended[0]):
                i = s.done[at]
                one = q[i]
                _later(due, who, count, one.finish + one.think, one.then)
            s.ended[0] = 0
        else:
            i = _first(due, who, count)
            one = q[i]
            one.arrival = sent
            place = _choose(f, s, q, c, i, sent, router, dice[i % len(dice)], turn)
            enqueue(f, s, q, place, i, sent)


@compiled
def _later(due: np.ndarray, who: np.ndarray, count: np.ndarray, time: float, i: int) -> None:
    at = count[0]
    count[0] += 1
    while at > 0 and due[(at - 1) // 2] > time:
        up = (at - 1) // 2
        due[at], who[at] = due[up], who[up]
        at = up
    due[at], who[at] = time, i


@compiled
def _first(due: np.ndarray, who: np.ndarray, count: np.ndarray) -> int:
    first = who[0]
    count[0] -= 1
    n = count[0]
    time, i, at = due[n], who[n], 0
    while True:
        down = 2 * at + 1
        if down >= n:
            break
        if down + 1 < n and due[down + 1] < due[down]:
            down += 1
        if due[down] >= time:
            break
        due[at], who[at] = due[down], who[down]
        at = down
    due[at], who[at] = time, i
    return first


@compiled
def drain(f: Fixed, s: Replicas, q: Requests, c: Prefixes, until: float) -> None:
    """Bring every replica up to a moment; infinity for the end of all work."""
    for r in range(len(s.own)):
        advance(f, s, q, c, r, until)


@compiled
def load(s: Replicas, r: int) -> int:
    """Requests that a replica holds."""
    me = s.own[r]
    return me.waiting + me.reading + me.running


@compiled
def _choose(
    f: Fixed, s: Replicas, q: Requests, c: Prefixes, i: int, t: float, router: int, dice: np.ndarray, turn: np.ndarray
) -> int:
    count = len(s.own)
    if router == ROUND_ROBIN or count == 1:
        r = turn[0] % count
        while not s.own[r].up:
            r = (r + 1) % count
        turn[0] = r + 1
        return r
    if router == TWO_CHOICES:
        one, two = _nth_up(s, dice[0]), _nth_up(s, dice[1])
        advance(f, s, q, c, one, t)
        advance(f, s, q, c, two, t)
        return one if load(s, one) <= load(s, two) else two
    least, total, living = NONE, 0, 0
    for r in range(count):
        if s.own[r].up:
            advance(f, s, q, c, r, t)
            total += load(s, r)
            living += 1
            if least == NONE or load(s, r) < load(s, least):
                least = r
    if router == LEAST_LOADED:
        return least
    best, most = least, 0
    for r in range(count):
        if s.own[r].up and load(s, r) * living <= _BALANCE * total + living:
            n = prefix.found(f, c, q, r, i, t)
            if n > most or (n == most and n > 0 and load(s, r) < load(s, best)):
                best, most = r, n
    return best


@compiled
def _nth_up(s: Replicas, dice: int) -> int:
    living = 0
    for r in range(len(s.own)):
        living += s.own[r].up
    n = dice % living
    for r in range(len(s.own)):
        if s.own[r].up:
            if n == 0:
                return r
            n -= 1
    return 0
