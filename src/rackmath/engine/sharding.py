"""Shares of operators and of memory that fall on the busiest accelerator of a layout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rackmath.engine.layout import Layout
from rackmath.models.adapter_weights import adapter_weights
from rackmath.models.adapters import Adapters
from rackmath.models.architecture import Architecture, Layer, Weight
from rackmath.models.cache import layer_caches, stored_bytes
from rackmath.models.counts import encoder_params, tensor_bytes, weight_format_of
from rackmath.models.formats import BF16
from rackmath.models.numbers import Number, above_one, ceiling, maximum, minimum
from rackmath.models.operator import Operator
from rackmath.models.weights import cache_parts, layer_weights, model_weights, weight_parts

USABLE = 0.95
"""Part of the printed capacity that weights, cache and activations may fill.

Printed gigabytes are gibibytes, 7 % more (81,559 MiB on an H100 80GB); engines take 0.9 of those (vLLM's
``gpu_memory_utilization``) and keep one or two of them for graphs and collectives.
"""

_LIVE = 8
"""Hidden-wide activations alive at once per token, in units of the hidden width."""


def share(parts: int | None, ranks: Number) -> Number:
    """Part of a divided thing on the busiest of ``ranks``: ``ceil(parts / ranks) / parts``. [1]

    With ``parts`` None any number of ranks gets an equal part.
    """
    if parts is None:
        return 1 / ranks
    return ceiling(parts / ranks) / parts


def split_share(split: str, parts: int | None, layout: Layout) -> Number:
    """Part of a tensor, of its products and of its traffic on one rank. [1]"""
    match split:
        case "none":
            return 1.0
        case "experts":
            return share(parts, layout.expert) / layout.expert_slices
        case _:
            return share(parts, layout.tensor)


def cache_share(parts: int | None, layout: Layout) -> Number:
    """Part of a cache on one rank: 0 parts means that every rank holds all of it. [1]

    Ranks that would hold copies share them by tokens, as many as are context-parallel.
    """
    if parts is None:
        return share(None, layout.tensor)
    copies = layout.tensor if parts == 0 else maximum(layout.tensor / parts, 1.0)
    share_of_rank = 1.0 if parts == 0 else share(parts, layout.tensor)
    return share_of_rank / minimum(layout.context_parallel, copies)


def operator_share(operator: Operator, layout: Layout) -> tuple[Number, Number]:
    """Parts of an operator's work and of its cache traffic on one rank. [1]"""
    work = split_share(operator.split, operator.parts, layout)
    return work, cache_share(operator.cache_split, layout)


def stage_share(architecture: Architecture, layout: Layout) -> Number:
    """Part of the layers in the longest pipeline stage. [1]"""
    return share(len(architecture.layers), layout.pipeline)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Memory:
    """Bytes on the fullest accelerator. [B]"""

    weights: Number
    cache: Number
    activations: Number
    capacity: float
    experts: Number = 0.0
    """Weights and activations on accelerators that hold experts only, which are none of the other parts."""

    @property
    def total(self) -> Number:
        """Sum of all parts of one accelerator: the fuller of those that hold caches and those that hold experts. [B]"""
        return maximum(self.weights + self.cache + self.activations, self.experts)

    @property
    def fits(self) -> bool | NDArray[np.bool_]:
        """Whether the sum stays within the usable part of the memory."""
        return self.total <= USABLE * self.capacity


def memory(
    architecture: Architecture, layout: Layout, sequences: Number, context: Number, tokens: Number, capacity: float
) -> Memory:
    """Memory by kind on the fullest accelerator.

    Parameters
    ----------
    sequences : Number
        Sequences that one data-parallel group keeps. [sequences]
    context : Number
        Tokens that each of them holds. [tokens]
    tokens : Number
        Tokens in one pass through one stage. [tokens]
    capacity : float
        Memory of one accelerator. [B]
    """
    in_stage = stage_share(architecture, layout)
    weights = _outside_weights(architecture, layout)
    experts: Number = 0.0
    for layer, count in architecture.groups:
        for role, part in _owned_bytes(architecture, layer, layout):
            size = count * in_stage * part
            apart_share = layout.apart if role == "experts" else 0.0
            weights, experts = weights + (1 - apart_share) * size, experts + apart_share * size
    if architecture.adapters is not None:
        weights = weights + architecture.adapters.resident * adapter_bytes(architecture, architecture.adapters, layout)
    if architecture.images is not None:
        encoder = encoder_params(architecture) * BF16.bytes_per_element
        weights = weights + (encoder if architecture.images.tp_mode == "data" else encoder / layout.tensor)
    cache_bytes = sum(
        (
            count
            * cache_share(cache_parts(mixer), layout)
            * stored_bytes(cache, context, architecture.cache_format, architecture.state_format)
            for mixer, cache, count in layer_caches(architecture)
        ),
        0.0,
    )
    live = tokens * architecture.hidden * architecture.residual_streams * _LIVE * 2
    logits = sequences * architecture.vocabulary * 4 / layout.tensor if architecture.head else 0.0
    return Memory(
        weights=weights,
        cache=in_stage * sequences * cache_bytes,
        activations=live + logits if architecture.vocabulary else 0.0 * tokens,
        capacity=capacity,
        experts=experts + layout.apart * live * layout.data / maximum(layout.ffn, 1.0),
    )


def expert_bytes(architecture: Architecture, layer: Layer, layout: Layout) -> Number:
    """Weights of the routed experts of one layer on the fullest rank. [B]"""
    return sum((part for role, part in _owned_bytes(architecture, layer, layout) if role == "experts"), 0.0)


def _owned_bytes(architecture: Architecture, layer: Layer, layout: Layout) -> Iterator[tuple[str, Number]]:
    """Role and bytes on the fullest rank of each weight that a layer owns."""
    for weight in layer_weights(layer, architecture.hidden):
        if weight.owned:
            yield weight.role, _weight_on_rank(architecture, layer, weight, layout)


def adapter_bytes(architecture: Architecture, adapters: Adapters, layout: Layout) -> Number:
    """Bytes of one low-rank adapter on the fullest accelerator, at 16 bit. [B]"""
    size: Number = 0.0
    for layer, count in architecture.groups:
        for weight, a, b in adapter_weights(layer, architecture.hidden, adapters):
            parts = weight_parts(layer, weight)
            for matrix in (a, b):
                size = size + count * tensor_bytes(matrix, BF16) * split_share(matrix.split, parts, layout)
    return size * stage_share(architecture, layout)


def _weight_on_rank(architecture: Architecture, layer: Layer | None, weight: Weight, layout: Layout) -> Number:
    size = tensor_bytes(weight, weight_format_of(architecture, layer, weight))
    parts = None if layer is None else weight_parts(layer, weight)
    routing = architecture.routing
    if weight.role == "experts" and parts is not None and routing is not None and routing.redundant:
        copies = ceiling((parts + above_one(layout.expert) * routing.redundant) / layout.expert)
        return size * copies / parts / layout.expert_slices
    return size * split_share(weight.split, parts, layout)


def _outside_weights(architecture: Architecture, layout: Layout) -> Number:
    """Weights outside of layers on the fuller of the first and the last stage. [B]"""
    first, last = outside_bytes(architecture, layout)
    return maximum(first, last)


def outside_bytes(architecture: Architecture, layout: Layout) -> tuple[Number, Number]:
    """Weights outside of layers on one rank of the first stage and of the last. [B], [B]

    The embedding stands on the first, the head on the last; where both are one stage, it has both. A tied head reads
    the embedding where it stands; on another stage it needs a copy.
    """
    first: Number = 0.0
    last: Number = 0.0
    replica_bytes: Number = 0.0
    for weight in model_weights(architecture):
        size = _weight_on_rank(architecture, None, weight, layout)
        if weight.role not in ("head", "norm"):
            first = first + size
        elif weight.owned:
            last = last + size
        else:
            replica_bytes = replica_bytes + size
    has_stages = above_one(layout.pipeline)
    together = (first + last) * (1 - has_stages)
    return together + first * has_stages, together + (last + replica_bytes) * has_stages
