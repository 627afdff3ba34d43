"""Predictions of rows, corrected by the measurements near each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rackmath.api.near import NearMeasurements, near_questions
from rackmath.evidence.posterior import FAR
from rackmath.validation.kinds import TIMES
from rackmath.validation.predict import Prediction


def corrected_rows(predictions: Sequence[Prediction]) -> list[Prediction]:
    """Predictions with what near measurements say of them; those that nothing is near to stay as they are.

    Errors: :class:`~rackmath.errors.InputError` for a user's own measurements that cannot be read.
    """
    answered = [p for p in predictions if p.question is not None and p.predicted is not None]
    near = iter(near_questions([p.question for p in answered if p.question is not None]))
    return [_corrected(p, next(near)) if p.question is not None and p.predicted is not None else p for p in predictions]


def _corrected(prediction: Prediction, at: NearMeasurements) -> Prediction:
    question, value = prediction.question, prediction.predicted
    if question is None or value is None or at.posterior.distance == FAR:
        return prediction
    if question.quantity in TIMES:
        middle, low, high = value * at.factor, value * at.low, value * at.high
    else:
        middle, low, high = value / at.factor, value / at.high, value / at.low
    note = f"corrected by {len(at.posterior.rows)} measurements near it ({at.posterior.distance})"
    reason = "; ".join(part for part in (prediction.reason, note) if part)
    return replace(prediction, predicted=middle, low=low, high=high, reason=reason)
