"""Predictions of rows, corrected by the measurements near each."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from rackmath.api.near import near_question
from rackmath.evidence.posterior import FAR
from rackmath.validation.kinds import TIMES
from rackmath.validation.predict import Prediction

_THREADS = 2


def corrected_rows(predictions: Sequence[Prediction]) -> list[Prediction]:
    """Predictions with what near measurements say of them; those that nothing is near to stay as they are.

    Errors: :class:`~rackmath.errors.InputError` for a user's own measurements that cannot be read.
    """
    # NumPy leaves the interpreter free while it solves.
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(_corrected, predictions))


def _corrected(prediction: Prediction) -> Prediction:
    question, value = prediction.question, prediction.predicted
    if question is None or value is None:
        return prediction
    at = near_question(question)
    if at.posterior.distance == FAR:
        return prediction
    if question.quantity in TIMES:
        middle, low, high = value * at.factor, value * at.low, value * at.high
    else:
        middle, low, high = value / at.factor, value / at.high, value / at.low
    note = f"corrected by {len(at.posterior.rows)} measurements near it ({at.posterior.distance})"
    reason = "; ".join(part for part in (prediction.reason, note) if part)
    return replace(prediction, predicted=middle, low=low, high=high, reason=reason)
