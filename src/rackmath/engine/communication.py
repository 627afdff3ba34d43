"""Seconds that one pass spends in collectives, by layer kind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rackmath.engine.collectives import all_gather, all_reduce, all_to_all, distinct_ranks, domains, many_to_many, send
from rackmath.engine.layout import Layout
from rackmath.engine.sharding import expert_bytes, stage_share
from rackmath.hardware import System
from rackmath.models.architecture import Architecture, Experts, Layer, ParameterTotals
from rackmath.models.counts import weight_format_of
from rackmath.models.mixers import Grouped, Latent, PooledCache
from rackmath.models.numbers import Number, above_one, maximum
from rackmath.models.weights import layer_weights

ACTIVATION_BYTES = 2
"""Activations travel in 16 bit, except what dispatch quantises. [B]"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Communication:
    """Seconds by kind, all layers, one pass."""

    tensor: Number
    """All-reduces of tensor parallelism, and what ranks that share a cache tell each other. [s]"""
    dispatch: Number
    """Tokens to their experts. [s]"""
    combine: Number
    """Results back. [s]"""
    outside: Number
    """Embedding and logits of a split vocabulary. [s]"""
    pipeline: Number
    """Hand-over between all stages, and back to the first. [s]"""
    placement: Number = 0.0
    """One pass's part of moving experts to where their load places them. [s]"""

    @property
    def total(self) -> Number:
        """Sum of all kinds. [s]"""
        return self.tensor + self.dispatch + self.combine + self.outside + self.pipeline + self.placement


def communication(
    architecture: Architecture,
    layout: Layout,
    system: System,
    tokens: Number,
    logit_tokens: Number,
    decode: bool = True,
) -> Communication:
    """Collectives of one pass.

    Parameters
    ----------
    tokens : Number
        New tokens of one data-parallel group in the pass. [tokens]
    logit_tokens : Number
        Positions whose logits are needed, in one group. [tokens]
    decode : bool
        Whether queries meet a cache that context-parallel ranks share.

    Source: architectures.md section 6.
    """
    size = tokens * architecture.hidden * ACTIVATION_BYTES
    tensor: Number = 0.0
    dispatch: Number = 0.0
    combine: Number = 0.0
    spread = maximum(above_one(layout.expert / layout.tensor), layout.apart)
    reduction = all_reduce(size, layout.tensor, system)
    for layer, count in architecture.groups:
        if decode:
            tensor = tensor + count * _shared_attention(layer, layout, system, tokens)
        mixture = next((f for f in layer.feed_forwards if isinstance(f, Experts)), None)
        attention, feed_forward = _reductions(layer)
        if mixture is None:
            tensor = tensor + count * (attention + feed_forward) * reduction
            continue
        inside = feed_forward if not layer.parallel or attention == 0 else 0
        tensor = tensor + count * (attention + inside * (1 - spread)) * reduction
        out, back = _exchange(architecture, layer, mixture, layout, system, tokens)
        regather = all_gather(size, layout.tensor, system)
        dispatch = dispatch + count * spread * out
        combine = combine + count * spread * (back + regather)
    outside: Number = 0.0
    if architecture.head:
        logits = logit_tokens * architecture.vocabulary * ACTIVATION_BYTES
        outside = reduction + all_gather(logits, layout.tensor, system)
    hand_over = size * architecture.residual_streams / layout.tensor
    hops = layout.pipeline * send(hand_over, layout.tensor * layout.data, layout.pipeline, system)
    placement = _placement(architecture, layout, system)
    return Communication(
        tensor=tensor, dispatch=dispatch, combine=combine, outside=outside, pipeline=hops, placement=placement
    )


def _placement(architecture: Architecture, layout: Layout, system: System) -> Number:
    """Time to move all experts of the ranks, spread over the passes from one placement by load to the next. [s]

    An upper bound: experts that stay where they are do not move, and engines may move them beside their steps.
    Source: vLLM's ``distributed/eplb``, SGLang's ``eplb_manager.py``.
    """
    routing = architecture.routing
    if routing is None or routing.redundant is None:
        return 0.0
    layers = (count * expert_bytes(architecture, layer, layout) for layer, count in architecture.groups)
    moved_layers = sum(layers, 0.0) * stage_share(architecture, layout)
    return above_one(layout.expert) * all_to_all(moved_layers, layout.expert, system) / routing.interval


def _reductions(layer: Layer) -> tuple[int, int]:
    """All-reduces after mixers and after feed-forward blocks of a layer."""
    mixers = sum(not isinstance(m, PooledCache) for m in layer.mixers)
    if len(layer.mixers) > 1 and not any(isinstance(m, Grouped) and m.input_width for m in layer.mixers):
        # Mixers side by side add up before one reduction; LongCat's two stand in a row.
        mixers = 1 if len(set(layer.mixers)) > 1 else mixers
    blocks = [f for f in layer.feed_forwards if not isinstance(f, ParameterTotals)]
    feed_forward = min(len(blocks), 1)
    if layer.parallel and mixers and feed_forward:
        return mixers, 0
    return mixers, feed_forward


def _shared_attention(layer: Layer, layout: Layout, system: System, tokens: Number) -> Number:
    """Queries to all ranks that share a cache by tokens, and their partial results back. [s]

    Each of the ranks meets its part of the tokens with the heads of all of them.
    Source: decode context parallelism of vLLM; Helix (Bhatia et al. 2025, arXiv:2507.07120).
    """
    ranks = layout.context_parallel
    group = tokens * ACTIVATION_BYTES * ranks / layout.tensor
    total: Number = 0.0
    for mixer in layer.mixers:
        if isinstance(mixer, Grouped):
            query_width, answer_width = mixer.key_dim, mixer.value_dim
        elif isinstance(mixer, Latent):
            query_width, answer_width = mixer.kv_rank + mixer.rope_dim, mixer.kv_rank
        else:
            continue
        total = total + all_gather(group * mixer.query_heads * query_width, ranks, system)
        total = total + all_gather(group * mixer.query_heads * answer_width, ranks, system)
    return total


def _exchange(
    architecture: Architecture, layer: Layer, mixture: Experts, layout: Layout, system: System, tokens: Number
) -> tuple[Number, Number]:
    """Dispatch and combine of one layer: one copy per distinct rank, out quantised, back in 16 bit.

    Each of the ``tensor`` ranks of a group sends its part of the tokens, to the other ranks or to accelerators that
    hold experts only. Between domains one copy per distinct domain travels (DeepEP).
    """
    width = mixture.latent or architecture.hidden
    copies = distinct_ranks(mixture.experts, mixture.expected_active, layout.expert)
    outside = distinct_ranks(mixture.experts, mixture.expected_active, domains(layout.expert, system))
    own_bytes = tokens / layout.tensor * width
    sizes = (own_bytes * _dispatch_bytes(architecture, layer), own_bytes * ACTIVATION_BYTES)
    if np.max(layout.ffn) == 0:
        out, back = (all_to_all(copies * size, layout.expert, system, outside * size) for size in sizes)
        return out, back
    senders = layout.tensor * layout.data
    out, back = (many_to_many(copies * size, outside * size, senders, layout.ffn, system) for size in sizes)
    return out, back


def _dispatch_bytes(architecture: Architecture, layer: Layer) -> float:
    """Bytes per element on the way out: experts that multiply in 8 bit or less get 8 bit.

    One fp32 scale per 128 elements goes along (DeepEP).
    """
    for weight in layer_weights(layer, architecture.hidden):
        if weight.role == "experts" and weight.columns:
            narrow = weight_format_of(architecture, layer, weight).compute in ("fp8", "fp4")
            return 1 + 4 / 128 if narrow else ACTIVATION_BYTES
    return ACTIVATION_BYTES
