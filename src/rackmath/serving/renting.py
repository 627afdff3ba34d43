"""How many accelerators a deployment takes: units that serve a rate, encoders beside them, whole boxes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rackmath.errors import DoesNotFit
from rackmath.serving.points import Array, Mask, Points
from rackmath.serving.workload import PlanWorkload, Space

_UNSERVED = 1e-30
"""Part of its throughput that a deployment counts for where it cannot serve the rate that is asked. [1]"""


def rented(points: Points, work: PlanWorkload, space: Space) -> tuple[Points, Mask]:
    """As many units as serve the rate of requests, in boxes that are rented whole; and which points can serve it.

    Errors: :class:`DoesNotFit` where none can.
    """
    deployments, enough = _serving(points, work)
    if not len(deployments):
        raise DoesNotFit(
            f"no deployment on up to {space.gpus} accelerators serves {work.rate:g} requests per second;"
            f" the most is {float(points.rate.max()):.3g}",
            "use more --gpus or a lower --rate",
        )
    return _in_boxes(deployments, space), enough


def requests_per_billed(points: Points, work: PlanWorkload, space: Space) -> Array:
    """Requests per second and accelerator that is rented for them; of points that cannot serve the rate, next to none.

    Those rank by the most that they serve, below all others. (points,) [requests/s]
    """
    deployments, enough = _serving(points, work)
    rates = points.rate * _UNSERVED
    rates[enough] = _in_boxes(deployments, space).per_gpu
    return rates


def _serving(points: Points, work: PlanWorkload) -> tuple[Points, Mask]:
    """As many units as serve the rate of requests, all of them for any rate, and which points can serve it."""
    if not np.isfinite(work.rate):
        return points, np.ones(len(points), dtype=bool)
    per_unit = points.rate / points.units
    unit_count = np.ceil(work.rate / per_unit * (1 - 1e-12))
    enough = unit_count <= points.units
    deployments, units = points.taken(enough), unit_count[enough]
    part = units / deployments.units
    encoders = _whole(deployments.encoders * part)
    gpus = (deployments.gpus - deployments.encoders) * part + encoders
    rate = np.full(len(deployments), work.rate)
    return replace(deployments, units=units, encoders=encoders, gpus=gpus, rate=rate), enough


def _in_boxes(points: Points, space: Space) -> Points:
    return replace(points, billed=np.minimum(np.ceil(points.gpus / space.box) * space.box, space.gpus))


def most_units(gpus: float, unit: Array, encoders_each: Array) -> tuple[Array, Array]:
    """Most units of ``unit`` accelerators and ``encoders_each`` to a unit before rounding, that ``gpus`` hold."""
    units = np.maximum(np.floor(gpus / (unit + encoders_each) + 1e-9), 1.0)
    encoders = _whole(units * encoders_each)
    over = units * unit + encoders > gpus
    units = np.where(over, np.maximum(np.floor((gpus - encoders) / unit + 1e-9), 1.0), units)
    return units, np.where(over, _whole(units * encoders_each), encoders)


def repeated(points: Points, units: Array, own_gpus: Array, encoders: Array, rate: Array) -> Points:
    """The same deployments as ``units`` of ``own_gpus`` accelerators and ``rate`` each, with encoders beside them."""
    gpus = units * own_gpus + encoders
    return replace(points, units=units, encoders=encoders, gpus=gpus, billed=gpus, rate=units * rate)


def _whole(encoders: Array) -> Array:
    return np.ceil(encoders - 1e-9)
