"""How a replica fills its steps: what a request asks, else what its engine does."""

from __future__ import annotations

from math import inf

from rackmath.api.drafts import Drafting
from rackmath.api.lists import numbers
from rackmath.api.simulation.request import SimulateRequest
from rackmath.engine.layout import Layout
from rackmath.errors import InputError
from rackmath.hardware import Chip, System
from rackmath.models.architecture import Architecture
from rackmath.serving import Scheduling
from rackmath.serving.engines import (
    default_max_num_batched_tokens,
    default_max_num_seqs,
    micro_batch_sequences,
    micro_batch_tokens,
)
from rackmath.serving.prompts import turns_of
from rackmath.serving.simulator.settings import Batching
from rackmath.serving.waits import started

_GATHERED = ("static", "fixed-interval")
"""Policies under which the scheduler says when a batch begins, whoever has come."""
_UNBOUNDED = 4096.0
"""Sequences in a step where an engine sets no bound but its memory: the most that SGLang takes. [sequences]"""


def batching_of(
    r: SimulateRequest,
    architecture: Architecture,
    system: System,
    layout: Layout,
    scheduling: Scheduling | None,
    drafts: Drafting,
) -> Batching:
    """How a replica fills its steps; its memory is known when it is deployed."""
    tokens, share = max_num_batched_tokens_of(r, system.chip), 1.0
    turns = int(turns_of(layout.pipeline, micro_batch_tokens(r.engine)))
    if scheduling is not None:
        share = 1 + float(scheduling.lockstep) * (int(layout.data) - 1)
    return Batching(
        policy=r.scheduler.policy,
        preemption=r.scheduler.preemption,
        max_num_batched_tokens=tokens,
        max_num_seqs=micro_batch_sequences(r.engine, _max_num_seqs(r, system.chip, drafts.draft_tokens, tokens), turns),
        queue_limit=r.max_queued_requests,
        block=r.scheduler.block,
        ahead=_ahead(r, scheduling),
        looks=r.scheduler_recv_interval,
        scheduling=r.scheduling_policy,
        class_weights=tuple(numbers(r.class_weights, "--class-weights", 1e-6, 1e6)),
        draft_tokens=drafts.draft_tokens,
        acceptance=drafts.chances,
        share=share,
        start=0.0 if scheduling is None else float(started(0.0, architecture, scheduling, inf)),
        captured=0 if scheduling is None else int(scheduling.captured),
        start_captured=0.0 if scheduling is None else float(started(0.0, architecture, scheduling, 1.0)),
        outside=0.0 if scheduling is None else float(scheduling.arrival),
        frontend=_frontend(r, scheduling),
        reception=0.0 if scheduling is None else float(scheduling.reception),
        period=r.period,
    )


def max_num_batched_tokens_of(r: SimulateRequest, chip: Chip) -> int:
    """Tokens of one step, by default the engine's own. [tokens]"""
    if r.max_num_batched_tokens is not None:
        return r.max_num_batched_tokens
    return int(default_max_num_batched_tokens(r.engine, chip))


def _max_num_seqs(r: SimulateRequest, chip: Chip, draft_tokens: int, tokens: int) -> int:
    """Sequences of a step at most; those that the engine itself takes are no more than the step has tokens for."""
    if r.max_num_seqs is not None:
        return r.max_num_seqs
    return max(int(min(default_max_num_seqs(r.engine, chip), _UNBOUNDED, tokens / (1 + draft_tokens))), 1)


def _frontend(r: SimulateRequest, scheduling: Scheduling | None) -> float:
    """Time of a request in the server's one process; none where batches wait for their last ones or for a timetable."""
    return 0.0 if scheduling is None or r.scheduler.policy in _GATHERED else float(scheduling.frontend)


def _ahead(r: SimulateRequest, scheduling: Scheduling | None) -> bool:
    """Whether steps are scheduled when the ones before begin: as asked, else as the engine does that forms batches."""
    if r.async_scheduling and r.no_async_scheduling:
        raise InputError("--async-scheduling", "with --no-async-scheduling", "write one of them")
    engine_default = scheduling is not None and bool(scheduling.ahead) and r.scheduler.policy not in _GATHERED
    return r.async_scheduling or (engine_default and not r.no_async_scheduling)
