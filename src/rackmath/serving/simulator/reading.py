"""Steps that read prompts, compiled."""

from __future__ import annotations

from math import isnan

from rackmath.serving.simulator.compiled import inlined
from rackmath.serving.simulator.fairness import charge_answer
from rackmath.serving.simulator.fixed import RunConstants
from rackmath.serving.simulator.passes import finish, grow, pass_time
from rackmath.serving.simulator.places import enter
from rackmath.serving.simulator.ring import hold_up_ring, reads_alone
from rackmath.serving.simulator.room import mixes
from rackmath.serving.simulator.state import PrefixCaches, Replicas, Requests


@inlined
def read_step(f: RunConstants, s: Replicas, q: Requests, c: PrefixCaches, r: int, tokens: int, pairs: float) -> None:
    """One step that reads prompts, beside decoding where the policy mixes them."""
    me = s.own[r]
    follows = _take_parts(f, s, q, r, tokens) and f.turns > 1 and reads_alone(f, s, q, r)
    # Pieces of one prompt follow each other through the stages: those who write take part in one of a round.
    beside = me.running > 0 and mixes(f) and (me.turn in (0, f.turns) or not follows)
    work = f.prompt[tokens] + f.pair * pairs
    time = max(work, f.start[tokens])
    if beside:
        b = me.running
        # Weights are read for the answers anyway: tokens of prompts cost what they add to theirs.
        verified_tokens = b * f.verified
        all_tokens = min(tokens + verified_tokens, f.max_num_batched_tokens)
        seconds = f.prompt[all_tokens] - f.prompt[min(verified_tokens, f.max_num_batched_tokens)] + f.pair * pairs
        time = max(f.base[b] + f.slope[b] * me.attended + f.share * seconds, f.start[all_tokens])
    pass_time(f, s, r, time, 1, time, follows)
    if f.turns > 1:
        me.turn = me.turn % f.turns + 1 if follows else 0
        hold_up_ring(f, s, r, me.clock + (time - time / f.turns if follows else 0.0))
    me.skipped = f.looks
    if beside:
        grow(f, s, r)
        finish(f, s, q, c, r)
    _enter_those_read(f, s, q, c, r)


@inlined
def _take_parts(f: RunConstants, s: Replicas, q: Requests, r: int, tokens: int) -> bool:
    """Deal the tokens of a step to the prompts in their order; whether no prompt ends in it.

    Who takes part is settled before anybody finishes.
    """
    me = s.own[r]
    count_read, ends = 0, False
    for at in range(me.reading):
        request = q[s.prompts[r, at]]
        part = 0
        if request.ready <= me.clock and count_read < tokens:
            part = min(request.todo, tokens - count_read)
        count_read += part
        request.todo -= part
        request.stored += part
        ends = ends or (part > 0 and request.todo == 0)
    return not ends


@inlined
def _enter_those_read(f: RunConstants, s: Replicas, q: Requests, c: PrefixCaches, r: int) -> None:
    """Requests whose prompts have been read have a token, and write on; the others remain, in their order."""
    me = s.own[r]
    n = 0
    for at in range(me.reading):
        i = s.prompts[r, at]
        request = q[i]
        if request.todo > 0:
            s.prompts[r, n] = i
            n += 1
        else:
            if isnan(request.first):
                request.first = me.clock
                me.tokens += 1
                charge_answer(f, s, r, request.rank, 1.0)
            else:
                # Its prompt was read again, with what it had written: that gives the next token.
                request.left -= 1
                me.tokens += request.growth
                charge_answer(f, s, r, request.rank, request.growth)
            me.unread -= request.unread
            me.ended_unread += request.unread
            request.unread = 0
            enter(f, s, q, c, r, i)
    me.reading = n
