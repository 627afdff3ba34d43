"""Weights that stand in the host's memory: what has to move there, and what that costs a step.

The order is llama.cpp's ``--n-cpu-moe`` and ``-ngl``: routed experts of the last layers first, for they are read least,
then whole layers with their caches. The processor multiplies what stands beside it (llama.cpp), or the accelerator
reads it over the link in each step (vLLM's ``--cpu-offload-gb`` with unified addresses). KTransformers and llama.cpp's
``--cpu-moe`` put all routed experts there, whatever fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rackmath.engine.layout import Layout
from rackmath.engine.sharding import USABLE, memory
from rackmath.models.architecture import Architecture, Experts, Layer
from rackmath.models.cache import mixer_cache, stored_bytes
from rackmath.models.counts import tensor_bytes, weight_format_of
from rackmath.models.weights import layer_weights, model_weights

STREAMED = 0.7
"""Part of the bandwidth of the host's memory that a processor reads weights at: an inference. [1]"""
STREAMED_RANGE = (0.28, 0.85)
"""Its range. KTransformers' own figures for DeepSeek-R1 in Q4_K_M, 8.73 tokens/s on one socket of eight channels of
DDR5-4800 and 11.26 on two (doc/en/DeepseekR1_V3_tutorial.md), are 0.42 and 0.29. [1]"""
_HANDED_OVER = 15e-6
"""Time to hand activations to the host or back, for each layer that moved. [s]"""
DESKTOP_BANDWIDTH = 89.6e9
"""Memory bandwidth of a desktop with two channels of DDR5-5600 (2 x 8 B x 5.6 GT/s). [B/s]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offload:
    """What moved to the host."""

    expert_layers: int
    """Layers whose routed experts moved. [layers]"""
    layers: int
    """Layers that moved whole. [layers]"""
    bytes: float
    """Weights and caches in the host's memory. [B]"""
    read: float
    """Bytes of them that a step reads. [B]"""
    read_share: float
    """The same over all that a step reads. [1]"""
    fits: bool
    """Whether the rest fits the accelerators."""

    def time(self, step: float, bandwidth: float) -> float:
        """Time of a step with what moved read at ``bandwidth``, where all of it beside the accelerator takes ``step``.

        The host works while the accelerator waits, as engines do. [s]
        """
        return step * (1 - self.read_share) + self.read / bandwidth + _HANDED_OVER * (self.expert_layers + self.layers)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Move:
    size: float
    read: float
    experts: bool


def offload(
    architecture: Architecture,
    layout: Layout,
    capacity: float,
    *,
    sequences: float,
    context: float,
    all_experts: bool = False,
) -> Offload:
    """Move the least that lets the rest fit, or all routed experts at least.

    Parameters
    ----------
    layout : Layout
        Of plain integers, one data-parallel group.
    capacity : float
        Memory of one accelerator. [B]
    all_experts : bool
        Whether all routed experts move, even where they would fit.
    """
    ranks = float(layout.gpus)
    memory_use = memory(architecture, layout, sequences, context, sequences, capacity)
    excess = (float(memory_use.total) - USABLE * capacity) * ranks
    everything = list(_moves(architecture, sequences, context))
    bytes_read = sum(move.read for move in everything) + _head(architecture)
    moves: list[_Move] = []
    for move in everything:
        if excess <= 0 and not (all_experts and move.experts):
            break
        moves.append(move)
        excess -= move.size
    read_bytes = sum(move.read for move in moves)
    return Offload(
        expert_layers=sum(move.experts for move in moves),
        layers=sum(not move.experts for move in moves),
        bytes=sum(move.size for move in moves),
        read=read_bytes,
        read_share=read_bytes / bytes_read if bytes_read else 0.0,
        fits=excess <= 0,
    )


def _moves(architecture: Architecture, sequences: float, context: float) -> Iterator[_Move]:
    """All that may move, in order: experts from the last layer on, then what is left of the layers."""
    for layer in reversed(architecture.layers):
        size = _bytes(architecture, layer, experts=True)
        if size:
            mixture = next(block for block in layer.feed_forwards if isinstance(block, Experts))
            touched_share = 1 - (1 - mixture.expected_active / mixture.experts) ** sequences
            yield _Move(size=size, read=touched_share * size, experts=True)
    for layer in reversed(architecture.layers):
        weights = _bytes(architecture, layer, experts=False)
        cache = sequences * sum(
            float(stored_bytes(mixer_cache(mixer), context, architecture.cache_format, architecture.state_format))
            for mixer in layer.mixers
        )
        yield _Move(size=weights + cache, read=weights + cache, experts=False)


def _bytes(architecture: Architecture, layer: Layer, *, experts: bool) -> float:
    return sum(
        tensor_bytes(weight, weight_format_of(architecture, layer, weight))
        for weight in layer_weights(layer, architecture.hidden)
        if weight.owned and (weight.role == "experts") == experts
    )


def _head(architecture: Architecture) -> float:
    """Bytes of the output projection, which is read where it stands."""
    return sum(
        tensor_bytes(weight, weight_format_of(architecture, None, weight))
        for weight in model_weights(architecture)
        if weight.role == "head"
    )
