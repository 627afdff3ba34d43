"""Put mixers, feed-forward blocks and norms together, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from rackmath.errors import InputError
from rackmath.models.architecture import Dense, Experts, FeedForward, Layer, Weight
from rackmath.models.config.attention import attention, head_dim, kv_heads, query_heads
from rackmath.models.config.conventions import Convention
from rackmath.models.config.convolved import convolved, is_convolved
from rackmath.models.config.feed_forward import dense, expert_count, experts
from rackmath.models.config.fields import Fields, checked_integer
from rackmath.models.config.pattern import feed_forward_kinds, mixer_kinds, single_blocks
from rackmath.models.config.recurrent import recurrent_mixer
from rackmath.models.config.special import layer_extras, shared_block
from rackmath.models.mixers import Grouped, Mixer
from rackmath.models.weights import matrix


def build_layers(fields: Fields, count: int, hidden: int, convention: Convention) -> list[Layer]:
    """Build all decoder layers of a text model, in order."""
    if fields.has("block_configs"):
        return _searched_layers(fields, count, hidden, convention)
    blocks = single_blocks(fields, count)
    if blocks is not None:
        return [_single_block(fields, word, i, hidden, convention) for i, word in enumerate(blocks)]
    kinds = mixer_kinds(fields, count, convention)
    has_experts = (
        any(expert_count(fields, i) > 0 for i in range(count)) and fields.choice("enable_moe_block") is not False
    )
    forwards = feed_forward_kinds(fields, count) if has_experts else ["dense"] * count
    shared_from = _first_sharing_layer(fields, count)
    layers: list[Layer] = []
    seen_shared = 0
    for i, (kind, forward) in enumerate(zip(kinds, forwards, strict=True)):
        if kind == "shared":
            layers.append(shared_block(fields, hidden, seen_shared, convention))
            seen_shared += 1
            continue
        mixers = _mixers(fields, kind, i, hidden, convention)
        if i >= shared_from or not _owns_cache(fields, i):
            mixers = tuple(_without_cache(m) for m in mixers)
        blocks_here = _feed_forwards(fields, forward, i, hidden, convention, i >= shared_from, kind)
        parallel = _parallel(fields, convention)
        extras = layer_extras(fields, hidden)
        if is_convolved(fields) and isinstance(mixers[0], Grouped):
            mixer, more = convolved(fields, mixers[0], hidden, i)
            mixers, extras = (mixer,), (*extras, *more)
        layers.append(
            Layer(
                mixers=mixers,
                feed_forwards=blocks_here,
                norm_elements=_norms(fields, hidden, convention, parallel, blocks_here, i),
                extras=extras,
                parallel=parallel,
            )
        )
    return layers


def _mixers(fields: Fields, kind: str, layer: int, hidden: int, convention: Convention) -> tuple[Mixer, ...]:
    if kind == "recurrent":
        return (recurrent_mixer(fields, hidden, convention),)
    mixer = attention(fields, kind, layer, hidden, convention)
    if isinstance(mixer, Grouped) and layer in _cross_layers(fields):
        return (replace(mixer, cross=True, norm_elements=2 * mixer.key_dim),)
    if fields.has("mamba_d_ssm"):
        # Falcon-H1 runs a state-space block beside attention in each layer.
        return (mixer, recurrent_mixer(fields, hidden))
    if fields.has("zero_expert_num"):
        # LongCat: two attentions and two dense blocks around one mixture.
        return (mixer, mixer)
    return (mixer,)


def _cross_layers(fields: Fields) -> set[int]:
    """Layers of Mllama that attend to vision tokens instead of text."""
    entries = fields.items("cross_attention_layers") or []
    return {checked_integer("cross_attention_layers", entry, kind="layers", low=0) for entry in entries}


def _feed_forwards(
    fields: Fields, forward: str, layer: int, hidden: int, convention: Convention, sharing: bool, kind: str
) -> tuple[FeedForward, ...]:
    pure_state_space = kind == "recurrent" and not fields.has(
        "num_attention_heads", "n_head", "n_heads", "ffn_proj_factor", "num_heads"
    )
    if pure_state_space or (kind == "recurrent" and fields.has("state_size", "hybrid_layer_ids")):
        return ()
    if kind == "recurrent" and fields.has("n_mamba_heads"):
        return ()
    if forward == "moe":
        mixture = experts(fields, layer, hidden, convention)
        if fields.choice("enable_moe_block"):
            return (dense(fields, layer, hidden, convention), mixture)
        if fields.has("zero_expert_num"):
            block = dense(fields, layer, hidden, convention)
            return (block, block, mixture)
        return (mixture,)
    if expert_count(fields, layer) == 0 and fields.has("num_local_experts") and fields.has("shared_intermediate_size"):
        # A hybrid Granite without experts keeps the block that would be its shared expert.
        return (replace(dense(fields, layer, hidden, convention), width=fields.integer("shared_intermediate_size")),)
    block = dense(fields, layer, hidden, convention)
    if sharing and fields.choice("use_double_wide_mlp"):
        block = replace(block, width=2 * block.width)
    fields.ignore(("use_double_wide_mlp", "shared_intermediate_size"))
    return (block,)


def _norms(
    fields: Fields, hidden: int, convention: Convention, parallel: bool, blocks: tuple[FeedForward, ...], layer: int
) -> int:
    """Elements of the norms around the blocks of one layer."""
    norms = convention.norms
    if not blocks:
        norms = 1
    if fields.has("zero_expert_num"):
        norms = 4
    if len(blocks) == 2:
        # A dense block beside a mixture (Gemma 4).
        norms += 3
    falcon = fields.has("parallel_attn")
    if falcon and parallel:
        count = fields.optional("num_ln_in_parallel_attn", kind="count", low=1)
        norms = count or (2 if fields.choice("new_decoder_architecture") else 1)
    if fields.choice("use_sandwich_norm"):
        norms = 4
    gates = 2 if layer in _cross_layers(fields) else 0
    norms += convention.expert_norm and any(isinstance(block, Experts) for block in blocks)
    return norms * hidden * convention.norm_vectors + convention.extra_norms_elements + gates


def _parallel(fields: Fields, convention: Convention) -> bool:
    switch = fields.choice("parallel_attn", "use_parallel_residual")
    return convention.parallel if switch is None else switch


def _first_sharing_layer(fields: Fields, count: int) -> int:
    """Index of the first layer that reads the cache of an earlier one."""
    sharing = fields.optional("num_kv_shared_layers", kind="layers") or 0
    if sharing >= count and sharing > 0:
        raise InputError("num_kv_shared_layers", sharing, f"fewer than the {count} layers can share")
    return count - sharing


def _owns_cache(fields: Fields, layer: int) -> bool:
    """Cross-layer attention: one layer of each group of ``cla_share_factor`` stores."""
    if not fields.choice("use_cla"):
        fields.ignore(("cla_share_factor",))
        return True
    return layer % fields.integer("cla_share_factor", kind="layers", default=2) == 0


def _without_cache(mixer: Mixer) -> Mixer:
    if isinstance(mixer, Grouped):
        # Only the query norm remains; it is as wide as a head or as all of them.
        total = mixer.norm_elements
        groups = mixer.query_heads + mixer.kv_heads
        key_share = total // 2 if total == 2 * mixer.key_dim else total * mixer.query_heads // groups
        return replace(mixer, stores=False, norm_elements=key_share)
    return mixer


def _single_block(fields: Fields, word: str, layer: int, hidden: int, convention: Convention) -> Layer:
    """Nemotron-H: each layer is one block behind one norm."""
    norms = hidden * convention.norm_vectors
    if word == "dense":
        return Layer(feed_forwards=(dense(fields, layer, hidden, convention),), norm_elements=norms)
    if word == "moe":
        return Layer(feed_forwards=(experts(fields, layer, hidden, convention),), norm_elements=norms)
    return Layer(mixers=_mixers(fields, word, layer, hidden, convention), norm_elements=norms)


def _searched_layers(fields: Fields, count: int, hidden: int, convention: Convention) -> list[Layer]:
    """Nemotron-NAS: ``block_configs`` says for each layer what was kept of it."""
    configs = fields.items("block_configs") or []
    if len(configs) != count:
        raise InputError("block_configs", f"{len(configs)} entries", f"num_hidden_layers is {count}")
    heads = query_heads(fields)
    dim = head_dim(fields, hidden, heads)
    return [_searched_layer(fields, entry, heads, dim, hidden, convention) for entry in configs]


def _searched_layer(fields: Fields, entry: object, heads: int, dim: int, hidden: int, convention: Convention) -> Layer:
    if not isinstance(entry, Mapping):
        raise InputError("block_configs", entry, "write an object per layer")
    block = Fields(cast("Mapping[str, Any]", entry))
    attn = Fields(block.mapping("attention") or {})
    ffn = Fields(block.mapping("ffn") or {})
    mixers: tuple[Mixer, ...] = ()
    norms = 0
    extras: tuple[Weight, ...] = ()
    if attn.choice("replace_with_linear"):
        extras = (matrix("self_attn.linear", "other", hidden, hidden),)
        norms += 1
    elif not attn.choice("no_op"):
        per_group = attn.integer("n_heads_in_group", kind="heads", default=heads // kv_heads(fields, heads, 0))
        if heads % per_group:
            raise InputError("n_heads_in_group", per_group, f"must divide {heads} heads")
        groups = heads // per_group
        mixers = (Grouped(query_heads=heads, kv_heads=groups, key_dim=dim, value_dim=dim),)
        norms += 1
    feed: tuple[FeedForward, ...] = ()
    if not ffn.choice("no_op"):
        multiple = ffn.number("ffn_mult", default=4.0)
        feed = (Dense(width=_searched_width(multiple, hidden)),)
        norms += 1
    return Layer(
        mixers=mixers, feed_forwards=feed, norm_elements=norms * hidden * convention.norm_vectors, extras=extras
    )


def _searched_width(multiple: float, hidden: int) -> int:
    """DeciLM's rule: 2/3 of the multiple, rounded up to 256."""
    width = int(2 * multiple * hidden / 3)
    return 256 * -(-width // 256)
