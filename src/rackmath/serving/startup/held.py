"""Sequences that an engine's memory holds at once, by its own account of a start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import floor

import numpy as np
from numpy.typing import NDArray

from rackmath.engine.capacity import largest_batch
from rackmath.engine.layout import Layout, stack_layouts
from rackmath.engine.sharding import USABLE, memory
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.serving.startup.memory import EngineStart, placed, start
from rackmath.serving.startup.resident import Resident
from rackmath.serving.startup.rules import is_known, launch_fraction

_STEP = 1.0
"""Tokens of a sequence that a decode step has in flight. [tokens]"""


def sequences_held(
    architecture: Architecture,
    system: System,
    layout: Layout,
    server: EngineStart,
    context: float,
    placement: Resident | None = None,
) -> float:
    """Sequences of ``context`` tokens that one replica holds at once; 0 where nothing is left for a cache. [sequences]

    Parameters
    ----------
    layout : Layout
        Of plain integers.
    server : EngineStart
        How its engine is started.
    context : float
        Tokens that a sequence holds. [tokens]
    placement : Resident, optional
        As of :func:`~rackmath.serving.startup.memory.start`.

    Over all data-parallel groups. Prompts have been read: windows hold what a decode step needs. Of engines whose start
    nobody has read, and where accelerators hold experts only, :func:`~rackmath.engine.capacity.largest_batch` counts.
    """
    if not is_known(server.family) or layout.ffn:
        tokens = server.tokens or _STEP
        return float(largest_batch(architecture, system, layout, context=context, tokens=tokens, draft=server.draft))
    account = start(architecture, system.chip, layout, server, placement)
    per_sequence = max(account.blocks.per_sequence(context, _STEP), 1.0)
    return float(layout.data) * floor(account.count[0] / per_sequence)


def held_as_launched(
    architecture: Architecture,
    system: System,
    layouts: Sequence[Layout],
    budgets: Sequence[float],
    server: EngineStart,
    context: float,
) -> NDArray[np.float64]:
    """Sequences that replicas hold which launch lines start, by layout and budget. (layouts, budgets) [sequences]

    Parameters
    ----------
    budgets : sequence of float
        Tokens of one pass. [tokens]
    server : EngineStart
        How engines are started, but for their part of the memory and their budget; of no family where the bound is
        asked for.

    Raises what :func:`sequences_held` raises.
    """
    wide, tokens = stack_layouts(layouts, 2), np.array(budgets, dtype=float)
    shape = len(layouts), len(tokens)
    if not is_known(server.family):
        sequences = largest_batch(architecture, system, wide, context=context, tokens=tokens, draft=server.draft)
        return np.broadcast_to(np.asarray(sequences, dtype=float), shape)
    result = np.zeros(shape)
    parts = launched_parts(architecture, system, layouts, budgets, server.family)
    placements: dict[tuple[object, ...], Resident] = {}
    of_group: dict[tuple[object, ...], float] = {}
    for i, layout in enumerate(layouts):
        # Accelerators of replicas that differ in their data-parallel groups alone hold the same each.
        shape_of_group = layout.tensor, layout.expert, layout.pipeline, layout.context_parallel, layout.ffn
        if shape_of_group not in placements:
            placements[shape_of_group] = placed(architecture, system.chip, layout, server)
        for k, fraction in enumerate(parts[i].tolist()):
            if not 0 < fraction < 1:
                continue
            key = *shape_of_group, fraction, k, layout.data if layout.ffn else 0
            if key not in of_group:
                launch = replace(server, fraction=fraction, tokens=float(tokens[k]))
                sequences = sequences_held(architecture, system, layout, launch, context, placements[shape_of_group])
                of_group[key] = sequences / float(layout.data)
            result[i, k] = float(layout.data) * of_group[key]
    return result


def launched_parts(
    architecture: Architecture, system: System, layouts: Sequence[Layout], budgets: Sequence[float], family: str
) -> NDArray[np.float64]:
    """What launch lines of plans say of an engine's part of the memory, by layout and budget. (layouts, budgets) [1]"""
    weights, activations = memory_shares(architecture, system, layouts, budgets)
    parts = np.empty(weights.shape)
    for at in np.ndindex(parts.shape):
        parts[at] = launch_fraction(family, USABLE, float(weights[at]), float(activations[at]))
    return parts


def memory_shares(
    architecture: Architecture, system: System, layouts: Sequence[Layout], budgets: Sequence[float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights and activations as parts of an accelerator's memory, by layout and budget. (layouts, budgets) [1]"""
    tokens = np.array(budgets, dtype=float)
    account = memory(architecture, stack_layouts(layouts, 2), 0.0, 1.0, tokens, system.chip.memory_capacity)
    shape = len(layouts), len(tokens)
    return (
        np.broadcast_to(np.asarray(account.weights) / account.capacity, shape),
        np.broadcast_to(np.asarray(account.activations) / account.capacity, shape),
    )
