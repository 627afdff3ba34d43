"""Kinds of values as types of click's."""

from __future__ import annotations

from typing import Any

import click

from rackmath.api import kinds
from rackmath.api.kinds import Kind


class KindType(click.ParamType[Any]):
    """A value of one kind."""

    def __init__(self, kind: Kind) -> None:
        self.name, self.kind = kind.name, kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read text; values pass."""
        return self.kind.read(value, _option(param))


class WordChoice(click.Choice[str]):
    """One of the words of a kind, or what such a word was called before."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(kind.choices)
        self.older = kind.older

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Read a word."""
        return super().convert(self.older.get(value, value), param, ctx)


class WholeNumber(click.IntRange):
    """A whole number between two ends, with a suffix as others."""

    name = "integer"

    def __init__(self, low: int | None = None, high: int | None = None) -> None:
        super().__init__(low, high)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read text; a part of one is refused."""
        low, high = (None if end is None else int(end) for end in (self.min, self.max))
        return kinds.whole(low, high).read(value, _option(param))

    def _describe_range(self) -> str:
        """Write no range that has no end."""
        return "" if self.min is None and self.max is None else super()._describe_range()


NUMBER = KindType(kinds.NUMBER)
SECONDS = KindType(kinds.SECONDS)
BYTES = KindType(kinds.BYTES)
SPEED = KindType(kinds.SPEED)
TIME_PER_TOKEN = KindType(kinds.TIME_PER_TOKEN)
REQUEST_RATE = KindType(kinds.REQUEST_RATE)
TOKEN_RATE = KindType(kinds.TOKEN_RATE)


def _option(param: click.Parameter | None) -> str:
    return max(param.opts, key=len) if param is not None and param.opts else "value"
