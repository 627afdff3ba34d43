"""Differences between two runs on the same draws: what they share falls out of the interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

F = NDArray[np.float64]

STRETCHES = 32
"""Of a run, by the order of its requests."""
COMPARED = ("mean", "p50", "p99")
"""Statistics that differences are told of."""
_SHORT = 10
"""Requests of a stretch below which stretches say nothing."""
_FEWEST = 8
"""Stretches after the warm-up below which no interval is told."""
_NORMAL = 1.96


def stretch_statistics(values: F) -> dict[str, list[float]] | None:
    """Mean and percentiles in each stretch of a run; None for runs that are too short.

    Parameters
    ----------
    values : array
        One quantity in the order of requests; what is not a number is not counted. (requests,)
    """
    length = len(values) // STRETCHES
    if length < _SHORT:
        return None
    parts = values[: length * STRETCHES].reshape(STRETCHES, length)
    if not np.isfinite(parts).any(1).all():
        return None
    return {
        "mean": np.nanmean(parts, axis=1).tolist(),
        "p50": np.nanquantile(parts, 0.5, axis=1).tolist(),
        "p99": np.nanquantile(parts, 0.99, axis=1).tolist(),
    }


def paired_half_width(
    base: Mapping[str, Sequence[float]], changed_run: Mapping[str, Sequence[float]], name: str, warm: float
) -> float | None:
    """Half width of the 95 % interval of a difference between two runs on the same requests.

    Sectioning (Asmussen and Glynn 2007, III.5): the difference is taken in each stretch, and how much it varies between
    stretches gives its standard error. Bursts that both runs meet cancel (common random numbers).

    Parameters
    ----------
    warm : float
        Part of the run that is warm-up in either: its stretches are left out. [1]

    Returns
    -------
    float or None
        None where too few stretches are left.
    """
    first = ceil(warm * STRETCHES)
    differences = (np.asarray(changed_run[name]) - np.asarray(base[name]))[first:]
    count = len(differences)
    if count < _FEWEST:
        return None
    # Student's quantile by the first term of its expansion (Fisher and Cornish 1960): within 0.03 from 8 stretches on.
    student = _NORMAL + (_NORMAL**3 + _NORMAL) / (4 * (count - 1))
    return student * float(differences.std(ddof=1)) / sqrt(count)
