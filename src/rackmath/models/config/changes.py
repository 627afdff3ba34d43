"""A config with other numbers: what ``--set model.experts=512`` means."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

from rackmath.errors import InputError
from rackmath.models.config.attention import HEAD_DIM, HEADS, KV_HEADS, WINDOW
from rackmath.models.config.feed_forward import ACTIVE, DENSE_WIDTH, EXPERT_WIDTH, EXPERTS
from rackmath.models.config.fields import CONTEXT, HIDDEN, LAYERS, NESTED, VOCABULARY, checked_integer
from rackmath.units import parse

NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "layers": LAYERS,
        "hidden": HIDDEN,
        "width": DENSE_WIDTH,
        "heads": HEADS,
        "kv_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "kv_rank": ("kv_lora_rank",),
        "vocabulary": VOCABULARY,
        "window": WINDOW,
        "experts": EXPERTS,
        "top_k": ACTIVE,
        "expert_width": EXPERT_WIDTH,
        "context": CONTEXT,
    }
)
"""Short names, and the fields of a config that they stand for."""


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
    part = _nested(config)
    if part is not None:
        return {**config, part: changed_config(cast("Mapping[str, Any]", config[part]), key, value)}
    field = next((name for name in NAMES.get(key, (key,)) if _is_number(config.get(name))), None)
    if field is None:
        names = ", ".join(numbers_of(config))
        raise InputError(f"model.{key}", value, f"the config has no such number; it has {names}")
    old = float(config[field])
    new = old * parse(value[:-1], "1", f"model.{key}") if value.endswith("x") else parse(value, "1", f"model.{key}")
    if not 1 <= new <= 1e9:
        raise InputError(f"model.{key}", value, "write a number from 1 to 1e9")
    new_config = {**config, field: round(new)}
    if field in LAYERS:
        layers = checked_integer(f"model.{key}", round(new), kind="layers", low=1)
        new_config = {name: _per_layer(entry, round(old), layers) for name, entry in new_config.items()}
    return new_config


def numbers_of(config: Mapping[str, Any]) -> list[str]:
    """Those of :data:`NAMES` that a config has."""
    part = _nested(config)
    if part is not None:
        return numbers_of(cast("Mapping[str, Any]", config[part]))
    return [name for name, spellings in NAMES.items() if any(_is_number(config.get(s)) for s in spellings)]


def _nested(config: Mapping[str, Any]) -> str | None:
    """Field that holds the config of the text model, if there is one."""
    return next((name for name in NESTED if isinstance(config.get(name), Mapping)), None)


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
