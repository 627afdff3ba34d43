"""Which kind of mixer and of feed-forward stands in each layer.

Configs say this in some twenty ways. Each is one small function here that returns
one word per layer, or None where its fields are absent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from rackmath.errors import InputError, NotUnderstood
from rackmath.models.config.conventions import Convention
from rackmath.models.config.convolved import is_convolved
from rackmath.models.config.fields import LAYERS, Fields, checked_integer

MIXERS = {
    "full_attention": "full",
    "attention": "full",
    "global": "full",
    "global_attention": "full",
    "*": "full",
    "deepseek_sparse_attention": "full",
    "indexed_attention": "full",
    "mla": "full",
    "minimax_m3_sparse": "full",
    "sliding_attention": "window",
    "sliding_window_attention": "window",
    "local": "window",
    "local_attention": "window",
    "sliding": "window",
    "chunked_attention": "chunk",
    "linear_attention": "recurrent",
    "lightning_attention": "recurrent",
    "kda": "recurrent",
    "gated_delta_net": "recurrent",
    "mamba": "recurrent",
    "mamba2": "recurrent",
    "recurrent": "recurrent",
    "M": "recurrent",
    "conv": "recurrent",
    "hybrid": "shared",
    "hybrid_sliding": "window",
    "compressed_sparse_attention": "full",
    "heavily_compressed_attention": "full",
}
"""Spellings of mixers in layer lists."""

BLOCKS = {"mlp": "dense", "-": "dense", "dense": "dense", "moe": "moe", "E": "moe"}
"""Spellings of feed-forward blocks where a layer is a single block."""


def layer_count(fields: Fields) -> int:
    """Count decoder layers, from the count or, where it is absent, the pattern."""
    count = fields.optional(*LAYERS, kind="layers", low=1)
    if count is not None:
        return count
    pattern = fields.find("layers_block_type", "hybrid_override_pattern", "layer_types")
    if pattern is not None and isinstance(pattern[1], (str, list)) and pattern[1]:
        length = len(cast("Sequence[Any]", pattern[1]))
        fields.default("num_hidden_layers", f"{length} (length of {pattern[0]})")
        return checked_integer(pattern[0], length, kind="layers", low=1)
    raise InputError("num_hidden_layers", None, "the config has no such field; give its value")


def single_blocks(fields: Fields, layers: int) -> list[str] | None:
    """Words for models whose layers are one block each: mixer or feed-forward (Nemotron-H)."""
    names = ("hybrid_override_pattern", "layers_block_type")
    blocks = fields.find(*names)
    if blocks is None:
        return None
    name, pattern = blocks
    if not isinstance(pattern, (str, list)):
        raise InputError(name, pattern, "write a string or a list with one entry per layer")
    entries = [c for c in cast("Sequence[Any]", pattern) if c != "|"]
    if not any(_word(name, entry) in BLOCKS for entry in entries):
        return None
    words = [BLOCKS.get(_word(name, entry)) or _mixer(name, entry) for entry in entries]
    return _fitted(name, words, layers, fields)


def mixer_kinds(fields: Fields, layers: int, convention: Convention) -> list[str]:
    """Return one of full, window, chunk, recurrent, shared per layer."""
    for rule in _MIXER_RULES:
        kinds = rule(fields, layers)
        if kinds is not None:
            return kinds
    return _window_kinds(fields, layers, convention)


def _listed(fields: Fields, layers: int) -> list[str] | None:
    for name in ("layer_types", "layers_block_type", "block_types", "_block_types"):
        entries = fields.items(name)
        if entries:
            words = [_mixer(name, entry) for entry in entries]
            if is_convolved(fields):
                words = ["full" if word == "shared" else word for word in words]
            if name.endswith("block_types"):
                words = [words[i % len(words)] for i in range(layers)]
            return _fitted(name, words, layers, fields)
    return None


def _one_based(fields: Fields, layers: int) -> list[str] | None:
    """Read ``linear_attn_config``: layer numbers start at 1."""
    linear_fields = fields.mapping("linear_attn_config")
    if linear_fields is None:
        return None
    inner = Fields(linear_fields)
    full, linear = inner.items("full_attn_layers"), inner.items("kda_layers")
    if full is None and linear is None:
        raise InputError("linear_attn_config", sorted(linear_fields), "give full_attn_layers or kda_layers")
    full_layers = {checked_integer("full_attn_layers", i, kind="layers", low=1) for i in full or []}
    if full is None:
        linear_layers = {checked_integer("kda_layers", i, kind="layers", low=1) for i in linear or []}
        full_layers = set(range(1, layers + 1)) - linear_layers
    return ["full" if i + 1 in full_layers else "recurrent" for i in range(layers)]


def _grouped_layers(fields: Fields, layers: int) -> list[str] | None:
    """Ling 3.0: the last layer of each group has full attention."""
    size = fields.optional("layer_group_size", kind="layers", low=1) if fields.has("kda_safe_gate") else None
    return None if size is None else ["full" if (i + 1) % size == 0 else "recurrent" for i in range(layers)]


def _flags(fields: Fields, layers: int) -> list[str] | None:
    """Lists of 0 and 1 per layer, each with its own meaning of 1."""
    for name, key, zero in (
        ("attn_type_list", "full", "recurrent"),
        ("hybrid_layer_pattern", "window", "full"),
    ):
        entries = fields.items(name)
        if entries:
            flags = [checked_integer(name, e, kind="count", low=0) for e in entries]
            return _fitted(name, [key if flag else zero for flag in flags], layers, fields)
    return None


def _chunked(fields: Fields, layers: int) -> list[str] | None:
    """Llama 4: layers with rope attend inside chunks, layers without to everything."""
    if not fields.has("attention_chunk_size") or fields.has("hybrid_layer_pattern", "sliding_window"):
        return None
    rope = fields.items("no_rope_layers")
    if not rope:
        period = fields.integer("no_rope_layer_interval", kind="layers", default=4)
        rope = [int((i + 1) % period != 0) for i in range(layers)]
    return _fitted("no_rope_layers", ["chunk" if flag else "full" for flag in rope], layers, fields)


def _periodic(fields: Fields, layers: int) -> list[str] | None:
    """Every n-th layer is full attention, the rest recurrent."""
    period = fields.optional("full_attention_interval", "layer_group_size", kind="layers", low=1)
    if period is not None:
        return ["full" if (i + 1) % period == 0 else "recurrent" for i in range(layers)]
    period = fields.optional("attn_layer_period", kind="layers", low=1)
    if period is not None:
        offset = fields.integer("attn_layer_offset", kind="layers", low=0, default=0)
        return ["full" if i % period == offset else "recurrent" for i in range(layers)]
    return None


def _indexed(fields: Fields, layers: int) -> list[str] | None:
    """Lists of the (0-based) layers that have attention."""
    if "attn_layer_indices" in fields.data and fields.has("mamba_n_heads") and not fields.has("mamba_d_ssm"):
        full_layers = {
            checked_integer("attn_layer_indices", e, kind="layers", low=0)
            for e in fields.items("attn_layer_indices") or []
        }
        return ["full" if i in full_layers else "recurrent" for i in range(layers)]
    for name, inside in (("full_attn_idxs", "full"), ("hybrid_layer_ids", "shared")):
        entries = fields.items(name)
        if entries and not fields.has("mamba_d_ssm"):
            full_layers = {checked_integer(name, e, kind="layers", low=0) for e in entries}
            return [inside if i in full_layers else "recurrent" for i in range(layers)]
    return None


def _no_attention(fields: Fields, layers: int) -> list[str] | None:
    """Pure state-space models have no attention heads at all."""
    heads = ("num_attention_heads", "n_head", "n_heads", "num_heads")
    state = fields.has("state_size", "ssm_state_size", "qk_dim_factor")
    if state and not fields.has(*heads[:3]):
        return ["recurrent"] * layers
    return None


_MIXER_RULES: tuple[Callable[[Fields, int], list[str] | None], ...] = (
    _listed,
    _one_based,
    _grouped_layers,
    _flags,
    _chunked,
    _periodic,
    _indexed,
    _no_attention,
)


def _window_kinds(fields: Fields, layers: int, convention: Convention) -> list[str]:
    """Windows by pattern, period or everywhere."""
    window = fields.has("sliding_window", "sliding_window_size", "attention_window_size", "window_size")
    if fields.choice("use_sliding_window") is False or not window:
        return ["full"] * layers
    pattern = fields.find("sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers")
    if pattern is not None and isinstance(pattern[1], str):
        words = ["window" if letter in "Ll" else "full" for letter in pattern[1]]
        if not words:
            raise InputError(pattern[0], pattern[1], "write a pattern like LLLG")
        return [words[i % len(words)] for i in range(layers)]
    period = None if pattern is None else checked_integer(*pattern, kind="layers", low=1)
    period = period or convention.window_period
    if period:
        if pattern is None:
            fields.default("sliding_window_pattern", period)
        return ["full" if (i + 1) % period == 0 else "window" for i in range(layers)]
    if fields.choice("use_sliding_window") is True:
        first = fields.integer("max_window_layers", kind="layers", low=0, default=0)
        return ["window" if i >= first else "full" for i in range(layers)]
    return ["window" if convention.window_everywhere else "full"] * layers


def feed_forward_kinds(fields: Fields, layers: int) -> list[str]:
    """Return dense or moe per layer of a model that has experts."""
    entries = fields.items("mlp_layer_types")
    if entries:
        words = ["dense" if _word("mlp_layer_types", e) in ("dense", "mlp") else "moe" for e in entries]
        return _fitted("mlp_layer_types", words, layers, fields)
    layer_list = fields.items("moe_layers_enum", "moe_layers")
    if layer_list:
        routed_layers = {checked_integer("moe_layers_enum", e, kind="layers", low=0) for e in layer_list}
        return ["moe" if i in routed_layers else "dense" for i in range(layers)]
    frequency = fields.find("moe_layer_freq")
    if frequency is not None and isinstance(frequency[1], list):
        flags = [
            checked_integer("moe_layer_freq", e, kind="count", low=0) for e in fields.items("moe_layer_freq") or []
        ]
        return _fitted("moe_layer_freq", ["moe" if flag else "dense" for flag in flags], layers, fields)
    return [_moe_word(fields, i, layers) for i in range(layers)]


def _moe_word(fields: Fields, layer: int, layers: int) -> str:
    """Judge one layer by counts, periods and offsets; all conditions that are stated must hold."""
    dense_first = fields.optional(
        "first_k_dense_replace", "num_dense_layers", "moe_layer_num_skipped", "n_dense_layers", kind="layers"
    )
    if dense_first is not None and layer < dense_first:
        return "dense"
    start = fields.optional("moe_layer_start_index", kind="layers")
    end = fields.optional("moe_layer_end_index", kind="layers", low=-1)
    if end == -1:
        end = layers - 1
    if (start is not None and layer < start) or (end is not None and layer > end):
        return "dense"
    only = fields.items("mlp_only_layers") or []
    if layer in {checked_integer("mlp_only_layers", e, kind="layers", low=0) for e in only}:
        return "dense"
    # (field, offset field, phase): layer + phase must be a multiple of the period.
    for name, phase in (
        ("decoder_sparse_step", 1),
        ("interleave_moe_layer_step", 1),
        ("moe_layer_interval", 1),
        ("moe_layer_freq", 0),
    ):
        period = fields.optional(name, kind="layers", low=1)
        if period is not None and (layer + phase) % period != 0:
            return "dense"
    period = fields.optional("expert_layer_period", kind="layers", low=1)
    if period is not None and layer % period != fields.integer("expert_layer_offset", kind="layers", low=0, default=1):
        return "dense"
    return "moe"


def _word(name: str, entry: object) -> str:
    if not isinstance(entry, str):
        raise InputError(name, entry, "write words, one per layer")
    return entry


def _mixer(name: str, entry: object) -> str:
    word = _word(name, entry)
    if word not in MIXERS:
        raise NotUnderstood(name, word, f"known kinds are {', '.join(sorted(MIXERS))}")
    return MIXERS[word]


def _fitted(name: str, words: Sequence[str], layers: int, fields: Fields) -> list[str]:
    """Cut a pattern that includes multi-token-prediction layers; refuse a short one."""
    if len(words) < layers:
        raise InputError(name, f"{len(words)} entries", f"num_hidden_layers is {layers}; give one entry per layer")
    extra = len(words) - layers
    if extra:
        stated_count = fields.optional(
            "num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", kind="layers"
        )
        if extra > max(stated_count or 0, 8):
            raise InputError(name, f"{len(words)} entries", f"num_hidden_layers is {layers}; the two contradict")
        fields.default(name, f"last {extra} of {len(words)} entries taken as MTP layers")
    return list(words[:layers])
