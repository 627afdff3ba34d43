"""A training run: memory of every accelerator, time of a step, the best layout, days."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from rackmath.engine import Layout
from rackmath.engine.layout import expert_count, head_count, stack_layouts
from rackmath.engine.sharding import USABLE, memory
from rackmath.engine.timer import Timer
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.counts import total_params
from rackmath.models.formats import BF16
from rackmath.models.operators import Pass, operators
from rackmath.models.requantise import requantise
from rackmath.training.activations import kept, repeated
from rackmath.training.throughput import TrainingRun, step_time

Array = NDArray[np.float64]

SHARDED = ("none", "optimizer", "gradients", "all")
"""What data-parallel ranks share: nothing, ZeRO 1, ZeRO 2, ZeRO 3 or FSDP."""
_WEIGHT, _GRADIENT, _STATES = 2.0, 4.0, 12.0
"""Bytes per parameter: weight at 16 bit; gradient; 32-bit weight and two moments. Source: Megatron's 18 in all."""
INTERRUPTIONS = 419 / (54 * 86_400 * 16_384)
"""Of one accelerator. [1/s] Source: Llama 3, arXiv:2407.21783: 419 unexpected ones in 54 days on 16,384 H100."""
_GATHERED = 2.0
"""Layers whose shared weights are whole at a time: the one in work, and the next."""
_SHORTEST = 4096.0
"""Tokens of a sequence below which ranks do not share it. [tokens]"""
_MICRO = (1.0, 2.0, 4.0, 8.0)
_CHUNKS = (1, 2, 4, 8)
_MOST_STAGES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What is trained, apart from how it is spread."""

    sequences: float
    """Global batch. [sequences]"""
    length: float
    """[tokens]"""
    recompute: tuple[str, ...] = ("none", "selective", "full")
    """Ways that may be chosen."""
    sharded: tuple[str, ...] = ("optimizer", "all")


def divisible(sequences: float) -> float:
    """The nearest number of sequences that ranks divide: four to eight times a power of two, or one to seven."""
    scale = 2.0 ** max(int(np.log2(max(sequences, 1.0))) - 2, 0)
    return max(float(round(sequences / scale)) * scale, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingMemory:
    """Of the fullest accelerator, by part; numbers broadcast. [B]"""

    weights: Array
    gradients: Array
    optimizer: Array
    activations: Array
    logits: Array
    capacity: float

    @property
    def total(self) -> Array:
        """Sum of all parts."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.logits

    @property
    def fits(self) -> NDArray[np.bool_]:
        """Whether the sum stays within the usable part of the memory."""
        return self.total <= USABLE * self.capacity


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Options:
    """Ways to spread a run, as columns. (options,)"""

    layouts: list[Layout]
    context: Array
    """Ranks that share one sequence."""
    microbatch: Array
    chunks: Array
    recompute: list[str]
    sharded: list[str]

    def __len__(self) -> int:
        return len(self.layouts)


def training_memory(architecture: Architecture, system: System, options: Options, recipe: Recipe) -> TrainingMemory:
    """Memory of the fullest accelerator for each option.

    Weights and gradients lie on their ranks; what is shared is divided over all accelerators, and of shared
    weights the layer in work and the next are gathered. The first stage of 1F1B holds as many micro-batches as there
    are stages, interleaved ones a little more; sequence parallelism divides activations over tensor-parallel ranks,
    context parallelism over those that share a sequence. The last stage holds the logits of one micro-batch, at 32
    bit, and their gradients.
    """
    plain = requantise(architecture, weights=BF16)
    spread = stack_layouts(options.layouts)
    held = memory(plain, spread, 0.0, 0.0, 0.0, system.chip.memory_capacity).weights / _WEIGHT
    params = np.broadcast_to(np.asarray(held, dtype=float), (len(options),))
    gpus = np.array([float(layout.gpus) for layout in options.layouts]) * options.context
    even = total_params(architecture) / gpus
    shared = np.array([SHARDED.index(sharding) for sharding in options.sharded])
    tokens = options.microbatch * recipe.length / spread.tensor / options.context
    micro = np.maximum(recipe.sequences / (options.microbatch * spread.data), 1.0)
    ways = {way: kept(plain, way) for way in set(options.recompute)}
    waiting, working = np.array([ways[way] for way in options.recompute]).T
    stages = np.asarray(spread.pipeline, dtype=float)
    flights = np.minimum(stages, micro) / stages
    flights = flights * np.where(options.chunks > 1, 1 + (stages - 1) / (stages * options.chunks), 1.0)
    return TrainingMemory(
        weights=_WEIGHT * np.where(shared >= 3, even + _GATHERED * params * stages / len(plain.layers), params),
        gradients=_GRADIENT * np.where(shared >= 2, even, params),
        optimizer=_STATES * np.where(shared >= 1, even, params),
        activations=tokens * (waiting * flights + working),
        logits=tokens * (architecture.vocabulary if architecture.head else 0.0) * 8.0,
        capacity=system.chip.memory_capacity,
    )


def all_options(architecture: Architecture, system: System, gpus: int, recipe: Recipe) -> Options:
    """Every sensible way to spread a run.

    Errors: :class:`InputError` where nothing divides.
    """
    options = options_of(architecture, list(_layouts(architecture, system, gpus, recipe.length)), recipe)
    if not len(options):
        raise InputError("--gpus", gpus, f"no layout divides {architecture.name} and {recipe.sequences:g} sequences")
    return options


def options_of(architecture: Architecture, layouts: list[tuple[Layout, int]], recipe: Recipe) -> Options:
    """Every micro-batch, number of chunks, recomputation and sharing that divides the batch.

    ``layouts`` come with the ranks that share one sequence, beside those of the layout.
    """
    columns = [
        (layout, context, micro, chunks, way, shared)
        for layout, context in layouts
        for micro in _MICRO
        for chunks in _CHUNKS
        if _divides(architecture, layout, recipe.sequences / float(layout.data) / micro, chunks)
        for way in recipe.recompute
        for shared in recipe.sharded
        # Weights that are gathered for every micro-batch of every stage cost more than they save.
        if shared != "all" or layout.pipeline == 1 or len(recipe.sharded) == 1
    ]
    return Options(
        layouts=[column[0] for column in columns],
        context=np.array([float(column[1]) for column in columns]),
        microbatch=np.array([column[2] for column in columns]),
        chunks=np.array([float(column[3]) for column in columns]),
        recompute=[column[4] for column in columns],
        sharded=[column[5] for column in columns],
    )


def _divides(architecture: Architecture, layout: Layout, microbatches: float, chunks: int) -> bool:
    """Whether so many micro-batches are whole, and stages deep enough for so many chunks."""
    if microbatches < 1 or microbatches % 1:
        return False
    stages = int(layout.pipeline)
    return chunks == 1 or (stages > 1 and len(architecture.layers) >= stages * chunks and microbatches >= stages)


def step_times(
    architecture: Architecture, system: System, options: Options, recipe: Recipe, timer: Timer, exposed: float
) -> Array:
    """Time of a step of each option. (options,) [s]"""
    again = {way: repeated(architecture, way, recipe.length) for way in set(options.recompute)}
    run = TrainingRun(
        layout=stack_layouts(options.layouts),
        context=options.context,
        chunks=options.chunks,
        microbatch=options.microbatch,
        sequences=recipe.sequences,
        length=recipe.length,
        sharded=np.array([float(sharding == "all") for sharding in options.sharded]),
        recompute=np.array([again[way] for way in options.recompute]),
    )
    times = step_time(architecture, system, run, timer, exposed)
    return np.broadcast_to(np.asarray(times, dtype=float), (len(options),))


def model_flops(architecture: Architecture, length: float) -> float:
    """FLOPs of training per token: three forward passes, causal attention counted once. [FLOP]"""
    work = Pass(phase="train", sequences=1.0, new_tokens=length, context=length)
    return (
        3 * sum(operator.count * float(np.max(operator.flops)) for operator in operators(architecture, work)) / length
    )


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
    lost = (
        (write / interval if interval else 0.0) + interval / 2 / between + restart / between if between < inf else 0.0
    )
    if not lost < 1:
        raise InputError("--restart-time", restart, "failures come faster than the run recovers")
    return Reliability(interval=interval, useful=1 - lost)


def _layouts(architecture: Architecture, system: System, gpus: int, length: float) -> Iterator[tuple[Layout, int]]:
    """Tensor parallelism inside a domain, stages of whole layers, experts spread or not, long sequences shared."""
    experts, heads, layers = expert_count(architecture), head_count(architecture), len(architecture.layers)
    for tensor in _powers(min(system.domain, gpus, 64)):
        if gpus % tensor or (heads is not None and heads % tensor):
            continue
        for context in _powers(max(int(length / _SHORTEST), 1)):
            for pipeline in range(1, min(layers, _MOST_STAGES) + 1):
                if gpus % (tensor * pipeline * context) or (pipeline > 8 and layers % pipeline and pipeline % 4):
                    continue
                data = gpus // tensor // pipeline // context
                for expert in _powers(experts) if experts else (1,):
                    if expert == 1 or (
                        expert % tensor == 0 and (tensor * data) % expert == 0 and experts % expert == 0
                    ):
                        yield Layout(tensor=tensor, expert=expert, pipeline=pipeline, data=data), context


def _powers(most: int) -> list[int]:
    return [2**i for i in range(max(most, 1).bit_length()) if 2**i <= most]
