"""Time of a training step of each way to spread a run, with its range: what ``train``, ``budget`` and ``rl`` ask."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rackmath.engine.losses import Losses
from rackmath.engine.timer import engine_timer
from rackmath.hardware import System
from rackmath.io import constants_file
from rackmath.models.architecture import Architecture
from rackmath.training.options import Options, Recipe
from rackmath.training.run import step_times

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSpans:
    """Times of a step and the ends of their 90 % ranges. (options,) [s]"""

    time: Array
    low: Array
    high: Array


def step_spans(
    architecture: Architecture,
    system: System,
    options: Options,
    recipe: Recipe,
    *,
    framework: str | None,
    year: float,
) -> StepSpans:
    """Time of a step of each option by a framework, or without losses where there is none.

    Measured runs bound a range as parts of the step; no run is quicker than the step without losses.
    """

    def times(losses: Losses | None, exposed_share: float) -> Array:
        timer = engine_timer(architecture, system, losses, two_batch=1.0)
        return step_times(architecture, system, options, recipe, timer, exposed_share)

    ideal = times(None, 0.0)
    if framework is None:
        return StepSpans(time=ideal, low=ideal, high=ideal)
    engine = constants_file.framework_of(architecture, system, framework, year)
    seconds = times(
        constants_file.losses_of(system, engine, "training"), constants_file.constants().value("exposed", engine)
    )
    low, high = constants_file.range_of(system, engine, "training")
    return StepSpans(time=seconds, low=np.maximum(seconds * low, ideal), high=seconds * high)
