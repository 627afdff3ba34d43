"""The same rows by simpler models, for comparison: the plain roofline, and one efficiency for all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rackmath.engine.timer import engine_timer
from rackmath.serving import Scheduling
from rackmath.validation.answers import answer
from rackmath.validation.groups import Array, groups
from rackmath.validation.held import held_by
from rackmath.validation.kinds import TIMES
from rackmath.validation.question_constants import QuestionConstants
from rackmath.validation.questions import Question


def ideal_values(questions: Sequence[Question]) -> Array:
    """Values at the ideal bound: nothing lost, prompts never interrupt, all drafts accepted. (questions,)"""
    values = np.full(len(questions), np.nan)
    for group in groups(questions):
        ones = np.ones(len(group.questions))
        free = Scheduling(interruption=0 * ones, queueing=0 * ones, acceptance=ones)
        timer = engine_timer(group.architecture, group.system, None, group.two_batch, piece=group.piece)
        values[group.index], _ = answer(group, timer, QuestionConstants(serving=free, exposed=0 * ones), held_by(group))
    return values


def one_efficiency(questions: Sequence[Question], ideal: Array) -> Array:
    """Ideal values times one factor per kind of number, fitted on all rows: the best a single efficiency does."""
    measured = np.array([q.row.value for q in questions], dtype=float)
    slow = np.array([q.quantity in TIMES for q in questions])
    values = ideal.copy()
    for part in (slow, ~slow):
        if part.any():
            values[part] *= np.median(measured[part] / ideal[part])
    return values
