"""Ranges that mean what they say: split conformal prediction on groups that were left out.

Rows are predicted by constants that never saw their source, or their chip, or any row of their
engine on their generation. Measured over predicted values of such rows, by class of question, give
the range: their 5th and 95th percentile, with the correction for a finite sample. An engine on a
generation with rows enough has a range of its own; without rows, a range is that of engines and
generations left out as pairs, and wider still where neither was ever measured. The guarantee: for a
further row whose group is exchangeable with the groups left out, the range covers at least 90 % on
average over groups. Runs of an early enablement have a range of their own: no answer is of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rackmath.engine.constants import IMMATURE, Constants
from rackmath.validation.answers import engine_of
from rackmath.validation.groups import Array
from rackmath.validation.kinds import PER_TOKEN
from rackmath.validation.questions import Question

LEVEL = 0.9
_FEWEST = 30
_WIDER = 1.5
"""Factor on the logarithm of a range where the layout had to be inferred, or where no row is near."""

_CLASSES = {
    **dict.fromkeys(PER_TOKEN, "time per token"),
    "speed": "time per token",
    "ttft": "first token",
    "ttft_median": "first token",
    "latency": "latency",
    "output": "throughput",
    "total": "throughput",
    "requests": "throughput",
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
        case "wave":
            return "at once"
        case _:
            return _CLASSES[question.quantity]


def phase_of(question: Question) -> str:
    """Phase under which a question's row counts as evidence."""
    return {"train": "training", "decode": "decode", "prefill": "prefill"}.get(question.kind, "serving")


def fitted_ranges(
    questions: Sequence[Question], left: Mapping[str, Array]
) -> dict[str, Mapping[str, tuple[float, float]]]:
    """Ranges by class, and by what is known of an engine on a chip.

    Parameters
    ----------
    left : mapping of array
        Values predicted without the row's source, its chip, and its engine on its generation, by
        the names of the groupings. (questions,)
    """
    measured = np.array([q.row.value for q in questions], dtype=float)
    classes = np.array([class_of(q) for q in questions])
    pairs = np.array([pair(q) for q in questions])
    early = np.array([engine_of(q).stage == IMMATURE for q in questions])
    entries: dict[str, Mapping[str, tuple[float, float]]] = {}
    for name in (ALL, *sorted(set(classes))):
        of_class = np.full(len(classes), True) if name == ALL else classes == name
        inside = of_class & ~early
        ratios = {key: (measured / left[key])[inside] for key in ("source", "chip", "engine on generation")}
        table = {
            "chip": _range(ratios["source"]),
            "pair": _wider(_range(ratios["source"]), _range(ratios["chip"])),
            "member": _wider(_range(ratios["source"]), _range(ratios["engine on generation"])),
        }
        low, high = table["member"]
        table["none"] = (low**_WIDER, high**_WIDER)
        if (of_class & early).any():
            table[IMMATURE] = _range((measured / left["source"])[of_class & early])
        for item in sorted(set(pairs[inside])):
            own = (measured / left["source"])[inside & (pairs == item)]
            own = own[np.isfinite(own)]
            if len(own) >= _FEWEST:
                table[item] = _range(own)
        entries[name] = table
    return entries


def pair(question: Question) -> str:
    """Engine on a generation, as the ranges name it."""
    return f"{question.row.family} {question.system.chip.generation}"


def covered(questions: Sequence[Question], values: Array, constants: Constants) -> NDArray[np.bool_]:
    """Whether each row lies in the range that stands beside its value. (questions,)"""
    measured = np.array([q.row.value for q in questions], dtype=float)
    bounds = np.array([row_range(q, constants) for q in questions])
    ratio = measured / values
    return (ratio >= bounds[:, 0]) & (ratio <= bounds[:, 1])


def row_range(question: Question, constants: Constants) -> tuple[float, float]:
    """Factors on a predicted value that bound its 90 % range; wider where something was inferred."""
    chip = question.system.chip.name
    low, high = constants.range(class_of(question), engine_of(question), chip, phase_of(question))
    if question.deployment.inferred:
        low, high = low**_WIDER, high**_WIDER
    return low, high


def _wider(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    return min(a[0], b[0]), max(a[1], b[1])


def _range(ratio: Array) -> tuple[float, float]:
    """Percentiles with the conformal correction for the sample's size."""
    finite = ratio[np.isfinite(ratio)]
    n = len(finite)
    if not n:
        return (1.0, 1.0)
    tail = (1 - LEVEL) / 2
    upper = min(1.0, np.ceil((n + 1) * (1 - tail)) / n)
    low, high = np.quantile(finite, [1 - upper, upper])
    return float(min(low, 1.0)), float(max(high, 1.0))
