"""Where a run's beginning ends: requests that met an empty fleet say nothing of a steady load."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F = NDArray[np.float64]

_BATCH = 5
"""Requests that are averaged before the cut is looked for."""
_LATEST = 0.5
"""Part of a run within which its beginning must end."""
_LEAST = 100
"""Requests below which no cut is looked for."""


def warm_up(values: F, *, empty: bool) -> int | None:
    r"""Requests at the start of a run that are left out of its percentiles.

    The cut d that makes the standard error of the mean of the rest least (MSER-5: White 1997; White, Cobb and Spratt
    2000), over means Y of five requests each:

    .. math:: \min_d \frac{1}{(n - d)^2} \sum_{i > d} (Y_i - \bar{Y}_d)^2

    Parameters
    ----------
    values : array
        One quantity in the order of arrival, which grows with the load. (requests,)
    empty : bool
        Whether arrivals do not wait for answers: the first ones meet an empty fleet, and a start that is slower than
        the rest is a burst like others, which stays.

    Returns
    -------
    int or None
        None where the least error is beyond half of the run: it has no steady part that could be told apart.
    """
    count = len(values) // _BATCH
    if len(values) < _LEAST:
        return 0
    means = values[: count * _BATCH].reshape(count, _BATCH).mean(1)
    # Sums over what is left after each cut.
    lengths = np.arange(count, 0, -1)
    total, squares = np.cumsum(means[::-1])[::-1], np.cumsum((means**2)[::-1])[::-1]
    last = int(count * _LATEST)
    error = ((squares - total**2 / lengths) / lengths**2)[: last + 1]
    cut_place = int(error.argmin())
    if empty and cut_place and means[:cut_place].mean() >= means[cut_place:].mean():
        return 0
    return None if cut_place == last else cut_place * _BATCH
