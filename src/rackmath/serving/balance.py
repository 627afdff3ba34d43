"""Batch and speed of a closed loop: each sets the other, and they settle."""

from __future__ import annotations

from typing import NamedTuple

from rackmath.models.numbers import Number, minimum
from rackmath.serving.load import Load, PassTimes, Scheduling
from rackmath.serving.waits import prompts_met, prompts_read, time_by_batch

_SETTLING = 16
"""Rounds of the balance at a given step, cheap and slower to settle where prompts are met."""


class LoopBalance(NamedTuple):
    """What settles; numbers broadcast."""

    first: Number
    """Time to the first token, in which a sequence is held but not answered. [s]"""
    rate: Number
    """Requests that end in a second. [requests/s]"""
    decoding: Number
    """Sequences that are answered at a time. [sequences]"""
    tpot: Number
    """Time per token, prompts that are met included. [s]"""


def balance(
    t: PassTimes, limit: Number, unmet: Number, in_turn_time: Number, load: Load, groups: Number, s: Scheduling
) -> LoopBalance:
    r"""Of N sequences that are held all the time how many are answered, and how fast.

    By Little's law a share :math:`O t / (O t + f)` of them, with t the time per token and f the time to the first; in
    the mean fewer than one, where few users send long prompts. No more are answered than prompts are read for: where
    mixed steps take in a budget of tokens, the others wait for theirs.

    Parameters
    ----------
    limit : Number
        N. [sequences]
    unmet : Number
        Time to a first token that meets no prompts of others. [s]
    in_turn_time : Number
        Prompts that are read at most in a second. [requests/s]
    """
    most = prompts_read(load, s) * groups * load.output
    per_token = time_by_batch(t, limit, load, groups, s)
    first, rate, decoding = unmet, in_turn_time, limit
    tpot = per_token(decoding)
    for _ in range(_SETTLING):
        busy = load.output * tpot
        first = unmet + prompts_met(t, decoding, busy, load, groups)
        rate = minimum(minimum(limit / (busy + first), most / busy), in_turn_time)
        decoding = rate * busy
        tpot = per_token(decoding)
    return LoopBalance(first, rate, decoding, tpot)
