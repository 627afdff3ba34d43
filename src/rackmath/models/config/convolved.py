"""Attention with convolutions around it: ZAYA's compressed convolutional attention, and Inkling 2.

What these add beside grouped attention is loose tensors of the layer, and inputs of convolutions that a sequence keeps.
Sources: transformers 5.23.0, ``models/zaya`` and ``models/inkling2``; arXiv 2510.04476 for the former.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rackmath.models.architecture import Weight
from rackmath.models.config.fields import Fields
from rackmath.models.mixers import Grouped
from rackmath.models.weights import matrix, vector

COMPRESSED = ("cca_time0", "cca_time1")
"""Kernels of ZAYA's two convolutions over queries and keys."""
RELATIVE = "d_rel"
"""Width of Inkling 2's relative positions."""


def is_convolved(fields: Fields) -> bool:
    """Whether the config describes one of these."""
    return fields.has(*COMPRESSED, RELATIVE)


def convolved(fields: Fields, attention: Grouped, hidden: int, layer: int) -> tuple[Grouped, tuple[Weight, ...]]:
    """The attention of a layer with what its convolutions remember, and the layer's loose tensors."""
    if fields.has(*COMPRESSED):
        return _compressed(fields, attention, hidden, layer)
    return _relative(fields, attention, hidden, layer)


def model_weights(fields: Fields, hidden: int) -> Iterator[Weight]:
    """Tensors of the model beside those of its layers."""
    if fields.has(*COMPRESSED):
        yield vector("input_hidden_states", "other", 2 * hidden)
    if fields.has(RELATIVE):
        yield vector("embed_tokens.norm", "norm", hidden)
        yield vector("final_input.query", "other", hidden)


def _compressed(fields: Fields, attention: Grouped, hidden: int, layer: int) -> tuple[Grouped, tuple[Weight, ...]]:
    """Queries and keys pass a depthwise and a grouped convolution; half of each value is the token before's."""
    depthwise, group_kernel = (fields.integer(name) for name in COMPRESSED)
    heads = attention.query_heads + attention.kv_heads
    channels = heads * attention.key_dim
    router = fields.integer("router_hidden_size")
    slots = fields.integer("num_experts", kind="experts") + 1
    weights = channels * (depthwise + group_kernel - 2) + attention.kv_heads * attention.value_dim // 2
    return replace(attention, convolution=weights), (
        vector("self_attn.conv_qk_depthwise", "attention", channels * (depthwise + 1), "heads"),
        matrix("self_attn.conv_qk_grouped", "attention", attention.key_dim * group_kernel, channels, "heads"),
        vector("self_attn.conv_qk_grouped.bias", "attention", channels, "heads"),
        vector("self_attn.qk_norm.temp", "norm", attention.kv_heads),
        vector("residual_scales", "other", 8 * hidden),
        matrix("mlp.gate.down_proj", "router", hidden, router),
        replace(matrix("mlp.gate.router_mlp.fc", "router", router, router), copies=2),
        matrix("mlp.gate.router_mlp.out_proj", "router", router, slots),
        # Biases of three projections, one norm, and from the second layer on a scale of the router before.
        vector("mlp.gate.vectors", "router", (4 + (layer > 0)) * router),
    )


def _relative(fields: Fields, attention: Grouped, hidden: int, layer: int) -> tuple[Grouped, tuple[Weight, ...]]:
    """Keys, values and both outputs pass short convolutions; positions are relative, and each block has queries."""
    width, kernel = fields.integer(RELATIVE), fields.integer("conv_kernel_size", "sconv_kernel_size")
    keys, values = attention.kv_heads * attention.key_dim, attention.kv_heads * attention.value_dim
    full = attention.window is None
    extent = fields.integer("rel_extent", kind="tokens") if full else attention.window or 0
    fields.ignore(("rel_extent",))
    queries = (3 if full else 1) * (layer > 0) + 1
    extras = [
        matrix("self_attn.r_proj", "attention", hidden, attention.query_heads * width, "heads"),
        matrix("self_attn.rel_logits_proj", "attention", width, extent),
        matrix("self_attn.sink_proj", "attention", hidden, attention.query_heads, "heads"),
        vector("self_attn.l2_clips", "norm", attention.query_heads * (attention.key_dim + width), "heads"),
        vector("self_attn.sconv", "attention", (keys + values) * kernel, "kv_heads"),
        vector("output_convolutions", "other", 2 * hidden * kernel),
        vector("residual_queries", "other", queries * hidden),
    ]
    if full:
        taps = matrix("self_attn.sconv.weight_proj", "attention", hidden, attention.kv_heads * kernel, "kv_heads")
        extras += [replace(taps, copies=2), vector("kv_input_layernorms", "norm", 2 * hidden)]
    weights = (keys + values + 2 * hidden) * kernel
    return replace(attention, convolution=weights, gate_width=attention.query_heads * attention.value_dim), tuple(
        extras
    )
