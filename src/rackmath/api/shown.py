"""Results as a prompt and a notebook show them: names and values, in text and in HTML."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

MOST = 10
"""Tables of one result that are shown."""


class Shown(ABC):
    """A result whose text and HTML show the same: what is a list or a part of its own stands in ``to_dict``."""

    __slots__ = ()

    @abstractmethod
    def _tables(self) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Titles, and names with their values."""

    def __repr__(self) -> str:
        """Tables as text, for a prompt."""
        tables = self._tables()
        return "\n".join([*(_as_text(title, facts) for title, facts in tables[:MOST]), *_rest(tables)])

    def _repr_html_(self) -> str:
        tables = self._tables()
        return "".join(
            [
                *(_as_html(title, facts) for title, facts in tables[:MOST]),
                *(f"<p>{escape(line)}</p>" for line in _rest(tables)),
            ]
        )


def _as_text(title: str, facts: Mapping[str, Any]) -> str:
    cells = _cells(facts)
    width = max((len(name) for name, _ in cells), default=0)
    return "\n".join([title, *(f"  {name:<{width}}  {text}" for name, text in cells)])


def _as_html(title: str, facts: Mapping[str, Any]) -> str:
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in _cells(facts))
    return f"<table><caption>{escape(title)}</caption>{rows}</table>"


def _cells(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names and values of what is no list, no part of its own, and known."""
    cells = [(name, _cell(value)) for name, value in facts.items() if not isinstance(value, (list, dict))]
    return [(name, text) for name, text in cells if text]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else f"{value:,}" if type(value) is int else str(value)


def _rest(tables: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    return [f"and {len(tables) - MOST:,} more in to_dict()"] if len(tables) > MOST else []
