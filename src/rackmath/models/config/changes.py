"""A config with other numbers: what ``--set model.experts=512`` means."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

from rackmath.errors import InputError
from rackmath.models.config.fields import checked_integer
from rackmath.units import parse

NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
        "hidden": ("hidden_size", "n_embd", "d_model"),
        "width": ("intermediate_size", "ffn_hidden_size", "n_inner"),
        "heads": ("num_attention_heads", "n_head", "n_heads"),
        "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_kv_heads"),
        "head_dim": ("head_dim",),
        "kv_rank": ("kv_lora_rank",),
        "vocabulary": ("vocab_size",),
        "window": ("sliding_window", "sliding_window_size"),
        "experts": ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts"),
        "top_k": ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "experts_per_token"),
        "expert_width": ("moe_intermediate_size",),
        "context": ("max_position_embeddings",),
    }
)
"""Short names, and the fields of a config that they stand for."""
_NESTED = ("text_config", "language_config", "llm_config")


def changed_config(config: Mapping[str, Any], key: str, value: str) -> dict[str, Any]:
    """A config with one whole number changed.

    Parameters
    ----------
    key : str
        One of :data:`NAMES`, or a field of the config.
    value : str
        A number, or a factor such as "2x".

    Lists with an entry per layer are repeated, or cut, to a new number of layers.
    Errors: :class:`InputError` for a field that the config has not, and values that are none.
    """
    changed = dict(config)
    part = next((name for name in _NESTED if isinstance(changed.get(name), Mapping)), None)
    inner = changed if part is None else dict(cast("Mapping[str, Any]", changed[part]))
    fields = NAMES.get(key, (key,))
    field = next((name for name in fields if _is_number(inner.get(name))), None)
    if field is None:
        known = ", ".join(numbers_of(config))
        raise InputError(f"model.{key}", value, f"the config has no such number; it has {known}")
    old = float(inner[field])
    new = old * parse(value[:-1], "1", f"model.{key}") if value.endswith("x") else parse(value, "1", f"model.{key}")
    if not 1 <= new <= 1e9:
        raise InputError(f"model.{key}", value, "write a number from 1 to 1e9")
    inner[field] = round(new)
    if field in NAMES["layers"]:
        checked_integer(f"model.{key}", round(new), kind="layers", low=1)
        inner = {name: _per_layer(entry, round(old), round(new)) for name, entry in inner.items()}
    return inner if part is None else {**changed, part: inner}


def numbers_of(config: Mapping[str, Any]) -> list[str]:
    """Those of :data:`NAMES` that a config has."""
    part = next((name for name in _NESTED if isinstance(config.get(name), Mapping)), None)
    inner = config if part is None else cast("Mapping[str, Any]", config[part])
    return [name for name, spellings in NAMES.items() if any(_is_number(inner.get(s)) for s in spellings)]


def _per_layer(entry: Any, old: int, new: int) -> Any:
    """A list with an entry per layer at another number of layers; anything else as it is."""
    if not isinstance(entry, list):
        return entry
    if len(cast("list[Any]", entry)) != old:
        return cast("list[Any]", entry)
    entries: list[Any] = list(cast("list[Any]", entry))
    return [entries[i % old] for i in range(new)]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
