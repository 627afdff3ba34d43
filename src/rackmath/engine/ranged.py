"""Time of a pass with its range, as measurements correct it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rackmath.engine.adapters import UNMEASURED
from rackmath.engine.losses import CORRECTION, Losses
from rackmath.models.numbers import Number, maximum

if TYPE_CHECKING:
    from rackmath.engine.step import Estimate


def times_with(
    k: Losses, phase: str, total: Number, losses_by_name: Mapping[str, Number], of_adapters: Number = 0.0
) -> dict[str, Any]:
    """Time of a pass, the ends of its range, and what is lost of it, as fields of an ``Estimate``.

    Parameters
    ----------
    total : Number
        The ideal time, which nothing comes below. [s]
    losses_by_name : mapping
        Seconds beyond it by cause, without a correction. [s]
    of_adapters : Number
        Part of the time that adapters take, which nobody measured. [s]
    """
    time = total + sum(losses_by_name.values(), 0.0)
    if phase in k.correction:
        corrected_time = maximum(time * k.correction[phase], total)
        losses_by_name, time = {**losses_by_name, CORRECTION: corrected_time - time}, corrected_time
    return {
        "time": time,
        "time_low": maximum(time * k.low - (1 - UNMEASURED[0]) * of_adapters, total),
        "time_high": time * k.high + (UNMEASURED[1] - 1) * of_adapters,
        "lost": losses_by_name,
    }


def ranged(step: Estimate, k: Losses, phase: str) -> Estimate:
    """A pass by losses that differ from its own in their correction and range alone, without computing it again.

    Not of passes with adapters, drafts or an encoder, whose parts are corrected each by itself.
    """
    losses_by_name = {name: seconds for name, seconds in step.lost.items() if name != CORRECTION}
    return replace(step, **times_with(k, phase, step.time_ideal, losses_by_name))
