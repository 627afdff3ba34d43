"""Errors and coverage of predicted rows, by group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rackmath.validation.predict import Prediction

FEWEST_SOURCES = 5
"""Below so many a drawing of sources says little about others."""
_DRAWS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How well a set of rows is predicted; None where nothing can be said."""

    name: str
    rows: int
    predicted: int
    measured: int
    """Rows that are both predicted and measured; the rest of the record is about them."""
    median_abs_error: float | None
    p90_abs_error: float | None
    bias: float | None
    """Median of predicted over measured, less one."""
    coverage_90: float | None


GROUPS: Mapping[str, Callable[[Prediction], str]] = {
    "phase": lambda p: p.row.phase if p.row else "unreadable",
    "hardware": lambda p: p.row.hardware if p.row else "unreadable",
    "engine": lambda p: p.row.family if p.row else "unreadable",
}
"""How rows are grouped in a report of ``rackmath predict``."""


def score(name: str, predictions: Sequence[Prediction]) -> Score:
    """Score one set of rows."""
    predicted_rows = [p for p in predictions if p.predicted is not None]
    errors = np.array([p.error for p in predicted_rows if p.error is not None])
    inside = [p.inside for p in predicted_rows if p.inside is not None]
    has_errors = len(errors) > 0
    return Score(
        name=name,
        rows=len(predictions),
        predicted=len(predicted_rows),
        measured=len(errors),
        median_abs_error=float(np.median(np.abs(errors))) if has_errors else None,
        p90_abs_error=float(np.quantile(np.abs(errors), 0.9)) if has_errors else None,
        bias=float(np.median(errors)) if has_errors else None,
        coverage_90=float(np.mean(inside)) if inside else None,
    )


def scores(predictions: Sequence[Prediction]) -> list[Score]:
    """Score every group of :data:`GROUPS`, largest first within each."""
    result: list[Score] = []
    for kind, key in GROUPS.items():
        parts: dict[str, list[Prediction]] = {}
        for p in predictions:
            parts.setdefault(key(p), []).append(p)
        result += [score(f"{kind}: {name}", part) for name, part in sorted(parts.items(), key=lambda i: -len(i[1]))]
    return result


def median_range(sizes: NDArray[np.float64], sources: Sequence[str]) -> tuple[float, float] | None:
    """Ends between which nine of ten medians of an error lie when its sources are drawn anew; None of few sources.

    Parameters
    ----------
    sizes : array
        Sizes of errors, finite. (rows,)
    sources : sequence of str
        Who published each row. (rows,)

    Rows of one source err alike: drawn row by row they would promise an error bar many times too narrow. Source: the
    bootstrap of clusters, Field and Welsh, "Bootstrapping clustered data", 2007. The same for the same rows.
    """
    names = sorted(set(sources))
    if len(names) < FEWEST_SOURCES:
        return None
    place = {name: i for i, name in enumerate(names)}
    of_row = np.array([place[source] for source in sources])
    in_order = sizes[np.argsort(of_row, kind="stable")]
    parts: list[NDArray[np.float64]] = np.split(in_order, np.cumsum(np.bincount(of_row))[:-1])
    draw = np.random.default_rng(0)
    medians = np.empty(_DRAWS)
    for k in range(_DRAWS):
        resample: list[NDArray[np.float64]] = [parts[int(i)] for i in draw.integers(len(parts), size=len(parts))]
        medians[k] = np.median(np.concatenate(resample))
    low, high = np.quantile(medians, (0.05, 0.95))
    return float(low), float(high)
