"""What steps of a search's grid take in, and the users and times that keep a batch of the grid."""

from __future__ import annotations

import numpy as np

from rackmath.engine import Layout
from rackmath.models.numbers import Number
from rackmath.serving.balance import in_other_stages, queue_of_batch, read_before, reading_beside, tokens_of_reading
from rackmath.serving.load import Load, PassTimes, Scheduling
from rackmath.serving.points import Array
from rackmath.serving.waits import beside_of_users, time_per_output_token, until_begun
from rackmath.serving.workload import PlanWorkload


def tokens_of_steps(batches: Array, layout: Layout, work: PlanWorkload, draft_tokens: Array, chunks: Array) -> Array:
    """Tokens of a step of one group that reads a piece of a prompt. (layouts, batches, draft lengths, chunks)"""
    answers = batches[:, None, None] / layout.data * (1 + draft_tokens[:, None])
    return np.asarray(answers + np.minimum(work.read, chunks))


def loop_of_batch(t: PassTimes, batch: Array, load: Load, groups: Array, s: Scheduling) -> tuple[Array, Array, Array]:
    """Closed loop that has ``batch`` sequences in a decode step: :func:`.balance.balance` turned about.

    A service that runs has no burst of a benchmark's start.

    Returns
    -------
    tuple of array
        Time per token, time to the first token, users. [s], [s], [requests]
    """
    present, output = batch / groups, np.asarray(load.output)
    alone, reading = np.asarray(time_per_output_token(t, 0.0, load, s)), np.asarray(tokens_of_reading(load, s))
    until = until_begun(t.step, 1.0, load.looks, s)

    def loop_at(token: Array, users: Array, share: Number) -> tuple[Array, Array, Array]:
        peers = np.maximum(users - 1, 0.0)
        idle, wait = s.arrival / token, until / token
        queue = np.asarray(queue_of_batch(present, reading, output + idle + wait * np.minimum(peers, 1.0), output))
        users = _with_wait(present, idle + reading * (1 + queue), wait, output)
        peers = np.maximum(users - 1, 0.0)
        before = np.minimum(read_before(queue, peers * present / users / output, reading, load, s), peers)
        beside = beside_of_users(users * groups, before, share, groups, s)
        first = s.arrival + t.alone + until * np.minimum(peers, 1.0) + reading_beside(t, users, reading, load, s)
        first = first + (before - in_other_stages(before, peers, load)) * (t.beside + reading * alone)
        return np.asarray(time_per_output_token(t, beside, load, s)), np.asarray(first), users

    # How many users there are says how many prompts one of them meets, which says how long a token takes.
    tpot, first, users = loop_at(alone, present, 1.0)
    whole = first + output * tpot
    tpot, first, users = loop_at(whole * present / (users * output), users, output * tpot / whole)
    return tpot, first, users * groups


def _with_wait(present: Array, unmet: Array, until: Array, output: Array) -> Array:
    r"""Users of a group of whom so many are ``present`` in a decode step. [requests]

    A single one waits for no step of others: :math:`U = B (1 + (u + w \min(U - 1, 1)) / O)` is linear up to two.

    Parameters
    ----------
    unmet, until : array
        Time to a first token but for the wait for a step, and that wait, both as tokens of an answer. [tokens]
    """
    wait = present * until / output
    alone = present * (1 + unmet / output)
    few = np.divide(alone - wait, 1 - wait, out=np.full(np.shape(alone + wait), np.inf), where=wait < 1)
    return alone + wait * np.clip(few - 1, 0.0, 1.0)
