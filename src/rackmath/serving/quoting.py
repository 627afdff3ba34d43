"""Settings as JSON in the quotes of a shell, as flags of engines take them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Setting: TypeAlias = "Mapping[str, str | float | bool | Setting]"


def quoted(setting: Setting) -> str:
    """A JSON object in the quotes of a shell; no text in it has quotes of its own."""
    return f"'{_object(setting)}'"


def _object(setting: Setting) -> str:
    pairs = (f'"{key}": {_value(value)}' for key, value in setting.items())
    return "{" + ", ".join(pairs) + "}"


def _value(value: str | float | bool | Setting) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    return _object(value) if isinstance(value, Mapping) else f"{value}"
