"""Traffic that follows the day."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.models.numbers import Number

F = NDArray[np.float64]

DAY = 86_400.0
"""[s]"""


def daily(arrival: F, swing: float, begin: float = 0.0) -> F:
    """Bend times so that the rate follows a day: 1 + swing sin. [s]

    Parameters
    ----------
    begin : float
        Time of the day at which they begin; the rate is at its mean at 0 and highest a quarter of a day later. [s]

    Errors: :class:`InputError` for a swing outside of 0 to 1.
    """
    if not 0 <= swing < 1:
        raise InputError("swing", swing, "write a number from 0 to below 1")
    # The integral of the rate is inverted on a fine grid.
    grid: F = np.linspace(0, float(arrival[-1]) * (1 + swing) + DAY, 200_001)
    return np.interp(arrival, even_time(grid, swing, begin), grid)


def even_time(moment: Number, swing: float, begin: float) -> Number:
    """Time in which as many requests come at the mean rate as come until a moment of a day that begins at a time. [s]

    The integral of 1 + swing sin, which may be negative for moments before the begin.
    """
    angle = 2 * np.pi * begin / DAY
    return moment + swing * DAY / (2 * np.pi) * (np.cos(angle) - np.cos(angle + 2 * np.pi * moment / DAY))
