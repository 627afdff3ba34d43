"""Names of systems and models with changes behind them, as ``h100-sxm[bandwidth=2x;price=2.5]``, and such systems."""

from __future__ import annotations

import re
from dataclasses import replace

from rackmath.engine.constants import term_named
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.hardware.changes import changed_system

_CHANGED = re.compile(r"^(.+?)\[(.*)\]$")


def changed_name(name: str, *changes: tuple[str, str]) -> str:
    """A name with changes behind it, after those that it has, as the catalogue reads it."""
    base, before = with_changes(name)
    suffix = ";".join(f"{key}={value}" for key, value in (*before, *changes))
    return f"{base}[{suffix}]" if suffix else base


def with_changes(name: str) -> tuple[str, list[tuple[str, str]]]:
    """``name[key=value;...]`` -> the name and its changes.

    Errors: :class:`InputError` for changes that are not written so.
    """
    match = _CHANGED.match(name)
    if match is None:
        return name, []
    changes: list[tuple[str, str]] = []
    for part in match.group(2).split(";"):
        key, equals, value = (text.strip() for text in part.partition("="))
        if not (key and equals and value):
            raise InputError("--set", part, "write key=value, as bandwidth=2x")
        changes.append((key, value))
    return match.group(1), changes


def changed_by(system: System, key: str, value: float | str) -> System:
    """A system with one number changed, or with ``engine.`` before it a constant of whichever engine runs on it.

    Errors: as of :func:`changed_system`; :class:`InputError` for a constant that no engine has.
    """
    if not key.startswith("engine."):
        return changed_system(system, key, value)
    name, text = key.removeprefix("engine."), str(value)
    term_named(name, text)
    return replace(system, software=(*system.software, (name, text)))
