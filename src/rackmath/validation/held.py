"""Sequences that memory holds in the service of a row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rackmath.engine import Layout
from rackmath.engine.sharding import USABLE
from rackmath.serving.schedulers import scheduler
from rackmath.serving.startup.held import sequences_held
from rackmath.serving.startup.memory import EngineStart
from rackmath.validation.groups import WITHOUT_QUEUES, Array, Group
from rackmath.validation.questions import Question


def held_by(group: Group) -> Array | None:
    """Sequences that one worker's memory holds, for rows of services: no constant moves them. (questions,)"""
    if group.kind in WITHOUT_QUEUES:
        return None
    by_start: dict[tuple[str, EngineStart, float], float] = {}

    # Staggered answers of one length are half written in the mean; those that begin together, and the ages of
    # exponential ones, are whole. So are all where an engine sets room for them aside.
    whole = group.kind == "wave" or scheduler(group.questions[0].row.family).preemption == "reserve"

    def held(q: Question) -> float:
        server, context = _start(q), q.input + max(q.output, 1.0) * (1.0 if whole or q.varied else 0.5)
        place = q.deployment.layout.text(), server, context
        if place not in by_start:
            by_start[place] = _held(group, q.deployment.layout, server, context)
        return by_start[place]

    return np.array([held(q) for q in group.questions])


def _held(group: Group, layout: Layout, server: EngineStart, context: float) -> float:
    """Sequences of one worker; one that would not start by its engine's own part of the memory was given more."""
    sequences = sequences_held(group.architecture, group.system, layout, server, context)
    if sequences or server.fraction is not None:
        return sequences
    return sequences_held(group.architecture, group.system, layout, replace(server, fraction=USABLE), context)


def _start(q: Question) -> EngineStart:
    """How the engine of a row was started."""
    return EngineStart(
        family=q.row.family,
        fraction=q.row.gpu_memory_utilization,
        tokens=q.max_num_batched_tokens,
        sequences=q.row.max_num_seqs,
        graphs=not q.row.flag("eager"),
        speculative=q.draft_tokens > 0,
    )
