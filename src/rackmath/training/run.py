"""A training run: time of a step for each way to spread it, model FLOPs, failures."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from rackmath.engine.layout import stack_layouts
from rackmath.engine.timer import Timer
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.formats import BF16
from rackmath.models.operator import Pass
from rackmath.models.operators import operators
from rackmath.training.activations import repeated
from rackmath.training.frozen import frozen
from rackmath.training.options import Options, Recipe
from rackmath.training.throughput import TrainingRun, step_time

Array = NDArray[np.float64]

INTERRUPTIONS = 419 / (54 * 86_400 * 16_384)
"""Of one accelerator. [1/s] Source: Llama 3, arXiv:2407.21783: 419 unexpected ones in 54 days on 16,384 H100."""


def step_times(
    architecture: Architecture, system: System, options: Options, recipe: Recipe, timer: Timer, exposed_share: float
) -> Array:
    """Time of a step of each option. (options,) [s]"""
    again = {way: repeated(architecture, way, recipe.length) for way in set(options.recompute)}
    frozen_parts = frozen(architecture, recipe.length, recipe.stored)
    run = TrainingRun(
        layout=stack_layouts(options.layouts),
        context=options.context,
        chunks=options.chunks,
        microbatch=options.microbatch,
        sequences=recipe.sequences,
        length=recipe.length,
        sharded=np.array([float(sharding == "all") for sharding in options.sharded]),
        recompute=np.array([again[way] for way in options.recompute]),
        frozen_part=frozen_parts.part,
        trained_part=frozen_parts.trained_part,
        expansion=frozen_parts.expansion,
    )
    times = step_time(architecture, system, run, timer, exposed_share)
    return np.broadcast_to(np.asarray(times, dtype=float), (len(options),))


def model_flops(architecture: Architecture, length: float) -> float:
    """FLOPs of training per token: three forward passes, causal attention counted once. [FLOP]

    Of products with frozen weights two: their own gradients are not computed.
    """
    part = frozen(architecture, length, BF16).part
    work = Pass(phase="train", sequences=1.0, new_tokens=length, context=length)
    forward = sum(operator.count * float(np.max(operator.flops)) for operator in operators(architecture, work))
    return (3 - part) * forward / length


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """Failures of a long run and what they cost."""

    interval: float
    """Between checkpoints, at its best. [s]"""
    useful: float
    """Part of the time that is not lost. [1]"""


def reliability(gpus: float, write: float, restart: float, rate: float = INTERRUPTIONS) -> Reliability:
    r"""Best interval between checkpoints: :math:`\tau = \sqrt{2 \delta M}`, and the time that is left.

    .. math:: 1 - \left(\frac{\delta}{\tau} + \frac{\tau}{2M} + \frac{R}{M}\right)

    Parameters
    ----------
    write, restart : float
        Time that a checkpoint stops the run, and that a failure does. [s]
    rate : float
        Failures of one accelerator. [1/s]

    Source: Young 1974; Daly 2006. Errors: :class:`InputError` where nothing is left.
    """
    for field, value in (("--checkpoint-time", write), ("--restart-time", restart)):
        if not (isfinite(value) and value >= 0):
            raise InputError(field, value, "write a time that is not negative")
    between = 1 / (rate * gpus) if rate * gpus > 0 else inf
    interval = sqrt(2 * write * between) if between < inf else inf
    overhead = (
        (write / interval if interval else 0.0) + interval / 2 / between + restart / between if between < inf else 0.0
    )
    if not overhead < 1:
        raise InputError("--restart-time", restart, "failures come faster than the run recovers")
    return Reliability(interval=interval, useful=1 - overhead)
