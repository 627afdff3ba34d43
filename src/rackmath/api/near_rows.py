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
    # A row with a question is a row with a prediction.
    questions = {i: p.question for i, p in enumerate(predictions) if p.question is not None}
    result = list(predictions)
    for i, at in zip(questions, near_questions(list(questions.values())), strict=True):
        result[i] = _corrected(predictions[i], questions[i].quantity, at)
    return result


def _corrected(prediction: Prediction, quantity: str, at: NearMeasurements) -> Prediction:
    value = prediction.predicted
    if value is None or at.posterior.distance == FAR:
        return prediction
    if quantity in TIMES:
        middle, low, high = value * at.factor, value * at.low, value * at.high
    else:
        middle, low, high = value / at.factor, value / at.high, value / at.low
    note = f"corrected by {len(at.posterior.rows)} measurements near it ({at.posterior.distance})"
    reason = "; ".join(part for part in (prediction.reason, note) if part)
    return replace(prediction, predicted=middle, low=low, high=high, reason=reason)
