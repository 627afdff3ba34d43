"""Ranges that mean what they say: split conformal prediction on groups that were left out.

Rows of one (model, chip) pair, or of one chip, are predicted by constants that never saw
them. Measured over predicted values of all such rows, by class of question, give the
range: their 5th and 95th percentile, with the correction for a finite sample. The
guarantee: for a further row whose group is exchangeable with the groups left out, the
range covers at least 90 % on average over groups. It does not hold for a kind of chip or
engine unlike any seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rackmath.validation.answers import Array
from rackmath.validation.questions import Question

LEVEL = 0.9
_FEWEST = 20
_WIDER = 1.5
"""Factor on the logarithm of a range where the layout had to be inferred."""

_CLASSES = {
    "tpot": "time per token",
    "speed": "time per token",
    "ttft": "first token",
    "ttft_median": "first token",
    "output": "throughput",
    "total": "throughput",
}
ALL = "all"


def class_of(question: Question) -> str:
    """Class of a question: what shares one range."""
    match question.kind:
        case "train":
            return "training"
        case "full":
            return "full load"
        case "server":
            return "server"
        case "decode":
            return "decode pass"
        case "prefill":
            return "prompt pass"
        case "static":
            return "throughput"
        case _:
            return _CLASSES[question.quantity]


def fitted_ranges(
    questions: Sequence[Question], pairs_out: Array, chips_out: Array
) -> dict[str, Mapping[str, tuple[float, float]]]:
    """Ranges by class for chips that were measured and for new ones.

    Parameters
    ----------
    pairs_out, chips_out : array
        Values predicted without the row's (model, chip) pair, and without its chip. (questions,)
    """
    measured = np.array([q.row.value for q in questions], dtype=float)
    classes = np.array([class_of(q) for q in questions])
    found: dict[str, Mapping[str, tuple[float, float]]] = {}
    for name in (ALL, *sorted(set(classes))):
        inside = np.full(len(classes), True) if name == ALL else classes == name
        found[name] = {
            "known": _range((measured / pairs_out)[inside]),
            "new": _range((measured / chips_out)[inside]),
        }
    return found


def covered(questions: Sequence[Question], values: Array, folds: Array) -> Array:
    """Whether each row lies in the range that the other folds give it. (questions,)"""
    measured = np.array([q.row.value for q in questions], dtype=float)
    classes = np.array([class_of(q) for q in questions])
    ratio = measured / values
    inside = np.zeros(len(questions))
    for fold in np.unique(folds):
        for name in np.unique(classes):
            test = (folds == fold) & (classes == name)
            others = (folds != fold) & (classes == name)
            low, high = _range(ratio[others]) if others.sum() >= _FEWEST else _range(ratio[folds != fold])
            inside[test] = (ratio[test] >= low) & (ratio[test] <= high)
    return inside


def row_range(
    question: Question, ranges: Mapping[str, Mapping[str, tuple[float, float]]], known: bool
) -> tuple[float, float]:
    """Factors on a predicted value that bound its 90 % range; wider where something was inferred."""
    table = ranges.get(class_of(question), ranges.get(ALL, {}))
    low, high = table.get("known" if known else "new", (1.0, 1.0))
    if question.deployment.inferred:
        low, high = low**_WIDER, high**_WIDER
    return low, high


def _range(ratio: Array) -> tuple[float, float]:
    """Percentiles with the conformal correction for the sample's size."""
    n = len(ratio)
    tail = (1 - LEVEL) / 2
    upper = min(1.0, np.ceil((n + 1) * (1 - tail)) / n)
    low, high = np.quantile(ratio, [1 - upper, upper])
    return float(min(low, 1.0)), float(max(high, 1.0))
