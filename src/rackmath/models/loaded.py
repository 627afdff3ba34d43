"""Tensors as an engine loads them: fused, padded, and in blocks of the memory allocator.

Source: vLLM's layers (``QKVParallelLinear``, ``MergedColumnParallelLinear``, ``FusedMoE``, ``VocabParallelEmbedding``)
and PyTorch's caching allocator, read through v0.19 and 2.10; checked on starts of vLLM 0.19.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from rackmath.models.architecture import Architecture, Layer, Weight
from rackmath.models.counts import tensor_bytes, weight_format_of
from rackmath.models.formats import Format
from rackmath.models.weights import layer_weights, model_weights, weight_parts

_VOCABULARY = 64
"""Multiple that rows of embedding and head are padded to. [tokens]"""
_FUSED = {
    "self_attn.q_proj": "qkv",
    "self_attn.q_proj.gate": "qkv",
    "self_attn.k_proj": "qkv",
    "self_attn.v_proj": "qkv",
    "self_attn.q_a_proj": "latents",
    "self_attn.kv_a_proj_with_mqa": "latents",
    "mlp.gate_proj": "gate_up",
    "mlp.up_proj": "gate_up",
    "mlp.experts.gate_proj": "experts_gate_up",
    "mlp.experts.up_proj": "experts_gate_up",
    "mlp.shared_experts.gate_proj": "shared_gate_up",
    "mlp.shared_experts.up_proj": "shared_gate_up",
}
"""Tensors that become one when they are loaded."""
_MIB = 2**20
_SEGMENT, _SEGMENT_MULTIPLE, _TAIL = 10 * _MIB, 2 * _MIB, _MIB
"""A tensor from ``_SEGMENT`` up gets memory of its own in multiples; a rest of it up to ``_TAIL`` is lost. [B]"""

Split = Callable[[str, int | None], float]
"""Part of a tensor on one rank, by what it is split by and the units that it divides into."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Multiples:
    """What kernels pad the matrices of experts in MXFP4 to."""

    width: int = 1
    """Multiple of an expert's width on one rank. [elements]"""
    hidden: int = 1
    """Multiple of the width of the model. [elements]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedWeights:
    """Bytes of weights on one rank."""

    embedding: float
    """Input embedding, and what else stands before the layers. [B]"""
    head: float
    """Output projection; 0 where it is the embedding. [B]"""
    layers: float
    """All layers together. [B]"""
    outside: float
    """Norms and other tensors of the model, replicated. [B]"""
    speculative: float
    """Layers that predict several tokens, where they are loaded. [B]"""


def loaded_weights(
    architecture: Architecture, split: Split, *, slices: float, multiples: Multiples, speculative: bool
) -> LoadedWeights:
    """Bytes of a model's text part on one rank, with what PyTorch's allocator cannot give away, as engines count them.

    Parameters
    ----------
    split : callable
        Part of a tensor on the rank.
    slices : float
        Ranks that one expert is cut over.
    multiples : Multiples
        Of experts in MXFP4.
    speculative : bool
        Whether the layers that predict several tokens are loaded.
    """

    def of_layer(layer: Layer) -> float:
        sizes: defaultdict[str, float] = defaultdict(float)
        for weight in layer_weights(layer, architecture.hidden):
            if weight.owned:
                form = weight_format_of(architecture, layer, weight)
                share = split(weight.split, weight_parts(layer, weight))
                padding = _expert_padding(weight, form, slices, multiples)
                sizes[_FUSED.get(weight.name, weight.name)] += share * padding * tensor_bytes(weight, form)
        return sum(size + _lost(size) for size in sizes.values())

    parts: defaultdict[str, float] = defaultdict(float)
    for weight in model_weights(architecture):
        if weight.owned:
            kind = {"embedding": "embedding", "other_embedding": "embedding", "head": "head"}.get(weight.role, "other")
            padding = _padded(weight.rows, _VOCABULARY) if weight.split == "vocabulary" else 1.0
            form = weight_format_of(architecture, None, weight)
            size = padding * tensor_bytes(weight, form) * split(weight.split, None)
            parts[kind] += size + _lost(size)
    return LoadedWeights(
        embedding=parts["embedding"],
        head=parts["head"],
        layers=sum(count * of_layer(layer) for layer, count in architecture.groups),
        outside=parts["other"],
        speculative=sum(of_layer(layer) for layer in architecture.mtp) if speculative else 0.0,
    )


def _expert_padding(weight: Weight, form: Format, slices: float, multiples: Multiples) -> float:
    """Padded over stated size of experts in MXFP4."""
    if weight.role != "experts" or not weight.columns or not form.name.startswith("mxfp4"):
        return 1.0
    width, hidden = (weight.columns, weight.rows) if "down" in weight.name else (weight.rows, weight.columns)
    return _padded(width / slices, multiples.width) * _padded(hidden, multiples.hidden)


def _padded(size: float, multiple: int) -> float:
    return ceil(size / multiple) * multiple / size


def _lost(size: float) -> float:
    """Bytes behind a tensor that the allocator counts as its own."""
    if size < _SEGMENT:
        return 0.0
    # Bytes are whole; parts and paddings of them are rounded.
    rest = -round(size) % _SEGMENT_MULTIPLE
    return rest if rest <= _TAIL else 0.0
