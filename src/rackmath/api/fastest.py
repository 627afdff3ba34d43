"""The layout of one pass where the request leaves it open."""

from __future__ import annotations

from typing import Any

import numpy as np

from rackmath.engine import Estimate, Layout
from rackmath.engine import estimate as evaluate
from rackmath.engine.layout import stack_layouts
from rackmath.errors import DoesNotFit
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.serving.engines import deals_layers, engine_layout, engine_layouts, layout_notes


def fastest_layout(
    a: Architecture, system: System, gpus: int | None, text: str | None, family: str, settings: dict[str, Any]
) -> tuple[Layout, tuple[str, ...], Estimate | None]:
    """Take the layout that was asked for, or the fastest of all that an engine has and that fit; and what to say of it.

    The pass is there as well where there was one layout to look at, and nothing is encoded before it.

    Errors: :class:`~rackmath.errors.DoesNotFit` where no layout divides the model; :class:`InputError` for one that
    the engine cannot run.
    """
    if text:
        layout = engine_layout(text, gpus, a, family)
        return layout, layout_notes(layout, family), None
    accelerators = gpus or system.default_gpus
    system.require_network(accelerators)
    candidates = engine_layouts(a, accelerators, family)
    if not candidates:
        raise DoesNotFit(
            f"no layout of {accelerators} accelerators divides {a.name}",
            "give --gpus a divisor of its heads or experts",
        )
    alone = len(candidates) == 1
    result = evaluate(a, system, candidates[0] if alone else stack_layouts(candidates), **settings)
    time, fits, total = (
        np.broadcast_to(np.asarray(value), len(candidates))
        for value in (result.time, result.memory.fits, result.memory.total)
    )
    many = len(candidates)
    if alone and accelerators > 1 and deals_layers(family):
        best = candidates[0]
        note = f"layout {best.text()}: {family} puts whole layers on each accelerator, which work in turn on a token"
    elif fits.any():
        best = candidates[int(np.argmin(np.where(fits, time, np.inf)))]
        note = f"layout {best.text()}: the fastest of {int(fits.sum())} that fit, of {many} considered"
    else:
        best = candidates[int(np.argmin(total))]
        note = f"layout {best.text()}: none of {many} fits, this one needs least memory"
    return best, (note,), result if alone and a.images is None else None
