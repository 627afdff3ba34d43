"""Fields of a question -> controls of a form, with the values that the address gives them."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, log10
from typing import Any, get_args

from pydantic.fields import FieldInfo

from rackmath.web.inputs import Inputs, extra_of, known

_STEPS = 400
"""Places of a slider."""


def controls(inputs: type[Inputs], values: Mapping[str, str]) -> list[dict[str, Any]]:
    """One for each field, in their order, as the templates read them."""
    return [_control(name, field, values.get(name)) for name, field in inputs.model_fields.items()]


def _control(name: str, field: FieldInfo, text: str | None) -> dict[str, Any]:
    extra = extra_of(field)
    kind = str(extra.get("control", "text"))
    default = field.default
    value = text if text is not None else ("" if default is None else _text(default))
    facts: dict[str, Any] = {
        "name": name,
        "label": field.title or name,
        "kind": kind,
        "about": field.description or "",
        "unit": extra.get("unit", ""),
        "hint": extra.get("hint", ""),
        "group": str(extra.get("group", "")),
        "value": value,
        "default": "" if default is None else _text(default),
        "changed": text is not None and text != _text(default),
    }
    if kind in ("slider", "number"):
        low, high = _bound(field, "ge"), _bound(field, "le")
        facts |= {"low": low, "high": high, "whole": bool(extra.get("whole")), "optional": default is None}
        if kind == "slider":
            log = bool(extra.get("log")) and low > 0
            facts |= {"log": log, "steps": _STEPS, "place": _place(value, low, high, log)}
    elif kind == "choice":
        facts["values"] = list(_values(field))
    elif kind in ("model", "system"):
        facts["values"] = list(known(kind))
    elif kind == "tick":
        facts["value"] = str(value).lower() in ("true", "1", "on")
    return facts


def _values(field: FieldInfo) -> tuple[str, ...]:
    return tuple(str(choice) for choice in get_args(field.annotation))


def _bound(field: FieldInfo, name: str) -> float:
    return float(next(getattr(constraint, name) for constraint in field.metadata if hasattr(constraint, name)))


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _place(value: str, low: float, high: float, log: bool) -> int:
    """Where a value stands on its slider, from 0 to the last place."""
    try:
        position = float(value)
    except ValueError:
        return 0
    number = min(max(position, low), high) if isfinite(position) else low
    part = (log10(number / low) / log10(high / low)) if log else (number - low) / (high - low)
    return round(part * _STEPS)
