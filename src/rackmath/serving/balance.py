"""Batch and speed of a closed loop: each sets the other, and they settle.

Users march with the engine's steps: who ends an answer ends it with a step, so that requests come at random among
tokens, not in time. While a long prompt is read beside answers those hardly get on, and few of them end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rackmath.models.numbers import Number, maximum, minimum
from rackmath.serving.load import Load, PassTimes, Scheduling
from rackmath.serving.waits import beside_of_users, prompts_read, time_per_output_token

_SETTLING = 16
"""Rounds of the balance at a given step, cheap and slower to settle where other groups' prompts are met."""

_TOKENS = 1e-12
"""Least tokens that are divided by. [tokens]"""


class LoopBalance(NamedTuple):
    """What settles; numbers broadcast."""

    first: Number
    """Time to the first token, in which a sequence is held but not answered. [s]"""
    rate: Number
    """Requests that end in a second. [requests/s]"""
    decoding: Number
    """Sequences in a decode step, in the mean over steps. [sequences]"""
    tpot: Number
    """Time per token, prompts that are met included. [s]"""
    beside: Number
    """Prompts that are read beside an answer. [prompts]"""
    burst: Number
    """Time that a mean first token waits for prompts of a burst. [s]"""


class _Cycle(NamedTuple):
    """From a user's request to his next one."""

    first: Number
    """Time to the first token. [s]"""
    tpot: Number
    """Time per token. [s]"""
    whole: Number
    """Time of all. [s]"""
    tokens: Number
    """The same in tokens of an answer. [tokens]"""
    beside: Number
    """Prompts that are read beside the answer. [prompts]"""
    burst: Number
    """Time of the first token that it waits for prompts of a burst. [s]"""


def balance(
    t: PassTimes,
    limit: Number,
    unmet: Number,
    in_turn_rate: Number,
    load: Load,
    groups: Number,
    s: Scheduling,
    burst_prompts: Number = 0.0,
) -> LoopBalance:
    r"""Of N sequences that are held all the time how many are answered, and how fast.

    From a request to the next, a user waits for his prompt and for his answer of O tokens; w prompts of others are read
    before his own and m beside his answer,

    .. math:: T = f(w) + O \, t(m), \qquad w + m = N - 1

    in a single group: each other user's prompt takes its time of him once. Counted in tokens of an answer, it is
    :math:`T_s` from a request to the next, and of N sequences :math:`N O / T_s` are in a decode step. A step that reads
    a prompt counts as any other, however long it takes.

    Parameters
    ----------
    limit : Number
        N. [sequences]
    unmet : Number
        Time to a first token that meets no prompts of others. [s]
    in_turn_rate : Number
        Prompts that are read at most in a second. [requests/s]
    burst_prompts : Number
        Prompts of a burst that are read before a mean one, from :func:`of_burst_prompts`. [prompts]
    """
    users, reading = limit / groups, tokens_of_reading(load, s)
    peers = maximum(users - 1, 0.0)
    output = maximum(load.output, 1.0)
    alone = time_per_output_token(t, 0.0, load, s)
    base = unmet + reading_beside(t, users, reading, load, s)

    def cycle_at(token: Number, share: Number) -> _Cycle:
        idle = maximum(unmet - t.alone, 0.0) / token
        queue = queue_of_users(users, reading, output + idle)
        tokens = output + idle + reading * (1 + queue)
        calm = minimum(read_before(queue, peers / tokens, reading, load, s), peers)
        # A mean request waits for half of a burst, in place of what it waits for later: twice the part of it comes so.
        before = minimum(calm + maximum(burst_prompts - 2 * s.queueing * calm, 0.0), peers)
        beside = beside_of_users(limit, before, share, groups, s)
        tpot = time_per_output_token(t, beside, load, s)
        price = t.beside + reading * alone
        first = base + (before - in_other_stages(before, peers, load)) * price
        return _Cycle(
            first, tpot, first + output * tpot, tokens + reading * (before - calm), beside, (before - calm) * price
        )

    cycle = cycle_at(alone, 1.0)
    for _ in range(_SETTLING - 1):
        cycle = cycle_at(cycle.whole / cycle.tokens, output * cycle.tpot / cycle.whole)
    rate = minimum(limit / cycle.whole, in_turn_rate)
    tokens = cycle.tokens + (limit / rate - cycle.whole) / cycle.tpot
    return LoopBalance(cycle.first, rate, limit * output / tokens, cycle.tpot, cycle.beside, cycle.burst)


def tokens_of_reading(load: Load, s: Scheduling) -> Number:
    """Tokens of an answer that are written while a prompt is read: 0 where prompts come first. [tokens]"""
    return 1 / prompts_read(load, s)


def queue_of_users(users: Number, reading: Number, rest: Number) -> Number:
    r"""Prompts of others that a prompt waits for, where steps of a group of so many users read one at a time. [prompts]

    .. math:: w = \frac{(N - 1) \, c}{T_s} \left( w + \frac{1}{2} \right), \qquad T_s = R + (1 + w) \, c

    as a request sees it that finds the other users in their places: those that wait, and half of the one that is read.
    Not fewer than keep the reader busy, :math:`N c \le T_s`.
    Sources: Reiser and Lavenberg 1980 for what a request of a closed network finds; Schweitzer 1979 for N - 1 of N.

    Parameters
    ----------
    users : Number
        N. [requests]
    reading : Number
        c, tokens of an answer in the time of reading a prompt. [tokens]
    rest : Number
        R, those from a request to the next but of reading and waiting. [tokens]
    """
    peers = maximum(users - 1, 0.0)
    spare = rest + reading * (1 - peers)
    root = np.hypot(spare, reading * np.sqrt(2 * peers))
    # Two forms of one root, each without a difference of nearly equal numbers.
    rare = peers * reading / maximum(spare + root, _TOKENS)
    often = (root - spare) / 2 / maximum(reading, _TOKENS)
    return maximum(np.where(np.greater_equal(spare, 0), rare, often), peers - rest / maximum(reading, _TOKENS))


def queue_of_batch(batch: Number, reading: Number, rest: Number, output: Number) -> Number:
    r"""The same where so many sequences of a group are in a decode step, :math:`B = N O / T_s`. [prompts]

    With :math:`\rho = B c / O`, at most 1, it is the positive root of

    .. math:: c (1 - \rho) w^2 + \left( (1 - \rho) R' + c - \rho c / 2 \right) w = (\rho R' - c) / 2,
        \qquad R' = R + c
    """
    busy = minimum(batch * reading / output, 1.0)
    free, whole = 1 - busy, rest + reading
    half = maximum(busy * whole - reading, 0.0) / 2
    linear = free * whole + reading * (1 - busy / 2)
    return 2 * half / maximum(linear + np.sqrt(linear**2 + 4 * reading * free * half), _TOKENS)


def read_before(queue: Number, arriving: Number, reading: Number, load: Load, s: Scheduling) -> Number:
    """Prompts of others that are read before a first token, or with it. [prompts]

    Those of the queue, or of the step that runs and of the one that is decided, if they are more; and those that came
    with it, as far as its pass has room. A step that reads prompts alone ends no answer, so that nobody comes in it.

    Parameters
    ----------
    queue : Number
        From :func:`queue_of_users` or :func:`queue_of_batch`. [prompts]
    arriving : Number
        Others that come in the time of a token. [prompts]
    """
    per_step = s.accepted(load.draft_tokens)
    step = arriving * per_step
    room = 1 - minimum(reading / per_step, 1.0)
    return maximum(queue, step * (0.5 * s.mixed + s.ahead)) + step * load.looks * room


def in_other_stages(before: Number, peers: Number, load: Load) -> Number:
    """Of the prompts that are read before one's own, those that other stages of a pipeline still read beside it.

    A prompt that others follow fills no pipeline for itself. [prompts]
    """
    return minimum(load.turns - 1, peers) * before / maximum(peers, _TOKENS)


def reading_beside(t: PassTimes, users: Number, reading: Number, load: Load, s: Scheduling) -> Number:
    """Time by which steps that write others' answers too read a prompt later than passes of its own would. [s]"""
    steps = maximum(reading / s.accepted(load.draft_tokens), 1.0)
    return s.mixed * minimum(maximum(users - 1, 0.0), 1.0) * maximum(t.beside + steps * t.step - t.alone, 0.0)
