"""Files of traffic: the model of a trace as a small TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from rackmath.errors import InputError
from rackmath.io.paths import bounded_file
from rackmath.serving.traffic.agent import AgentModel
from rackmath.serving.traffic.model import TrafficModel

_LARGEST = 1 << 20
_HEADER = """\
# Traffic like that of {title}, by rackmath traffic fit.
# rate in requests/s, period in s, lengths in tokens; quantiles as docs/commands/traffic.md says.
"""


def traffic_text(model: TrafficModel, title: str) -> str:
    """A model as TOML, numbers to five digits."""
    table = asdict(model)
    prefixes = table.pop("prefixes")
    classes = table.pop("classes")
    lines = [_HEADER.format(title=title), *_pairs(table)]
    for record in classes:
        lines += ["", "[[classes]]", *_pairs(record)]
    if prefixes is not None:
        reuse = prefixes.pop("reuse")
        lines += ["", "[prefixes]", *_pairs(prefixes)]
        for record in reuse:
            lines += ["", "[[prefixes.reuse]]", *_pairs(record)]
    return "\n".join(lines) + "\n"


def _pairs(table: Mapping[str, Any]) -> Iterable[str]:
    return (f"{name} = {_written(value)}" for name, value in table.items())


def _written(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_written(item) for item in value)}]"  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, bool):
        return str(value).lower()
    return repr(float(f"{value:.5g}")) if isinstance(value, float) else str(value)


def read_traffic(path: Path, field: str) -> TrafficModel | AgentModel:
    """Read a model of traffic, or of an agent, which is a table of this name.

    Errors: :class:`InputError` with the name of what is missing, unknown or out of range.
    """
    bounded_file(path, field, _LARGEST, "a model of traffic")
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError, RecursionError) as error:
        raise InputError(field, str(path), f"is no TOML: {error}") from error
    kind: type[TrafficModel | AgentModel] = TrafficModel
    way_out = "is unknown here: see rackmath traffic fit for what is not"
    if "agent" in raw:
        other_table = next((name for name in raw if name != "agent"), None)
        kind, way_out = AgentModel, "is unknown in an agent: see docs/how-to/agents.md for what is not"
        if other_table is not None or not isinstance(raw["agent"], dict):
            raise InputError(f"{path.name}: {other_table or 'agent'}", "?", "an agent is one table, [agent]")
        raw = raw["agent"]
    unknown = _unknown(raw, kind)
    if unknown:
        raise InputError(f"{path.name}: {unknown}", "?", way_out)
    try:
        return TypeAdapter(kind).validate_python(raw)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{path.name}: {place}", str(first["input"])[:80], first["msg"].lower()) from error


def _unknown(raw: Any, record: type) -> str | None:
    """Name of the first key that a record does not have, in its tables as well."""
    if not isinstance(raw, Mapping):
        return None
    table: Mapping[str, Any] = raw
    hints = get_type_hints(record)
    for name, value in table.items():
        if name not in {f.name for f in fields(record)}:
            return name
        for inner in (hints[name], *get_args(hints[name])):
            if is_dataclass(inner) and isinstance(inner, type):
                for item in value if isinstance(value, list) else [value]:
                    if unknown := _unknown(item, inner):
                        return f"{name}.{unknown}"
    return None
