"""Time of one optimizer step from the engine's forward pass.

A step runs its micro-batches through the pipeline forward and backward, exchanges
gradients and weights between data-parallel ranks, and updates the weights.
"""

from __future__ import annotations

from dataclasses import dataclass

from rackmath.engine import Layout
from rackmath.engine.collectives import all_gather
from rackmath.engine.layout import as_floats
from rackmath.engine.sharding import memory
from rackmath.engine.timer import Timer
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.cache import kv_bytes_per_token
from rackmath.models.formats import BF16
from rackmath.models.numbers import Number, maximum

BACKWARD = 2.0
"""Backward over forward: gradients of inputs and of weights, one product each."""

_STATE_BYTES = 20.0
"""Optimizer traffic per parameter: master weight and two moments read and written, gradient, copy. [B]"""

_GRADIENT_BYTES = 4.0
"""Gradients are summed in 32 bit. [B]"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingRun:
    """How a training step is spread and cut; numbers broadcast."""

    layout: Layout
    """Widths; ``data`` counts ranks that hold different sequences."""
    context: Number = 1.0
    """Ranks that share one sequence (context parallelism)."""
    chunks: Number = 1.0
    """Model chunks per stage (interleaved or virtual pipeline)."""
    microbatch: Number = 1.0
    """Sequences in one pass of one data-parallel rank. [sequences]"""
    sequences: Number = 1.0
    """Global batch. [sequences]"""
    length: Number = 4096.0
    """Tokens of a sequence. [tokens]"""
    sharded: Number = 0.0
    """1 where weights are gathered for every micro-batch (FSDP, ZeRO-3), else 0."""
    recompute: Number = 0.0
    """Part of the forward pass that is run again in the backward one. [1]"""
    frozen_part: Number = 0.0
    """FLOPs of products with weights that get no gradients (adapters), over those of a forward pass. [1]"""
    trained_part: Number = 1.0
    """Parameters with gradients, over all. [1]"""
    expansion: Number = 0.0
    """Time of expanding narrow weights before each product, over that of reading them at 16 bit. [1]"""


def step_time(
    architecture: Architecture, system: System, run: TrainingRun, timer: Timer, exposed_share: Number = 0.0
) -> Number:
    r"""Time of one optimizer step. [s]

    .. math:: t = (3 + r - z) \frac{F}{p} \left(m + \frac{p - 1}{v}\right) + D + U

    with F the forward pass of a micro-batch, r what is recomputed, z the part of it that is products with frozen
    weights (whose own gradients are not computed), p stages, m micro-batches, v chunks per stage, D the part of the
    data-parallel exchange that is not hidden, U the update. Ranks that share a sequence
    gather each other's keys and values, and return their gradients, in the same exchange.

    Parameters
    ----------
    timer : Timer
        Time of a forward pass in the phase train.
    exposed_share : Number
        Part of the data-parallel exchange that computation never hides. [1]

    Source: Narayanan et al. 2021 (bubble of the interleaved schedule).
    """
    layout = as_floats(run.layout)
    forward = timer("train", layout, run.microbatch * layout.data / run.context, run.length, 0.0)
    microbatches = maximum(run.sequences / (run.microbatch * layout.data), 1.0)
    weights = memory(architecture, layout, 0.0, 0.0, 0.0, system.chip.memory_capacity).weights
    stage = (1 + BACKWARD - run.frozen_part + run.recompute) * forward / layout.pipeline
    # Of frozen weights backward passes need one product instead of two.
    stage = stage + (2 + run.recompute) * run.expansion * weights / system.chip.memory_bandwidth
    compute = stage * (microbatches + (layout.pipeline - 1) / run.chunks)
    ranks = layout.data * run.context
    gather_time = all_gather(weights, ranks, system)
    # Sharded weights travel twice and their gradients once per micro-batch; else once per step.
    passes = run.sharded * (2 + run.trained_part) * microbatches
    passes = passes + (1 - run.sharded) * run.trained_part * (1 + _GRADIENT_BYTES / 2)
    exchange = passes * gather_time + microbatches * _ring(architecture, system, run, layout)
    hidden = maximum(exchange - compute, exposed_share * exchange)
    update = run.trained_part * _STATE_BYTES / 2 * weights / ranks / system.chip.memory_bandwidth
    return compute + hidden + update


def _ring(architecture: Architecture, system: System, run: TrainingRun, layout: Layout) -> Number:
    """Keys and values of a micro-batch to the ranks that share its sequences, twice, and their gradients back. [s]"""
    entries = kv_bytes_per_token(architecture, BF16) * run.microbatch * run.length
    return 3 * all_gather(entries / layout.tensor / layout.pipeline, run.context, system)


def tokens_per_second(run: TrainingRun, step: Number) -> Number:
    """Tokens that a run trains on per second, all ranks. [tokens/s]"""
    return run.sequences * run.length / step
