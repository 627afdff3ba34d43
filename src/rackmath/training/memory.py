"""Memory of every accelerator of a training run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rackmath.engine.layout import stack_layouts
from rackmath.engine.sharding import USABLE, adapter_bytes, memory
from rackmath.hardware import System
from rackmath.models.adapter_weights import adapter_params
from rackmath.models.architecture import Architecture
from rackmath.models.counts import total_params, weight_bytes
from rackmath.models.formats import BF16
from rackmath.models.requantise import requantise
from rackmath.training.activations import kept
from rackmath.training.options import SHARDED, Options, Recipe

Array = NDArray[np.float64]

_WEIGHT, _GRADIENT, _STATES = 2.0, 4.0, 12.0
"""Bytes per parameter: weight at 16 bit; gradient; 32-bit weight and two moments. Source: Megatron's 18 in all."""
_GATHERED = 2.0
"""Layers whose shared weights are whole at a time: the one in work, and the next."""


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


def _trained(architecture: Architecture, options: Options, weights: Array, gpus: Array) -> tuple[Array, Array]:
    """Parameters with gradients on the fullest accelerator, and with them divided over all. (options,)"""
    adapters = architecture.adapters
    if adapters is None:
        return weights / _WEIGHT, total_params(architecture) / gpus
    parameters = adapter_bytes(architecture, adapters, stack_layouts(options.layouts)) / BF16.bytes_per_element
    per_gpu = np.broadcast_to(np.asarray(parameters, dtype=float), weights.shape)
    return per_gpu, adapter_params(architecture, adapters) / gpus


def training_memory(architecture: Architecture, system: System, options: Options, recipe: Recipe) -> TrainingMemory:
    """Memory of the fullest accelerator for each option.

    Weights and gradients lie on their ranks; what is shared is divided over all accelerators, and of shared
    weights the layer in work and the next are gathered. The first stage of 1F1B holds as many micro-batches as there
    are stages, interleaved ones a little more; sequence parallelism divides activations over tensor-parallel ranks,
    context parallelism over those that share a sequence. The last stage holds the logits of one micro-batch, at 32
    bit, and their gradients.
    """
    plain = replace(requantise(architecture, weights=recipe.stored), adapters=None)
    spread = stack_layouts(options.layouts)
    per_gpu = memory(plain, spread, 0.0, 0.0, 0.0, system.chip.memory_capacity).weights
    weights = np.broadcast_to(np.asarray(per_gpu, dtype=float), (len(options),))
    gpus = np.array([float(layout.gpus) for layout in options.layouts]) * options.context
    params, even = _trained(architecture, options, weights, gpus)
    evenly = sum(weight_bytes(plain).values()) / gpus
    sharding_place = np.array([SHARDED.index(sharding) for sharding in options.sharded])
    tokens = options.microbatch * recipe.length / spread.tensor / options.context
    micro = np.maximum(recipe.sequences / (options.microbatch * spread.data), 1.0)
    ways = {way: kept(plain, way) for way in set(options.recompute)}
    waiting, working = np.array([ways[way] for way in options.recompute]).T
    stages = np.asarray(spread.pipeline, dtype=float)
    flights = np.minimum(stages, micro) / stages
    flights = flights * np.where(options.chunks > 1, 1 + (stages - 1) / (stages * options.chunks), 1.0)
    return TrainingMemory(
        weights=np.where(sharding_place >= 3, evenly + _GATHERED * weights * stages / len(plain.layers), weights)
        + (0.0 if architecture.adapters is None else _WEIGHT * params),
        gradients=_GRADIENT * np.where(sharding_place >= 2, even, params),
        optimizer=_STATES * np.where(sharding_place >= 1, even, params),
        activations=tokens * (waiting * flights + working),
        logits=tokens * (architecture.vocabulary if architecture.head else 0.0) * 8.0,
        capacity=system.chip.memory_capacity,
    )
