"""Names of systems and models with changes behind them, as ``h100-sxm[bandwidth=2x;price=2.5]``."""

from __future__ import annotations

import re

from rackmath.errors import InputError

_CHANGED = re.compile(r"^(.+?)\[(.*)\]$")


def changed_name(name: str, *changes: tuple[str, str]) -> str:
    """A name with changes behind it, after those that it has, as the catalogue reads it."""
    base, before = with_changes(name)
    written = ";".join(f"{key}={value}" for key, value in (*before, *changes))
    return f"{base}[{written}]" if written else base


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
