"""Accelerators that encode images only: as many as keep up with the deployments whose prompts hold the images."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rackmath.engine import Layout, Losses
from rackmath.engine.encoding import encoding
from rackmath.engine.transfer import embeddings_time
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.serving.points import Points, joined
from rackmath.serving.renting import most_units, repeated
from rackmath.serving.waits import queued
from rackmath.serving.workload import Space

BUSY = (0.5, 0.8)
"""Parts of their time that encoders are planned to work: waits are short at the first, few are idle at the second."""


def encoded_apart(
    points: Points, system: System, space: Space, model: Architecture | None, losses: Losses | None
) -> Points:
    """The same points, with encoders beside them where a ``model`` is named whose images other accelerators encode."""
    if model is None:
        return points
    time = float(encoding(model, system, Layout(), 1.0, losses).time)
    return with_encoders(points, time, float(embeddings_time(model, system, float(space.gpus))), space)


def with_encoders(points: Points, time: float, transfer: float, space: Space) -> Points:
    r"""The same deployments with encoders beside them, within the budget of accelerators.

    For each part b of :data:`BUSY` a unit that serves r requests a second takes

    .. math:: n = r t / b

    encoders, shared by all units and rounded up together; each of them encodes the images of one request at a time.

    Parameters
    ----------
    points : Points
        Deployments whose prompts come with their images encoded.
    time : float
        One accelerator encodes the images of a request. [s]
    transfer : float
        What they become is sent. [s]
    """
    parts: list[Points] = []
    for part in BUSY:
        unit, rate = points.gpus / points.units, points.rate / points.units
        units, encoders = most_units(float(space.gpus), unit, rate * time / part)
        fits = (units >= 1) & (units * unit + encoders <= space.gpus)
        at = points.taken(fits)
        units, encoders, unit, rate = units[fits], encoders[fits], unit[fits], rate[fits]
        busy = units * rate * time / encoders
        wait = np.asarray(queued(time, busy)) / encoders
        first = at.time_to_first_token + time + wait + transfer
        parts.append(replace(repeated(at, units, unit, encoders, rate), time_to_first_token=first))
    return joined(parts)
