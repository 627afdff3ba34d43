"""Rows in, rows out: a prediction with its range, or the reason to decline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rackmath.engine.constants import Constants
from rackmath.errors import RackmathError
from rackmath.validation.problem import evaluate
from rackmath.validation.questions import Question, question
from rackmath.validation.ranges import row_range
from rackmath.validation.rows import Row, read_row

MOST_AT_ONCE = 16_000
"""Rows that are answered together: their constants are one array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What is said of one row."""

    row: Row | None
    """None where the row could not be read at all."""
    predicted: float | None
    """In the row's own unit and per; None where declined."""
    low: float | None
    high: float | None
    """90 % range."""
    reason: str
    """Why it was declined; else what was assumed, if anything."""
    question: Question | None = None

    @property
    def error(self) -> float | None:
        """Predicted over measured, less one; None without both."""
        if self.predicted is None or self.row is None or not self.row.value:
            return None
        return self.predicted / self.row.value - 1

    @property
    def inside(self) -> bool | None:
        """Whether the measured value lies in the range; None without both."""
        if self.low is None or self.high is None or self.row is None or not self.row.value:
            return None
        return self.low <= self.row.value <= self.high


def predict(table: Sequence[Mapping[str, str]], constants: Constants, first_line: int = 2) -> list[Prediction]:
    """Predict every row of a table, in its order.

    Parameters
    ----------
    table : sequence of mappings
        Cells of the columns of :data:`~rackmath.validation.rows.COLUMNS`.
    constants : Constants
        Fitted constants with their ranges.
    first_line : int
        Line of the first row in its file.
    """
    questions: list[tuple[int, Question]] = []
    predictions: list[Prediction | None] = [None] * len(table)
    for i, cells in enumerate(table):
        row: Row | None = None
        try:
            row = read_row(cells, first_line + i)
            query = question(row)
            query.system.require_network(int(float(query.deployment.layout.gpus)))
            questions.append((i, query))
        except RackmathError as error:
            predictions[i] = Prediction(row=row, predicted=None, low=None, high=None, reason=str(error))
    for start in range(0, len(questions), MOST_AT_ONCE):
        part = questions[start : start + MOST_AT_ONCE]
        values = _values([query for _, query in part], constants)
        for (i, query), value in zip(part, values, strict=True):
            if isinstance(value, str):
                predictions[i] = Prediction(row=query.row, predicted=None, low=None, high=None, reason=value)
            else:
                predictions[i] = _prediction(query, value, constants)
    return [p for p in predictions if p is not None]


def _values(questions: Sequence[Question], constants: Constants) -> list[float | str]:
    """Answers, or the reason why one has none: halves of what is refused as a whole are asked again."""
    try:
        return [float(value) for value in evaluate(questions, constants)[0]]
    except RackmathError as error:
        if len(questions) == 1:
            return [str(error)]
    half = len(questions) // 2
    return [*_values(questions[:half], constants), *_values(questions[half:], constants)]


def _prediction(question: Question, value: float, constants: Constants) -> Prediction:
    if not np.isfinite(value) or value <= 0:
        return Prediction(
            row=question.row, predicted=None, low=None, high=None, reason="does not fit: no batch can run"
        )
    low, high = row_range(question, constants)
    return Prediction(
        row=question.row,
        predicted=value,
        low=value * low,
        high=value * high,
        reason="; ".join(question.assumed),
        question=question,
    )
