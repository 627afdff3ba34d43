"""What steps of a search's grid take in, and how long a request waits for the step that reads its prompt."""

from __future__ import annotations

import numpy as np

from rackmath.engine import Layout
from rackmath.serving.load import Load, Scheduling
from rackmath.serving.points import Array
from rackmath.serving.waits import until_begun
from rackmath.serving.workload import PlanWorkload


def tokens_of_steps(batches: Array, layout: Layout, work: PlanWorkload, draft_tokens: Array, chunks: Array) -> Array:
    """Tokens of a step of one group that reads a piece of a prompt. (layouts, batches, draft lengths, chunks)"""
    answers = batches[:, None, None] / layout.data * (1 + draft_tokens[:, None])
    return np.asarray(answers + np.minimum(work.read, chunks))


def until_begun_of_users(step: Array, present: Array, unmet: Array, busy: Array, load: Load, s: Scheduling) -> Array:
    r"""Time until the step that reads a prompt begins, where so many sequences of a group are ``present``. [s]

    Of the users of a group U a part decodes, :math:`B = U b / (b + f)`, and a single one waits for nobody:
    :math:`U = B (1 + u + w \min(U - 1, 1) / b)` is linear up to two of them.

    Parameters
    ----------
    unmet : array
        The first token without that wait, over the time of an answer.
    busy : array
        The time of an answer. [s]
    """
    whole = np.asarray(until_begun(step, 1.0, load.looks, s))
    share = present * whole / busy
    running = present * (1 + unmet) - share
    few = np.divide(running, 1 - share, out=np.full(np.shape(running), np.inf), where=share < 1)
    return whole * np.clip(few - 1, 0.0, 1.0)
