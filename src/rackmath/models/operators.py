"""The operators of one forward pass: FLOPs, weight, cache and activation traffic.

Counting knows no sharding and no hardware. Every quantity broadcasts over the
arrays in a :class:`Pass`. A multiply-add is 2 FLOP.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf

import numpy as np

from rackmath.models.architecture import Architecture, Experts, Layer, Weight
from rackmath.models.counts import met_fraction, tensor_bytes, weight_format_of
from rackmath.models.mixer_operators import index_traffic, mixer_traffic
from rackmath.models.mixers import Latent
from rackmath.models.numbers import Number
from rackmath.models.operator import Operator, Pass
from rackmath.models.traffic import ACTIVATION_BYTES, Traffic
from rackmath.models.weights import layer_weights, model_weights, weight_parts

CORES = ("attention", "index")
"""Names of what meets the cache in attention: queries and keys, and the choice among keys."""

HYPER_CONNECTION = "hyper_connection.fn"
"""Matrices that mix residual streams: before attention, and before the feed-forward block."""


def distinct_experts(experts: Number, active: Number, tokens: Number) -> Number:
    r"""Expected distinct experts that ``tokens`` tokens touch. [experts]

    .. math:: D(B) = E (1 - (1 - k/E)^B)

    Exact for independent routing with marginal k/E; skewed routing touches fewer.
    Source: lecture chapter 2, with the coverage the lecture leaves out.
    """
    if np.all(np.asarray(active) >= np.asarray(experts)):
        return experts + 0.0 * tokens
    return -experts * np.expm1(tokens * np.log1p(-np.asarray(active, dtype=float) / experts))


def operators(architecture: Architecture, work: Pass) -> list[Operator]:
    """All operators of one forward pass.

    Parameters
    ----------
    architecture : Architecture
        The model.
    work : Pass
        Tokens, sequences and context; arrays broadcast.

    Returns
    -------
    list of Operator
        Grouped by distinct layers, with multiplicities.
    """
    result = list(_outside(architecture, work))
    for place, (layer, count) in enumerate(architecture.groups):
        result += _layer_operators(architecture, layer, count, work, place)
    return result


def _outside(a: Architecture, work: Pass) -> Iterator[Operator]:
    for weight in model_weights(a):
        if weight.role in ("embedding", "other_embedding"):
            # A lookup: one row per new token.
            row = weight.columns * weight_format_of(a, None, weight).bits / 8
            yield Operator(
                name=weight.name,
                role=weight.role,
                compute="bf16",
                split=weight.split,
                parts=None,
                cache_split=None,
                count=1,
                layered=False,
                kind="other",
                activation_bytes=work.tokens * row,
            )
            continue
        # The head runs where a token is sampled: once per sequence in either phase.
        tokens = work.sequences * _sampled(work) if weight.role == "head" else work.tokens
        yield linear_operator(a, None, weight, 1, tokens, work)


def _sampled(work: Pass) -> Number:
    return 1.0 if work.phase == "prefill" else work.new_tokens


def _layer_operators(a: Architecture, layer: Layer, count: int, work: Pass, place: int) -> Iterator[Operator]:
    for weight in layer_weights(layer, a.hidden):
        if weight.name == "self_attn.kv_b_proj":
            yield _latent_expansion(a, layer, weight, count, work)
        elif weight.name == HYPER_CONNECTION:
            yield _hyper_connection(a, layer, weight, count, work)
        else:
            yield linear_operator(a, layer, weight, count, work.tokens, work, shared_kernel(weight, place))
    for mixer in layer.mixers:
        yield _core(
            mixer_traffic(mixer, a, work.sequences, work.new_tokens, work.context, work.uses_absorbed), count, work
        )
        index = index_traffic(mixer, a, work.sequences, work.new_tokens, work.context)
        if index is not None:
            yield _core(index, count, work)


_FUSED = {
    "q_proj": "qkv",
    "q_proj.gate": "qkv",
    "k_proj": "qkv",
    "v_proj": "qkv",
    "q_a_proj": "down",
    "kv_a_proj_with_mqa": "down",
    "kv_proj": "down",
    "in_proj_qkv": "in",
    "in_proj_z": "in",
    "in_proj_b": "in",
    "in_proj_a": "in",
    "gate_proj": "gate_up",
    "up_proj": "gate_up",
}
"""Projections of one input that engines join into one product. Source: vLLM's and SGLang's parallel linear layers."""


def shared_kernel(weight: Weight, place: int) -> str:
    """Name of the kernel that a matrix of the layer at ``place`` shares with others; empty for one of its own."""
    if not weight.columns or not weight.multiplied:
        return ""
    if weight.role == "experts":
        return f"{place}.experts"
    block, _, leaf = weight.name.partition(".")
    if "." in leaf and leaf not in _FUSED:
        inner, _, leaf = leaf.rpartition(".")
        block = f"{block}.{inner}"
    return f"{place}.{block}.{_FUSED[leaf]}" if leaf in _FUSED else ""


def _core(t: Traffic, count: int, work: Pass) -> Operator:
    return Operator(
        rows=work.context,
        matrices=work.sequences * (t.cache_split or 1.0),
        sides=(t.head, inf),
        name=t.name,
        role=t.role,
        compute=t.compute,
        split=t.split,
        parts=t.parts,
        cache_split=t.cache_split,
        count=count,
        layered=True,
        kind=t.kind,
        scores=t.scores,
        flops=t.flops,
        cache_read=t.read,
        cache_written=t.written,
        activation_bytes=t.activations,
    )


def linear_operator(
    a: Architecture, layer: Layer | None, weight: Weight, count: int, tokens: Number, work: Pass, kernel: str = ""
) -> Operator:
    """One tensor: a product if it is a matrix, in a ``kernel`` that others share; else an element-wise operation."""
    form = weight_format_of(a, layer, weight)
    size = tensor_bytes(weight, form)
    token_part = 1.0
    if layer is not None:
        token_part = met_fraction(layer, weight)
    copies_read: Number = 1.0
    if weight.role == "experts" and layer is not None:
        mixture = next(f for f in layer.feed_forwards if isinstance(f, Experts))
        tokens = work.tokens if work.expert_tokens is None else work.expert_tokens
        copies_read = _distinct(a, mixture, tokens) / mixture.experts
    kind = "experts" if weight.role == "experts" else "product"
    is_pooled = weight.split == "all"
    width = weight.rows + weight.columns if weight.columns else 2 * weight.rows
    bytes_per_token = 0.0 if is_pooled else width * weight.copies * token_part * weight.uses * ACTIVATION_BYTES
    return Operator(
        name=weight.name,
        role=weight.role,
        compute=form.compute,
        split=weight.split,
        parts=None if layer is None else weight_parts(layer, weight),
        cache_split=None,
        count=count,
        layered=layer is not None,
        kind=kind if weight.multiplied and weight.columns else "other",
        kernel=kernel,
        rows=token_part * weight.uses * tokens / copies_read,
        matrices=weight.copies * copies_read if kind == "experts" else 0.0,
        bits=form.bits,
        codebook=form.codebook,
        sides=(weight.rows, weight.columns or inf),
        cut=0 if weight.columns == a.hidden else 1,
        flops=2 * weight.elements * token_part * weight.uses * tokens if weight.multiplied else 0.0 * tokens,
        weight_bytes=size * copies_read,
        activation_bytes=bytes_per_token * tokens if weight.multiplied or weight.role == "norm" else 0.0,
    )


def _hyper_connection(a: Architecture, layer: Layer, weight: Weight, count: int, work: Pass) -> Operator:
    """Mixing of m residual streams: read by the map and for the block's input, read and written again behind it.

    That moves (3m + 2) hidden widths a token: m read and one written before a block, m and its output read and m
    written behind it. Source: manifold-constrained hyper-connections (Xie et al. 2025, arXiv:2512.24880).
    """
    streams = weight.columns / a.hidden
    bytes_per_token = weight.copies * ((3 * streams + 2) * a.hidden + weight.rows) * ACTIVATION_BYTES
    return replace(
        linear_operator(a, layer, weight, count, work.tokens, work),
        kind="hyper_connection",
        activation_bytes=work.tokens * bytes_per_token,
    )


def _distinct(a: Architecture, mixture: Experts, tokens: Number) -> Number:
    """Expected distinct experts of a layer that tokens touch. [experts]"""
    if a.routing is None:
        return distinct_experts(mixture.experts, mixture.expected_active, tokens)
    return a.routing.distinct(mixture.experts, mixture.expected_active, tokens)


def _latent_expansion(a: Architecture, layer: Layer, weight: Weight, count: int, work: Pass) -> Operator:
    """``kv_b_proj``: applied per query when absorbed, per visible token when naive."""
    latent = next(m for m in layer.mixers if isinstance(m, Latent))
    tokens = work.tokens if work.uses_absorbed or latent.indexer else work.sequences * work.context
    form = weight_format_of(a, layer, weight)
    return Operator(
        name=weight.name,
        role=weight.role,
        compute=form.compute,
        split=weight.split,
        parts=weight_parts(layer, weight),
        cache_split=None,
        count=count,
        layered=True,
        rows=tokens,
        bits=form.bits,
        codebook=form.codebook,
        sides=(weight.rows, weight.columns),
        flops=2 * weight.elements * tokens,
        weight_bytes=tensor_bytes(weight, form),
        activation_bytes=tokens * (latent.kv_rank + weight.rows) * ACTIVATION_BYTES,
    )


def total_flops(operators: list[Operator], but: tuple[str, ...] = ()) -> Number:
    """Sum the FLOPs of a pass over all operators whose role is not in ``but``. [FLOP]"""
    return sum((o.count * o.flops for o in operators if o.role not in but), 0.0)
