"""Every tensor of a model: the one inventory that counts, bytes, FLOPs and sharding use.

Closed forms follow the modelling code in Hugging Face transformers; the totals are
tested against models built from it. Linear-attention and state-space tensors are in
:mod:`rackmath.models.recurrent_weights`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from rackmath.models.architecture import Architecture, Dense, Experts, FeedForward, Layer, ParameterTotals, Weight
from rackmath.models.mixers import (
    BlockIndex,
    Compressed,
    GatedDelta,
    Grouped,
    Indexer,
    KimiDelta,
    Latent,
    Lightning,
    Mamba1,
    Mamba2,
    MatrixMemory,
    Mixer,
    PooledCache,
)
from rackmath.models.recurrent_weights import recurrent_weights


def matrix(name: str, role: str, inputs: int, outputs: int, split: str = "none", is_owned: bool = True) -> Weight:
    """Weight that each token is multiplied by once."""
    return Weight(name=name, role=role, rows=outputs, columns=inputs, split=split, owned=is_owned)


def vector(name: str, role: str, elements: int, split: str = "none", is_owned: bool = True) -> Weight:
    """Norm, bias or table: elements that take part in no product."""
    return Weight(name=name, role=role, rows=elements, multiplied=False, split=split, owned=is_owned)


@lru_cache(maxsize=4096)
def layer_weights(layer: Layer, hidden: int) -> tuple[Weight, ...]:
    """All tensors of one layer, empty ones left out."""
    parts: list[Weight] = []
    for mixer in layer.mixers:
        parts += mixer_weights(mixer, hidden)
    for block in layer.feed_forwards:
        parts += feed_forward_weights(block, hidden)
    parts += layer.extras
    parts.append(vector("norm", "norm", layer.norm_elements))
    return tuple(w for w in parts if w.rows > 0)


def model_weights(architecture: Architecture) -> tuple[Weight, ...]:
    """Tensors outside the layers: embedding, head, final norm and the like."""
    a = architecture
    parts = [
        Weight(
            name="embed_tokens",
            role="embedding",
            rows=a.vocabulary,
            columns=a.hidden,
            multiplied=False,
            split="vocabulary",
        ),
        *a.extras,
    ]
    if a.head:
        parts.append(matrix("lm_head", "head", a.hidden, a.vocabulary, "vocabulary", is_owned=not a.tied))
    if a.head_bias:
        parts.append(vector("lm_head.bias", "head", a.vocabulary, "vocabulary"))
    return tuple(w for w in parts if w.rows > 0 and w.elements > 0)


def weight_parts(layer: Layer, weight: Weight) -> int | None:
    """Units that tensor or expert parallelism can deal out of a tensor: heads, experts.

    None where any number of ranks gets an equal share.
    """
    if weight.split == "experts":
        return next(f.experts for f in layer.feed_forwards if isinstance(f, Experts))
    if weight.split not in ("heads", "kv_heads"):
        return None
    recurrent = weight.role == "recurrent"
    for mixer in layer.mixers:
        if recurrent == isinstance(mixer, (Grouped, Latent, Compressed, PooledCache)):
            continue
        return mixer_parts(mixer, weight.split)
    return None


def mixer_parts(mixer: Mixer, split: str = "heads") -> int | None:
    """Heads (or key-value heads) that ranks can share; None for mixers without heads."""
    match mixer:
        case Grouped():
            return mixer.kv_heads if split == "kv_heads" else mixer.query_heads
        case Latent() | Compressed():
            return mixer.query_heads
        case GatedDelta():
            return mixer.key_heads
        case KimiDelta() | Mamba2() | Lightning() | MatrixMemory():
            return mixer.heads
        case Mamba1():
            return mixer.inner
        case _:
            return None


def mixer_weights(mixer: Mixer, hidden: int) -> Iterator[Weight]:
    """Tensors of one mixer."""
    match mixer:
        case Grouped():
            return _grouped(mixer, hidden)
        case Latent():
            return _latent(mixer, hidden)
        case Compressed():
            return _compressed(mixer, hidden)
        case PooledCache():
            return iter(())
        case _:
            return recurrent_weights(mixer, hidden)


def cache_parts(mixer: Mixer) -> int | None:
    """Parts that a mixer's cache divides into over ranks: None for any number, 0 where each rank holds all.

    Latents, one for all heads, are held by every rank.
    """
    match mixer:
        case PooledCache():
            return None
        case Latent() | Compressed():
            return 0
        case _:
            return mixer_parts(mixer, "kv_heads")


def feed_forward_weights(block: FeedForward, hidden: int) -> Iterator[Weight]:
    """Tensors of one feed-forward block."""
    match block:
        case Dense():
            return _dense(block, hidden)
        case Experts():
            return _experts(block, hidden)
        case ParameterTotals():
            # One matrix of the right size: a pool has no shape of its own.
            return iter((Weight(name="pool", role="feed_forward", rows=block.total, columns=1, split="all"),))


def _grouped(a: Grouped, hidden: int) -> Iterator[Weight]:
    width = a.input_width or hidden
    queries = a.query_heads * a.key_dim
    keys = a.kv_heads * a.key_dim
    values = a.kv_heads * a.value_dim
    has_own_keys = a.owned
    if a.query_rank is None:
        yield matrix("self_attn.q_proj", "attention", width, queries, "heads", has_own_keys)
    else:
        yield matrix("self_attn.q_proj", "attention", width, a.query_rank, is_owned=has_own_keys)
        yield vector("self_attn.inter_norm", "norm", a.query_rank, is_owned=has_own_keys)
        yield matrix("self_attn.wq", "attention", a.query_rank, queries, "heads", has_own_keys)
    yield matrix("self_attn.q_proj.gate", "attention", width, a.gate_width, "heads", has_own_keys)
    if a.stores:
        yield matrix("self_attn.k_proj", "attention", width, keys, "kv_heads", has_own_keys)
        yield vector("self_attn.k_proj.bias", "attention", keys * a.kv_bias, "kv_heads", has_own_keys)
        if not a.value_from_key:
            yield matrix("self_attn.v_proj", "attention", width, values, "kv_heads", has_own_keys)
            yield vector("self_attn.v_proj.bias", "attention", values * a.kv_bias, "kv_heads", has_own_keys)
    yield vector("self_attn.q_proj.bias", "attention", (queries + a.gate_width) * a.query_bias, "heads", has_own_keys)
    yield Weight(
        name="self_attn.o_proj",
        role="attention",
        rows=hidden,
        columns=a.query_heads * a.value_dim,
        split="heads",
        owned=has_own_keys,
    )
    yield vector("self_attn.o_proj.bias", "attention", hidden * a.out_bias, is_owned=has_own_keys)
    yield vector("self_attn.norm", "norm", a.norm_elements, is_owned=has_own_keys)
    yield vector("self_attn.sinks", "attention", a.query_heads * a.sinks, "heads", has_own_keys)
    if a.blocks:
        yield from _block_index(a.blocks, hidden)


def _block_index(b: BlockIndex, hidden: int) -> Iterator[Weight]:
    yield matrix("self_attn.index_q_proj", "indexer", hidden, b.heads * b.dim)
    yield matrix("self_attn.index_k_proj", "indexer", hidden, b.dim)
    yield vector("self_attn.index_norm", "norm", b.norm_elements)


def _latent(a: Latent, hidden: int) -> Iterator[Weight]:
    queries = a.query_heads * (a.nope_dim + a.rope_dim)
    latent = a.kv_rank + a.rope_dim
    if a.query_rank is None:
        yield matrix("self_attn.q_proj", "attention", hidden, queries, "heads")
    else:
        yield matrix("self_attn.q_a_proj", "attention", hidden, a.query_rank)
        yield vector("self_attn.q_a_proj.bias", "attention", a.query_rank * a.bias)
        yield vector("self_attn.q_a_layernorm", "norm", a.query_rank)
        yield matrix("self_attn.q_b_proj", "attention", a.query_rank, queries, "heads")
    yield matrix("self_attn.kv_a_proj_with_mqa", "attention", hidden, latent)
    yield vector("self_attn.kv_a_proj_with_mqa.bias", "attention", latent * a.bias)
    yield vector("self_attn.kv_a_layernorm", "norm", a.kv_rank)
    expansion_width = a.query_heads * (a.nope_dim + a.value_dim)
    yield matrix("self_attn.kv_b_proj", "attention", a.kv_rank, expansion_width, "heads")
    yield matrix("self_attn.g_proj", "attention", hidden, a.gate_width, "heads")
    yield matrix("self_attn.o_proj", "attention", a.query_heads * a.value_dim, hidden, "heads")
    yield vector("self_attn.o_proj.bias", "attention", hidden * a.bias)
    if a.indexer and a.indexer.owned:
        yield from _indexer(a.indexer, hidden, a.query_rank or hidden)


def _indexer(i: Indexer, hidden: int, query_width: int) -> Iterator[Weight]:
    yield matrix("self_attn.indexer.wq_b", "indexer", query_width, i.heads * i.dim)
    yield matrix("self_attn.indexer.wk", "indexer", hidden, i.dim)
    yield vector("self_attn.indexer.k_norm", "norm", 2 * i.dim)
    yield matrix("self_attn.indexer.weights_proj", "indexer", hidden, i.heads)


def _compressed(a: Compressed, hidden: int) -> Iterator[Weight]:
    d, heads = a.head_dim, a.query_heads
    yield matrix("self_attn.q_a_proj", "attention", hidden, a.query_rank)
    yield vector("self_attn.q_a_norm", "norm", a.query_rank)
    yield matrix("self_attn.q_b_proj", "attention", a.query_rank, heads * d, "heads")
    yield matrix("self_attn.kv_proj", "attention", hidden, d)
    yield vector("self_attn.kv_norm", "norm", d)
    yield Weight(
        name="self_attn.o_a_proj",
        role="attention",
        rows=a.out_rank,
        columns=heads * d // a.out_groups,
        copies=a.out_groups,
        split="heads",
    )
    yield matrix("self_attn.o_b_proj", "attention", a.out_groups * a.out_rank, hidden, "heads")
    yield vector("self_attn.sinks", "attention", heads, "heads")
    if a.ratio:
        # CSA pools two overlapping windows of entries, HCA one (k = 2 or 1).
        overlap = 2 if a.indexer else 1
        yield from _compressor("self_attn.compressor", hidden, overlap, a.ratio, d)
        if a.indexer:
            i = a.indexer
            yield from _compressor("self_attn.indexer.compressor", hidden, overlap, a.ratio, i.dim)
            yield matrix("self_attn.indexer.wq_b", "indexer", a.query_rank, i.heads * i.dim)
            yield matrix("self_attn.indexer.weights_proj", "indexer", hidden, i.heads)


def _compressor(name: str, hidden: int, overlap: int, ratio: int, width: int) -> Iterator[Weight]:
    role = "indexer" if "indexer" in name else "attention"
    yield matrix(f"{name}.kv_proj", role, hidden, overlap * width)
    yield matrix(f"{name}.gate_proj", role, hidden, overlap * width)
    yield vector(f"{name}.position_bias", role, ratio * overlap * width)
    yield vector(f"{name}.norm", "norm", width)


def _dense(f: Dense, hidden: int) -> Iterator[Weight]:
    width = f.input_width or hidden
    into = ("gate_proj", "up_proj") if f.gated else ("up_proj",)
    for leaf in into:
        yield matrix(f"mlp.{leaf}", "feed_forward", width, f.width, "width", f.owned)
        yield vector(f"mlp.{leaf}.bias", "feed_forward", f.width * f.bias, "width", f.owned)
    yield matrix("mlp.down_proj", "feed_forward", f.width, hidden, "width", f.owned)
    yield vector("mlp.down_proj.bias", "feed_forward", hidden * f.bias, is_owned=f.owned)
    if f.adapter_rank:
        yield matrix("mlp.adapter.down", "feed_forward", width, f.adapter_rank)
        yield matrix("mlp.adapter.up", "feed_forward", f.adapter_rank, len(into) * f.width)


def _experts(f: Experts, hidden: int) -> Iterator[Weight]:
    slots = f.experts + f.zero_experts
    if f.router:
        yield matrix("mlp.gate", "router", hidden, slots)
    yield vector("mlp.gate.bias", "router", slots * f.router_bias)
    yield vector("mlp.gate.elements", "router", f.router_elements)
    width = f.latent or hidden
    into = ("gate_proj", "up_proj") if f.gated else ("up_proj",)
    shapes = [(leaf, f.width, width) for leaf in into] + [("down_proj", width, f.width)]
    for leaf, rows, columns in shapes:
        yield Weight(
            name=f"mlp.experts.{leaf}", role="experts", rows=rows, columns=columns, copies=f.experts, split="experts"
        )
        if f.bias:
            yield Weight(
                name=f"mlp.experts.{leaf}.bias",
                role="experts",
                rows=rows,
                copies=f.experts,
                multiplied=False,
                split="experts",
            )
    if f.latent:
        yield matrix("mlp.latent_down", "shared", hidden, f.latent)
        yield matrix("mlp.latent_up", "shared", f.latent, hidden)
        yield vector("mlp.latent_norm", "norm", f.latent * f.latent_norm)
    if f.shared_width:
        for leaf in into:
            yield matrix(f"mlp.shared_experts.{leaf}", "shared", hidden, f.shared_width, "width")
        yield matrix("mlp.shared_experts.down_proj", "shared", f.shared_width, hidden, "width")
        yield matrix("mlp.shared_expert_gate", "router", hidden, int(f.shared_gate))
