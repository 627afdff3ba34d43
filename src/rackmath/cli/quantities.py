"""Kinds of numbers that options take: one notation in every command.

A number takes a suffix (128k, 15T), a fraction (1/64) or per cent (80%); one with a unit takes it (40GB, 20ms, 2mo),
and a bare number is SI. Speeds are tokens per second of a user or a time per token; rates are requests or tokens per
second.
"""

from __future__ import annotations

from typing import Any

import click

from rackmath.errors import InputError
from rackmath.rates import Requests, Tokens
from rackmath.units import parse


class _Parsed(click.ParamType[float]):
    """A number in one unit."""

    def __init__(self, name: str, unit: str) -> None:
        self.name, self.unit = name, unit

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read text; numbers pass."""
        return parse(value, self.unit, _option(param))


class _Speed(click.ParamType[float]):
    """Tokens per second of a user; a time per token is its inverse."""

    name = "tokens/s|time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read text; numbers pass."""
        option = _option(param)
        if isinstance(value, str) and _ends(value, _PER_TOKEN):
            return parse(_without(value, _PER_TOKEN), "1", option)
        if isinstance(value, str) and _ends(value, _TIME):
            return _inverse(value, "s", option)
        return parse(value, "1", option)


class _TimePerToken(click.ParamType[float]):
    """Time per token; a speed in tokens per second is its inverse."""

    name = "time|tokens/s"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read text; numbers pass."""
        if isinstance(value, str) and _ends(value, _PER_TOKEN):
            return _inverse(_without(value, _PER_TOKEN), "1", _option(param))
        return parse(value, "s", _option(param))


class _Rate(click.ParamType[float]):
    """A rate in units of its own; in those of another kind it is marked, to be changed by the tokens of an answer."""

    def __init__(self, name: str, own: tuple[str, ...], other: tuple[str, ...], marked: type[float]) -> None:
        self.name, self.own, self.other, self.marked = name, own, other, marked

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read text; numbers pass."""
        option = _option(param)
        if isinstance(value, str) and _ends(value, self.other):
            return self.marked(parse(_without(value, self.other), "1", option))
        if isinstance(value, str) and _ends(value, self.own):
            return parse(_without(value, self.own), "1", option)
        return parse(value, "1", option)


class Whole(click.IntRange):
    """A whole number between two ends, with a suffix as others."""

    name = "integer"

    def __init__(self, low: int | None = None, high: int | None = None) -> None:
        super().__init__(low, high)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read text; a part of one is refused."""
        number = parse(value, "1", _option(param))
        if number != int(number):
            raise InputError(_option(param), value, "write a whole number")
        return super().convert(int(number), param, ctx)

    def _describe_range(self) -> str:
        """Write no range that has no end."""
        return "" if self.min is None and self.max is None else super()._describe_range()


_PER_TOKEN = ("tokens/s", "token/s", "tok/s", "tps")
_PER_REQUEST = ("requests/s", "request/s", "req/s", "rps", "qps")
_TIME = ("s", "min")

NUMBER = _Parsed("number", "1")
SECONDS = _Parsed("time", "s")
BYTES = _Parsed("bytes", "B")
SPEED = _Speed()
TIME_PER_TOKEN = _TimePerToken()
REQUEST_RATE = _Rate("requests/s", _PER_REQUEST, _PER_TOKEN, Tokens)
TOKEN_RATE = _Rate("tokens/s", _PER_TOKEN, _PER_REQUEST, Requests)


def _inverse(text: str, unit: str, option: str) -> float:
    number = parse(text, unit, option)
    if number == 0:
        raise InputError(option, text, "write a number that is not zero")
    return 1 / number


def _ends(text: str, units: tuple[str, ...]) -> bool:
    return text.rstrip().endswith(units)


def _without(text: str, units: tuple[str, ...]) -> str:
    text = text.rstrip()
    return text.removesuffix(next(unit for unit in units if text.endswith(unit)))


def _option(param: click.Parameter | None) -> str:
    return max(param.opts, key=len) if param is not None and param.opts else "value"
