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
    far_end, point = low.copy(), high.copy()
    behind, ahead = curves(far_end, every), curves(point, every)
    crosses = behind * ahead <= 0
    for _ in range(_MOST):
        open_places = np.flatnonzero(crosses & (np.abs(ahead) >= close) & (np.abs(point - far_end) >= _NARROW))
        if not len(open_places):
            break
        middle = point[open_places] - ahead[open_places] * (point[open_places] - far_end[open_places]) / (
            ahead[open_places] - behind[open_places]
        )
        value = curves(middle, open_places)
        is_past = value * ahead[open_places] < 0
        far_end[open_places] = np.where(is_past, point[open_places], far_end[open_places])
        # An end that stays twice would keep the other from coming nearer.
        behind[open_places] = np.where(is_past, ahead[open_places], behind[open_places] / 2)
        point[open_places], ahead[open_places] = middle, value
    above = np.where((np.abs(ahead) >= close) & (ahead < 0), far_end, point)
    return np.where(crosses, above, np.nan)
