"""Ways to spread a training run: layouts, micro-batches, chunks, recomputation and sharing, as columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rackmath.engine import Layout
from rackmath.engine.layout import expert_count, head_count
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.formats import BF16, Format

Array = NDArray[np.float64]

SHARDED = ("none", "optimizer", "gradients", "all")
"""What data-parallel ranks share: nothing, ZeRO 1, ZeRO 2, ZeRO 3 or FSDP."""
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
    stored: Format = BF16
    """How weights lie in memory; narrower than 16 bit only where they are frozen."""


def divisible(sequences: float) -> float:
    """The nearest number of sequences that ranks divide: four to eight times a power of two, or one to seven."""
    scale = 2.0 ** max(int(np.log2(max(sequences, 1.0))) - 2, 0)
    return max(float(round(sequences / scale)) * scale, 1.0)


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
        (layout, context, micro, chunks, way, sharding)
        for layout, context in layouts
        for micro in _MICRO
        for chunks in _CHUNKS
        if _divides(architecture, layout, recipe.sequences / float(layout.data) / micro, chunks)
        for way in recipe.recompute
        for sharding in recipe.sharded
        # Weights that are gathered for every micro-batch of every stage cost more than they save.
        if sharding != "all" or layout.pipeline == 1 or len(recipe.sharded) == 1
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
    return [2**i for i in range(max(most, 1).bit_length())]
