"""Layouts that one worker may have: which numbers of accelerators, and which layouts of them hold the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rackmath.engine import Layout
from rackmath.engine.layout import context_widths, divisors
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.serving.engines import engine_layouts, most_sequences
from rackmath.serving.points import Array
from rackmath.serving.startup.held import held_as_launched
from rackmath.serving.workload import PlanWorkload, Space


def worker_sizes(gpus: int, system: System) -> list[int]:
    """Accelerators of one worker: parts of the budget and powers of two; beyond one scale-up domain, whole domains.

    A part of the budget that would leave another domain half used is no size; the budget itself is. Workers of a system
    without a network between domains stay within one.
    """
    most = gpus if system.scale_out is not None else min(gpus, system.domain)
    parts = (size for size in divisors(gpus) if size <= system.domain or size % system.domain == 0 or size == gpus)
    powers = (2**k for k in range(gpus.bit_length()))
    return sorted(size for size in {*parts, *powers} if size <= most)


def layouts_that_hold(
    architecture: Architecture, system: System, work: PlanWorkload, space: Space
) -> tuple[list[Layout], Array]:
    """Layouts of one worker that divide the budget and hold the model with one request, and what they hold.

    Requests are counted by layout and budget of tokens. (layouts, chunks) Workers of more accelerators than the largest
    unit are tried where no smaller one holds the model.
    """
    sizes = worker_sizes(space.gpus, system)
    layouts, sequences = _that_hold([g for g in sizes if g <= space.largest_unit], architecture, work, space, system)
    if layouts:
        return layouts, sequences
    return _that_hold([g for g in sizes if g > space.largest_unit], architecture, work, space, system)


def _that_hold(
    sizes: list[int], architecture: Architecture, work: PlanWorkload, space: Space, system: System
) -> tuple[list[Layout], Array]:
    """Layouts of workers of some sizes that hold the model with one request, and the requests that they hold."""
    layouts: list[Layout] = []
    for gpus in sizes:
        for layout in engine_layouts(architecture, gpus, space.engine):
            layouts += [
                replace(layout, context_parallel=context_parallel)
                for context_parallel in context_widths(layout, architecture)
            ]
    if not layouts:
        return [], np.zeros((0, len(space.chunks)))
    room = held_as_launched(architecture, system, layouts, space.chunks, space.server, work.input + work.output)
    sequences = np.minimum(room, most_sequences(space.engine))
    fits = np.flatnonzero(sequences.max(axis=1) >= np.array([float(layout.data) for layout in layouts]))
    return [layouts[int(i)] for i in fits], sequences[fits]
