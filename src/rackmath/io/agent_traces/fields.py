"""Values of the objects of a trace, each read with the field and the place that an error names."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard, cast

from rackmath.errors import InputError
from rackmath.serving.simulator.graph import LONGEST_WAIT
from rackmath.serving.simulator.workload import LONGEST

Object: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = Sequence[tuple[str, Object]]
"""Where each object stands, and the object."""

MS = 1e-3
_LATEST = 1e3 * LONGEST_WAIT
"""Of a clock that counts from 1970. [s]"""


def whole(row: Object, names: Sequence[str], place: str, least: int = 1) -> int:
    """A number of tokens under one of several names.

    Errors: :class:`InputError` for anything else.
    """
    name = next((name for name in names if row.get(name) is not None), names[0])
    value = row.get(name)
    if not is_number(value, least, LONGEST) or value != int(value):
        raise InputError(f"{place}: {name}", value, f"write {least} to {LONGEST:,} tokens")
    return int(value)


def seconds(row: Object, names: Sequence[str], place: str, unit: float = 1.0) -> float | None:
    """A time under one of several names; None where there is none.

    Errors: :class:`InputError` for what is no time.
    """
    name = next((name for name in names if row.get(name) is not None), None)
    if name is None:
        return None
    if not is_number(row[name], 0, _LATEST / unit):
        raise InputError(f"{place}: {name}", row[name], "write a time from 0")
    return float(row[name]) * unit


def is_number(value: Any, low: float, high: float) -> TypeGuard[float]:
    """Whether a value is a number between two others."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high


def text(row: Object, name: str, place: str) -> str:
    """A name.

    Errors: :class:`InputError` for anything else.
    """
    value = row.get(name)
    if not isinstance(value, str) or not value:
        raise InputError(f"{place}: {name}", value, "write a name")
    return value


def table(row: Object, name: str, place: str) -> Object:
    """An object, empty where there is none.

    Errors: :class:`InputError` for anything else.
    """
    value = row.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"{place}: {name}", value, "write an object")
    return cast(Object, value)


def tables(row: Object, name: str, place: str) -> Sequence[Object]:
    """A list of objects, empty where there is none.

    Errors: :class:`InputError` for anything else.
    """
    values = _list(row, name, place, Mapping, "objects")
    return cast(Sequence[Object], values)


def names_of(row: Object, name: str, place: str) -> Sequence[str]:
    """A list of names, empty where there is none.

    Errors: :class:`InputError` for anything else.
    """
    return cast(Sequence[str], _list(row, name, place, str, "names"))


def blocks_of(row: Object, name: str, place: str) -> Sequence[Hashable]:
    """A list of names of blocks, empty where there is none.

    Errors: :class:`InputError` for anything else.
    """
    return cast(Sequence[Hashable], _list(row, name, place, (int, str), "numbers or names"))


def _list(row: Object, name: str, place: str, kinds: type | tuple[type, ...], noun: str) -> list[Any]:
    value = row.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, kinds) for item in cast(list[Any], value)):
        raise InputError(f"{place}: {name}", value, f"write a list of {noun}")
    return cast(list[Any], value)
