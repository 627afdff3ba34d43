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
    k: Losses, phase: str, total: Number, lost: Mapping[str, Number], of_adapters: Number = 0.0
) -> dict[str, Any]:
    """Time of a pass, the ends of its range, and what is lost of it, as fields of an ``Estimate``.

    Parameters
    ----------
    total : Number
        The ideal time, which nothing comes below. [s]
    lost : mapping
        Seconds beyond it by cause, without a correction. [s]
    of_adapters : Number
        Part of the time that adapters take, which nobody measured. [s]
    """
    time = total + sum(lost.values(), 0.0)
    if phase in k.correction:
        corrected = maximum(time * k.correction[phase], total)
        lost, time = {**lost, CORRECTION: corrected - time}, corrected
    return {
        "time": time,
        "time_low": maximum(time * k.low - (1 - UNMEASURED[0]) * of_adapters, total),
        "time_high": time * k.high + (UNMEASURED[1] - 1) * of_adapters,
        "lost": lost,
    }


def ranged(step: Estimate, k: Losses, phase: str) -> Estimate:
    """A pass by losses that differ from its own in their correction and range alone, without computing it again.

    Not of passes with adapters, drafts or an encoder, whose parts are corrected each by itself.
    """
    lost = {name: seconds for name, seconds in step.lost.items() if name != CORRECTION}
    return replace(step, **times_with(k, phase, step.time_ideal, lost))
