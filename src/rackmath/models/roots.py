"""Where curves that are dear to ask are zero, many of them at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

_MOST = 100
"""Rounds; a curve without a jump seldom needs ten."""
_NARROW = 1e-9
"""Between two points that are one."""

Array = NDArray[np.float64]
Places = NDArray[np.intp]


def zeros(curves: Callable[[Array, Places], Array], low: Array, high: Array, close: float) -> Array:
    """Zero of each curve between two points: of a jump over zero the side above; NaN where both ends have one sign.

    False position as of Illinois (Dowell and Jarratt 1971), in rounds: each asks all curves that are not done.

    Parameters
    ----------
    curves : callable
        Values at some points, one of each curve whose place is named.
    low, high : array
        (curves,)
    close : float
        How near zero a value is zero.
    """
    every = np.arange(len(low))
    other, point = low.copy(), high.copy()
    behind, ahead = curves(other, every), curves(point, every)
    crosses = behind * ahead <= 0
    for _ in range(_MOST):
        left = np.flatnonzero(crosses & (np.abs(ahead) >= close) & (np.abs(point - other) >= _NARROW))
        if not len(left):
            break
        middle = point[left] - ahead[left] * (point[left] - other[left]) / (ahead[left] - behind[left])
        value = curves(middle, left)
        passed = value * ahead[left] < 0
        other[left] = np.where(passed, point[left], other[left])
        # An end that stays twice would keep the other from coming nearer.
        behind[left] = np.where(passed, ahead[left], behind[left] / 2)
        point[left], ahead[left] = middle, value
    above = np.where((np.abs(ahead) >= close) & (ahead < 0), other, point)
    return np.where(crosses, above, np.nan)
