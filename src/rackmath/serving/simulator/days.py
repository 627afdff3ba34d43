"""Traffic that follows the day."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError

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
    angle = 2 * np.pi * begin / DAY
    passed: F = grid + swing * DAY / (2 * np.pi) * (np.cos(angle) - np.cos(angle + 2 * np.pi * grid / DAY))
    return np.interp(arrival, passed, grid)
