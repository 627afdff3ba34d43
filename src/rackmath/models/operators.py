"""The operators of one forward pass: FLOPs, weight, cache and activation traffic.

Counting knows no sharding and no hardware. Every quantity broadcasts over the
arrays in a :class:`Pass`. A multiply-add is 2 FLOP.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from rackmath.models.architecture import Architecture, Experts, Layer, Weight
from rackmath.models.counts import met_fraction, tensor_bytes, weight_format_of
from rackmath.models.mixer_operators import ACTIVATION_BYTES, Traffic, mixer_traffic
from rackmath.models.mixers import Latent
from rackmath.models.numbers import Number
from rackmath.models.weights import layer_weights, model_weights, weight_parts

PHASES = ("decode", "prefill", "train")
"""New tokens of running sequences, whole prompts, or whole sequences whose every position is predicted."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pass:
    """What goes through the model at once, on one attention group."""

    phase: str
    """decode or prefill; decides the form of latent attention unless ``absorbed`` does."""
    sequences: Number
    """Sequences in the pass. [sequences]"""
    new_tokens: Number
    """New tokens per sequence: 1 in decode (more with speculation). [tokens]"""
    context: Number
    """Tokens that the last new token sees, itself included. [tokens]"""
    expert_tokens: Number | None = None
    """Tokens that share one set of experts; None means those of this pass. [tokens]"""
    absorbed: bool | None = None
    """Latent attention on the latent itself; None: in decode yes, in prefill no."""

    @property
    def tokens(self) -> Number:
        """New tokens in the pass. [tokens]"""
        return self.sequences * self.new_tokens

    @property
    def uses_absorbed(self) -> bool:
        """Whether latent attention runs in its absorbed form."""
        return self.phase == "decode" if self.absorbed is None else self.absorbed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operator:
    """One distinct operator of one kind of layer, for the whole model's width.

    ``count`` layers have it; every other field is for one of them.
    """

    name: str
    role: str
    """Tensor class, or attention and recurrence for the cores of mixers."""
    compute: str
    """Precision of the multiplication: bf16, fp8, int8 or fp4."""
    split: str
    """What tensor parallelism divides it by (see :class:`Weight`)."""
    parts: int | None
    """Units that ``split`` can divide (heads, experts); None for as many as asked."""
    cache_split: int | None
    """Parts that the cache divides into: KV heads; 0 replicates, None divides evenly."""
    count: int
    layered: bool
    """False for embedding and head, which stand outside the layers."""
    kind: str = "product"
    """product, experts (a product per expert), attention, latent (one key for all heads) or other."""
    rows: Number = 1.0
    """Tokens that meet one matrix at once: those of one expert in the mean; keys that attention meets. [tokens]"""
    matrices: Number = 0.0
    """Parts that one kernel takes one after the other: experts that are read, caches that are attended to. [1]"""
    kernel: str = ""
    """Operators of one name here run as one kernel: projections of the same input, products of one mixture."""
    bits: float = 16
    """Bits of one stored weight. [bit]"""
    codebook: bool = False
    """Whether weights are looked up in a table."""
    scores: Number = 0.0
    """Products of a query and a key in attention, over all heads; a fused kernel keeps them on chip."""
    sides: tuple[float, float] = (inf, inf)
    """Output and input width of one matrix. [elements]"""
    cut: int = 0
    """Which of the two a split over ranks divides."""
    flops: Number = 0.0
    weight_bytes: Number = 0.0
    cache_read: Number = 0.0
    cache_written: Number = 0.0
    activation_bytes: Number = 0.0


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
            row = weight.columns * a.format.bits / 8
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
        else:
            yield replace(
                linear_operator(a, layer, weight, count, work.tokens, work), kernel=shared_kernel(weight, place)
            )
    for mixer in layer.mixers:
        t = mixer_traffic(mixer, a, work.sequences, work.new_tokens, work.context, work.uses_absorbed)
        yield _core(t, count, work)


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
        compute="bf16",
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
    a: Architecture, layer: Layer | None, weight: Weight, count: int, tokens: Number, work: Pass
) -> Operator:
    """One tensor: a product if it is a matrix, an element-wise operation if it is a vector."""
    form = weight_format_of(a, layer, weight)
    size = tensor_bytes(weight, form)
    met = 1.0
    if layer is not None:
        met = met_fraction(layer, weight)
    touched: Number = 1.0
    if weight.role == "experts" and layer is not None:
        mixture = next(f for f in layer.feed_forwards if isinstance(f, Experts))
        tokens = work.tokens if work.expert_tokens is None else work.expert_tokens
        touched = _distinct(a, mixture, tokens) / mixture.experts
    kind = "experts" if weight.role == "experts" else "product"
    pooled = weight.split == "all"
    width = weight.rows + weight.columns if weight.columns else 2 * weight.rows
    moved = 0.0 if pooled else width * weight.copies * met * ACTIVATION_BYTES
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
        rows=met * tokens / touched,
        matrices=weight.copies * touched if kind == "experts" else 0.0,
        bits=form.bits,
        codebook=form.codebook,
        sides=(weight.rows, weight.columns or inf),
        cut=0 if weight.columns == a.hidden else 1,
        flops=2 * weight.elements * met * tokens if weight.multiplied else 0.0 * tokens,
        weight_bytes=size * touched,
        activation_bytes=moved * tokens if weight.multiplied or weight.role == "norm" else 0.0,
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
