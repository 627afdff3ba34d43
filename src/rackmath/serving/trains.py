"""The train schedule: batches leave at fixed times, and a request waits for the next one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rackmath.errors import InputError

_LARGEST = 100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Time from arrival to the end of the ride. [s]"""

    median: float
    mean: float
    worst: float


def expected_waits(period: float) -> Waits:
    r"""Closed form where a batch leaves every t seconds and takes t.

    Arrival is uniform between two departures, so the latency is uniform on [t, 2t]:
    median and mean :math:`1.5 t`, at worst :math:`2 t`.

    Source: lecture chapter 1.
    """
    return Waits(median=1.5 * period, mean=1.5 * period, worst=2 * period)


def simulated_waits(period: float, rate: float, requests: int, seed: int = 0) -> Waits:
    """The same by simulation of Poisson arrivals.

    Parameters
    ----------
    period : float
        Between two departures. [s]
    rate : float
        Of arrivals. [requests/s]
    requests : int
        Arrivals that are simulated.
    seed : int
        Of the random numbers.

    Errors: :class:`InputError` for numbers that are not positive.
    """
    for field, value in (("period", period), ("rate", rate), ("requests", requests)):
        if not 0 < value <= _LARGEST:
            raise InputError(field, value, f"write a positive number of at most {_LARGEST:g}")
    arrivals = np.cumsum(np.random.default_rng(seed).exponential(1 / rate, int(requests)))
    departures = (np.floor(arrivals / period) + 1) * period
    latency = departures + period - arrivals
    return Waits(median=float(np.median(latency)), mean=float(latency.mean()), worst=float(latency.max()))
