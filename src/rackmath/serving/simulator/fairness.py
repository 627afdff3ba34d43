"""Whose turn it is among classes of requests, compiled: the most urgent first, or the least served.

Under virtual token counters a class's counter grows by its tokens over its weight: 1 for each of a prompt when the
request is first admitted, 2 for each of an answer when it is written. The class with the lowest counter is next. One
that had nothing to ask is lifted to the least counter of those who wait, or to that of the last one admitted where
nobody does: service that was not asked for cannot be saved up.

Source: Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024: algorithm 2 with its weights, and its cost
of tokens.
"""

from __future__ import annotations

from math import inf

from rackmath.serving.simulator.compiled import inlined
from rackmath.serving.simulator.fixed import NONE, RunConstants
from rackmath.serving.simulator.state import Replicas, Requests

_PROMPT, _ANSWER = 1.0, 2.0
"""Cost of a token. [1/token]"""


@inlined
def next_class(f: RunConstants, s: Replicas, q: Requests, r: int, until: float) -> int:
    """Class whose first request is next, of those that had come until a moment; ``NONE`` where nobody had."""
    place = NONE
    for k in range(f.classes):
        i = s.queue[r, k, 0]
        if i != NONE and q[i].arrival <= until and (place == NONE or (f.fair and s.served[r, k] < s.served[r, place])):
            place = k
    return place


@inlined
def steps_of_turn(f: RunConstants, s: Replicas, q: Requests, r: int, until: float, k: int) -> int:
    """Of ``k`` decode steps those in which it stays the turn of the same class, whose first request has no room."""
    turn = next_class(f, s, q, r, until) if f.fair else NONE
    if turn != NONE:
        for class_number in range(f.classes):
            i = s.queue[r, class_number, 0]
            if i != NONE and q[i].arrival <= until:
                ahead = s.served[r, class_number] - s.served[r, turn]
                nearer = _ANSWER * (
                    s.growing[r, turn] / f.weights[turn] - s.growing[r, class_number] / f.weights[class_number]
                )
                if ahead < k * nearer:
                    k = max(int(ahead / nearer), 1)
    return k


@inlined
def urgency(f: RunConstants, rank: int) -> int:
    """Class in which a request loses its place: under counters all are alike, and the last one admitted loses it."""
    return 0 if f.fair else rank


@inlined
def lift(f: RunConstants, s: Replicas, r: int, k: int) -> None:
    """A request of a class comes: one that has nobody waiting begins again where the others are."""
    if f.fair and s.queue[r, k, 0] == NONE:
        least = inf
        for class_number in range(f.classes):
            if s.queue[r, class_number, 0] != NONE:
                least = min(least, s.served[r, class_number])
        last = s.own[r].last
        if least == inf and last != NONE:
            least = s.served[r, last]
        if least < inf:
            s.served[r, k] = max(s.served[r, k], least)


@inlined
def charge_prompt(f: RunConstants, s: Replicas, r: int, k: int, tokens: int) -> None:
    """A request is admitted for the first time."""
    if f.fair:
        s.served[r, k] += _PROMPT * tokens / f.weights[k]


@inlined
def charge_answer(f: RunConstants, s: Replicas, r: int, k: int, tokens: float) -> None:
    """One request has written tokens."""
    if f.fair:
        s.served[r, k] += _ANSWER * tokens / f.weights[k]


@inlined
def charge_steps(f: RunConstants, s: Replicas, r: int, steps: int) -> None:
    """Everybody who decodes has written for so many steps."""
    if f.fair:
        for k in range(f.classes):
            s.served[r, k] += _ANSWER * steps * s.growing[r, k] / f.weights[k]
