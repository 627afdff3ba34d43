"""Fields of a config -> the attention of one layer."""

from __future__ import annotations

from rackmath.errors import InputError
from rackmath.models.config.conventions import Convention
from rackmath.models.config.fields import Fields, checked_integer
from rackmath.models.mixers import BlockIndex, Compressed, Grouped, Indexer, Latent

HEADS = ("num_attention_heads_per_layer", "num_attention_heads", "n_head", "n_heads", "num_heads", "n_attention_heads")
KV_HEADS = (
    "num_key_value_heads",
    "n_head_kv",
    "num_kv_heads",
    "n_kv_heads",
    "kv_n_heads",
    "multi_query_group_num",
    "num_attention_groups",
    "num_query_groups",
)
HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels", "hidden_size_per_head", "d_kv", "head_size")
WINDOW = ("sliding_window", "sliding_window_size", "attention_window_size", "window_size")


def attention(
    fields: Fields, kind: str, layer: int, hidden: int, convention: Convention
) -> Grouped | Latent | Compressed:
    """Build the attention of ``layer``; ``kind`` is full, window or chunk.

    Detection is by fields: ``compress_ratios`` marks V4, ``kv_lora_rank`` MLA,
    anything else is grouped.
    """
    if fields.has("compress_ratios", "compress_rates"):
        return _compressed(fields, layer)
    if fields.has("kv_lora_rank") and fields.has("qk_nope_head_dim"):
        return _latent(fields, layer, hidden, convention)
    return _grouped(fields.at_layer(layer), kind, layer, hidden, convention)


def query_heads(fields: Fields, layer: int = 0) -> int:
    """Query heads of a layer; lists give one per layer."""
    heads = fields.per_layer(*HEADS, layer=layer, kind="heads", low=1)
    if heads is None:
        raise InputError("num_attention_heads", None, "the config has no such field; give its value")
    return heads


def head_dim(fields: Fields, hidden: int, heads: int) -> int:
    """Width of a head: stated, or hidden width divided by heads."""
    width = fields.optional(*HEAD_DIM)
    if width:
        return width
    if hidden % heads:
        raise InputError("head_dim", None, f"hidden_size {hidden} does not divide by {heads} heads; give head_dim")
    fields.default("head_dim", f"{hidden // heads} (hidden_size / num_attention_heads)")
    return hidden // heads


def kv_heads(fields: Fields, heads: int, layer: int) -> int:
    """Key-value heads: stated, one (multi-query), or as many as query heads."""
    new_falcon = fields.choice("new_decoder_architecture")
    is_multi_query = fields.choice("multi_query", "multi_query_attention")
    has_groups = fields.has("multi_query_group_num")
    if is_multi_query and not new_falcon and not has_groups:
        fields.ignore(KV_HEADS)
        return 1
    count = fields.per_layer(*KV_HEADS, layer=layer, kind="heads", low=1)
    if count is None:
        fields.default(KV_HEADS[0], f"{heads} (as many as query heads)")
        return heads
    return count


def _grouped(fields: Fields, kind: str, layer: int, hidden: int, convention: Convention) -> Grouped:
    heads = query_heads(fields, layer)
    groups = kv_heads(fields, heads, layer)
    key = head_dim(fields, hidden, heads)
    value = fields.optional("v_head_dim") or key
    value_from_key = False
    if kind == "window":
        heads, groups, key, value = _window_shape(fields, heads, groups, key, value)
    elif fields.has("global_head_dim"):
        key = value = fields.integer("global_head_dim")
        global_heads = fields.optional("num_global_key_value_heads", kind="heads", low=1)
        value_from_key = bool(fields.choice("attention_k_eq_v"))
        groups = global_heads or groups
    fields.ignore(("global_head_dim", "num_global_key_value_heads", "attention_k_eq_v"))
    if heads % groups:
        raise InputError(KV_HEADS[0], groups, f"{heads} query heads do not divide into {groups} groups")
    query_bias, kv_bias, out_bias = _biases(fields, convention)
    return Grouped(
        query_heads=heads,
        kv_heads=groups,
        key_dim=key,
        value_dim=value,
        query_rank=fields.optional("share_q_dim", low=1),
        window=fields.integer(*WINDOW, kind="tokens") if kind == "window" else None,
        chunk=fields.integer("attention_chunk_size", kind="tokens") if kind == "chunk" else None,
        gate_width=_gate_width(fields, convention, heads, value),
        query_bias=query_bias,
        kv_bias=kv_bias,
        out_bias=out_bias,
        norm_elements=_qk_norm(fields, convention, heads, groups, key),
        sinks=_sinks(fields, kind, convention),
        fused=convention.fused_queries,
        value_from_key=value_from_key,
        blocks=_block_index(fields, layer),
    )


def _gate_width(fields: Fields, convention: Convention, heads: int, value: int) -> int:
    """Width of the gate on the output: one value per element, or one per head."""
    if fields.choice("use_head_wise_attn_gate", "use_attention_gate", "gating"):
        return heads
    gate = fields.choice("attn_output_gate", "attention_output_gate")
    has_gate = convention.output_gate if gate is None else gate
    return heads * value if has_gate else 0


def _window_shape(fields: Fields, heads: int, groups: int, key: int, value: int) -> tuple[int, int, int, int]:
    """Window layers may have head counts and widths of their own (MiMo-V2, Step-3.7)."""
    other_setting = fields.mapping("attention_other_setting")
    if other_setting is not None:
        other_fields = Fields(other_setting)
        heads = other_fields.integer(*HEADS, kind="heads", default=heads)
        groups = other_fields.integer(*KV_HEADS, kind="heads", default=groups)
        key = other_fields.integer(*HEAD_DIM, default=key)
        return heads, groups, key, other_fields.integer("v_head_dim", default=key)
    heads = fields.optional("swa_num_attention_heads", kind="heads", low=1) or heads
    groups = fields.optional("swa_num_key_value_heads", kind="heads", low=1) or groups
    swa_key = fields.optional("swa_head_dim", low=1)
    swa_value = fields.optional("swa_v_head_dim", low=1) or (value if swa_key is None else swa_key)
    return heads, groups, swa_key or key, swa_value


def _biases(fields: Fields, convention: Convention) -> tuple[bool, bool, bool]:
    """Biases on queries, on keys and values, and on the output."""
    every = fields.choice("use_bias", "bias", "enable_bias", "add_bias_linear")
    bias = fields.choice("attention_bias", "qkv_bias", "use_qkv_bias", "add_qkv_bias")
    query = bias if bias is not None else (every if every is not None else convention.query_bias)
    if convention.query_bias and convention.out_bias is False:
        # The class has the bias whatever the general switch says (Qwen2, Qwen).
        query = True if bias is None else query
    kv = convention.kv_bias if convention.kv_bias is not None else query
    out = fields.choice("attention_out_bias", "attention_output_bias")
    if out is None:
        qkv_bias = every if bias is None or fields.has("add_qkv_bias") else bias
        out = convention.out_bias if convention.out_bias is not None and every is None else bool(qkv_bias)
    if out is False and every is None and bias is None and convention.out_bias is None:
        out = query
    return query, kv, bool(out)


def _qk_norm(fields: Fields, convention: Convention, heads: int, groups: int, dim: int) -> int:
    """Elements of the norms on queries and keys."""
    switch = fields.choice("use_qk_norm", "qk_layernorm", "add_qk_norm", "qk_norm")
    kind = convention.qk_norm if switch is None else (convention.qk_norm_if_on if switch else "none")
    norm_type = fields.text("qk_norm_type")
    if norm_type is not None and kind not in ("none", "free"):
        kind = {"per_layer": "full", "per_head": "head"}.get(norm_type, kind)
    if kind == "head":
        return 2 * dim * max(1, convention.norm_vectors)
    return (heads + groups) * dim if kind == "full" else 0


def _sinks(fields: Fields, kind: str, convention: Convention) -> bool:
    name = "add_swa_attention_sink_bias" if kind == "window" else "add_full_attention_sink_bias"
    fields.ignore(("add_swa_attention_sink_bias", "add_full_attention_sink_bias"))
    switch = fields.choice(name)
    return convention.sinks if switch is None else switch


def _block_index(fields: Fields, layer: int) -> BlockIndex | None:
    index_fields = fields.mapping("sparse_attention_config")
    if index_fields is None:
        return _resolved_block_index(fields, layer)
    inner = Fields(index_fields)
    if inner.choice("use_sparse_attention") is False:
        return None
    if inner.per_layer("sparse_attention_freq", layer=layer, kind="count") == 0:
        return None
    dim = inner.integer("sparse_index_dim")
    return BlockIndex(
        heads=inner.integer("sparse_num_index_heads", kind="heads"),
        dim=dim,
        block=inner.integer("sparse_block_size", kind="tokens"),
        blocks=inner.integer("sparse_topk_blocks", kind="tokens"),
        local_blocks=inner.integer("sparse_local_block", kind="tokens", low=0, default=0),
        norm_elements=2 * dim,
    )


def _resolved_block_index(fields: Fields, layer: int) -> BlockIndex | None:
    """The same index in a config that transformers wrote: flat fields, and a type per layer."""
    kinds = fields.items("layer_types") or []
    if not fields.has("index_block_size") or layer >= len(kinds) or kinds[layer] != "minimax_m3_sparse":
        return None
    dim = fields.integer("index_head_dim")
    return BlockIndex(
        heads=fields.integer("index_n_heads", kind="heads"),
        dim=dim,
        block=fields.integer("index_block_size", kind="tokens"),
        blocks=fields.integer("index_topk_blocks", kind="tokens"),
        local_blocks=fields.integer("index_local_blocks", kind="tokens", low=0, default=0),
        norm_elements=2 * dim,
    )


def _latent(fields: Fields, layer: int, hidden: int, convention: Convention) -> Latent:
    heads = query_heads(fields, layer)
    rope = fields.integer("qk_rope_head_dim", low=0)
    value = fields.integer("v_head_dim", default=fields.integer("qk_nope_head_dim"))
    gate = fields.choice("mla_use_output_gate")
    fields.ignore((*KV_HEADS, *HEAD_DIM, "qk_head_dim"))
    return Latent(
        query_heads=heads,
        query_rank=fields.optional("q_lora_rank", low=1),
        kv_rank=fields.integer("kv_lora_rank"),
        nope_dim=fields.integer("qk_nope_head_dim"),
        rope_dim=rope,
        value_dim=value,
        bias=bool(fields.choice("attention_bias")),
        gate_width=heads if convention.full_rank_gates else heads * value if gate else 0,
        indexer=_indexer(fields, layer),
    )


def _indexer(fields: Fields, layer: int) -> Indexer | None:
    if not fields.has("index_topk"):
        return None
    types = fields.items("indexer_types")
    has_own = True
    if types:
        if layer >= len(types):
            raise InputError("indexer_types", f"{len(types)} entries", f"give one entry for layer {layer} too")
        has_own = types[layer] == "full"
    elif fields.has("index_topk_freq"):
        # A trimmed copy: the frequency is there, the list is not.
        fields.default("indexer_types", "full on every layer")
    return Indexer(
        heads=fields.integer("index_n_heads", kind="heads"),
        dim=fields.integer("index_head_dim"),
        topk=fields.integer("index_topk", kind="tokens"),
        owned=has_own,
    )


def _compress_ratio(fields: Fields, layer: int) -> int:
    """Tokens per compressed entry: listed per layer, or by the layer's type in later configs."""
    rates = fields.mapping("compress_rates")
    name = "compress_ratios" if rates is None else "layer_types"
    entries = fields.items(name) or []
    if layer >= len(entries):
        raise InputError(name, f"{len(entries)} entries", f"give one entry for layer {layer} too")
    if rates is None:
        return checked_integer(name, entries[layer], kind="tokens", low=0)
    kind = str(entries[layer])
    return checked_integer("compress_rates", rates.get(kind, 0), kind="tokens", low=0)


def _compressed(fields: Fields, layer: int) -> Compressed:
    ratio = _compress_ratio(fields, layer)
    heads, dim = query_heads(fields, layer), fields.integer("head_dim")
    groups = fields.integer("o_groups", kind="heads")
    if heads % groups:
        raise InputError("o_groups", groups, f"{heads} heads do not divide into {groups} groups")
    fields.ignore((*KV_HEADS, "qk_rope_head_dim"))
    # The overlapping, indexed compressor belongs to the small ratio; the large one reads every entry.
    has_index = 0 < ratio <= 16
    indexer = _indexer(fields, layer)
    return Compressed(
        query_heads=heads,
        head_dim=dim,
        query_rank=fields.integer("q_lora_rank"),
        out_groups=groups,
        out_rank=fields.integer("o_lora_rank"),
        window=fields.integer("sliding_window", kind="tokens"),
        ratio=ratio,
        indexer=indexer if has_index else None,
    )
