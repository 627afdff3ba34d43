"""How long to keep what may be used again: with and without knowing when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError

Array = NDArray[np.float64]
_GRID = 8000
_FINEST = 1e-12
"""Shortest time of the grid over the longest."""
_SAME = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """Time to keep an entry, and what that costs on average."""

    keep: float
    """0 for never, infinite for always. [s]"""
    cost: float
    """Of one entry until its next use, or until it is dropped and computed again. [USD]"""


def ski_rental(hold: float, again: float) -> float:
    r"""Time to keep an entry of which nothing is known: until holding has cost as much as computing again. [s]

    Never more than twice what one would pay who knew the time of the next use; no fixed
    time does better. Source: Karlin et al. 1988, the break-even rule.

    Errors: :class:`InputError` for costs that are not positive.
    """
    _check(hold, again)
    return again / hold


def kept_cost(hold: float, again: float, keep: float, reuse: float) -> float:
    """Cost of an entry that is next used after ``reuse`` seconds and kept for ``keep``. [USD]"""
    return hold * min(reuse, keep) + (again if reuse > keep else 0.0)


def best_lifetime(hold: float, again: float, survival: Callable[[Array], Array], longest: float) -> Lifetime:
    r"""Time to keep an entry whose next use follows a known distribution.

    .. math:: \min_\tau \; h \int_0^\tau S(t) \, dt + r S(\tau)

    with the chance S(t) that it is not used before t.

    Parameters
    ----------
    hold, again : float
        Of one entry. [USD/s], [USD]
    survival : callable
        S at an array of times. [s] -> [1]
    longest : float
        Longest time that is considered. [s]

    Errors: :class:`InputError` for costs that are not positive, and a survival that is none.
    """
    _check(hold, again)
    if not 0 < longest < inf:
        raise InputError("longest", longest, "write a positive finite time")
    times = np.concatenate([[0.0], np.geomspace(longest * _FINEST, longest, _GRID)])
    survival_chances = np.asarray(survival(times), dtype=float)
    if (
        survival_chances.shape != times.shape
        or np.any(survival_chances < 0)
        or np.any(survival_chances > 1)
        or np.any(np.diff(survival_chances) > 0)
    ):
        raise InputError("survival", float(survival_chances.min()), "a chance that falls from 1 towards 0")
    token_seconds = np.concatenate(
        [[0.0], np.cumsum(np.diff(times) * (survival_chances[1:] + survival_chances[:-1]) / 2)]
    )
    costs = hold * token_seconds + again * survival_chances
    place = int(np.argmin(costs))
    # Where nothing is left to come, all long times cost the same but for the error of the integral.
    always = costs[-1] <= costs[place] * (1 + _SAME)
    return Lifetime(keep=inf if always else float(times[place]), cost=float(costs[place]))


def exponential(rate: float) -> Callable[[Array], Array]:
    """Survival of a next use that comes at a constant rate. [1/s]"""
    return lambda t: np.exp(-rate * t)


def pareto(scale: float, shape: float) -> Callable[[Array], Array]:
    """Survival with a heavy tail: (1 + t / scale)^-shape, as turns of a conversation come."""
    return lambda t: (1 + t / scale) ** -shape


def _check(hold: float, again: float) -> None:
    for field, value in (("hold", hold), ("again", again)):
        if not 0 < value < inf:
            raise InputError(field, value, "a cost is a positive finite number")
