"""Kinds of values that requests take: one notation in Python, on the command line, on pages and in sweeps.

A number takes a suffix (128k, 15T), a fraction (1/64) or per cent (80%); one with a unit takes it (40GB, 20ms, 2mo),
and a bare number is SI. Speeds are tokens per second of a user or a time per token; rates are requests or tokens per
second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from rackmath.api.rates import RequestRate, TokenRate
from rackmath.engine.layout import Layout
from rackmath.errors import InputError
from rackmath.units import parse


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How a value is read, whether it is text or a value already.

    Parameters
    ----------
    name : str
        What help texts call a value.
    read : callable
        (value, name of its field) -> value in SI; raises :class:`~rackmath.errors.InputError`.
    low, high : int, optional
        Ends of a whole number.
    choices : tuple of str
        All values, where there are few.
    older : mapping
        What such values were called before, and are called now.
    flag, many : bool
        Yes or no; any number of texts.
    """

    name: str
    read: Callable[[Any, str], Any]
    low: int | None = None
    high: int | None = None
    choices: tuple[str, ...] = ()
    older: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    flag: bool = False
    multiple: bool = False


_PER_TOKEN = ("tokens/s", "token/s", "tok/s", "tps")
_PER_REQUEST = ("requests/s", "request/s", "req/s", "rps", "qps")
_TIME = ("s", "min")


def _ends(value: Any, units: tuple[str, ...]) -> bool:
    return isinstance(value, str) and value.rstrip().endswith(units)


def _without(text: str, units: tuple[str, ...]) -> str:
    text = text.rstrip()
    return text.removesuffix(next(unit for unit in units if text.endswith(unit)))


def _inverse(text: str, unit: str, field: str) -> float:
    number = parse(text, unit, field)
    if number == 0:
        raise InputError(field, text, "write a number that is not zero")
    return 1 / number


def _speed(value: Any, field: str) -> float:
    if _ends(value, _PER_TOKEN):
        return parse(_without(value, _PER_TOKEN), "1", field)
    return _inverse(value, "s", field) if _ends(value, _TIME) else parse(value, "1", field)


def _time_per_token(value: Any, field: str) -> float:
    if _ends(value, _PER_TOKEN):
        return _inverse(_without(value, _PER_TOKEN), "1", field)
    return parse(value, "s", field)


def _rate(
    own_units: tuple[str, ...], other_units: tuple[str, ...], number_type: type[float]
) -> Callable[[Any, str], float]:
    """A rate in units of its own; in those of another kind it is marked, to be changed by the tokens of an answer."""

    def read(value: Any, field: str) -> float:
        if isinstance(value, number_type):
            return value
        if _ends(value, other_units):
            return number_type(parse(_without(value, other_units), "1", field))
        return parse(_without(value, own_units) if _ends(value, own_units) else value, "1", field)

    return read


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise InputError(field, value, "write text")
    return value


def _flag(value: Any, field: str) -> bool:
    if not isinstance(value, bool):
        raise InputError(field, value, "write True or False")
    return value


def _path(value: Any, field: str) -> Path:
    if not isinstance(value, (str, Path)):
        raise InputError(field, value, "give a path")
    return Path(value)


def _layout(value: Any, field: str) -> str:
    return value.text() if isinstance(value, Layout) else _text(value, field)


def _numbers(value: Any, field: str) -> str:
    """Numbers as text: one, several, or text that holds them."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:.15g}"
    if isinstance(value, (list, tuple)):
        return ",".join(_numbers(item, field) for item in cast("list[Any]", value))
    return _text(value, field)


def _texts(value: Any, field: str) -> tuple[str, ...]:
    return tuple(_text(text, field) for text in ((value,) if isinstance(value, str) else value))


def _grams(value: Any, field: str) -> float:
    """Grams, with or without their unit."""
    if isinstance(value, str):
        value = value.strip().removesuffix("/kWh").rstrip().removesuffix("g").rstrip()
    grams = parse(value, "1", field)
    if grams < 0:
        raise InputError(field, value, "write a number of grams, at least 0")
    return grams


def _dollars_per_hour(value: Any, field: str) -> float:
    """Dollars per hour, with or without their unit."""
    if isinstance(value, str) and value.rstrip()[-1:].isalpha():
        return parse(value, "USD/s", field) * 3600
    return parse(value, "1", field)


def whole(low: int | None = None, high: int | None = None) -> Kind:
    """A whole number between two ends."""

    def read(value: Any, field: str) -> int:
        number = parse(value, "1", field)
        if number != int(number):
            raise InputError(field, value, "write a whole number")
        if (low is not None and number < low) or (high is not None and number > high):
            most = "" if high is None else f" to {high:,}"
            raise InputError(field, value, f"write a whole number from {low:,}{most}")
        return int(number)

    return Kind(name="integer", read=read, low=low, high=high)


def choice(*values: str, older: Mapping[str, str] = MappingProxyType({})) -> Kind:
    """One of a few words; ``older`` ones are taken as well and stand for what they are called now."""

    def read(value: Any, field: str) -> str:
        word = older.get(value, value) if isinstance(value, str) else value
        if word not in values:
            raise InputError(field, value, f"use one of {', '.join(values)}")
        return word

    return Kind(name="|".join(values), read=read, choices=values, older=older)


NUMBER = Kind(name="number", read=lambda value, field: parse(value, "1", field))
SECONDS = Kind(name="time", read=lambda value, field: parse(value, "s", field))
BYTES = Kind(name="bytes", read=lambda value, field: parse(value, "B", field))
BYTES_PER_SECOND = Kind(name="bytes/s", read=lambda value, field: parse(value, "B/s", field))
GRAMS = Kind(name="grams", read=_grams)
DOLLARS_PER_HOUR = Kind(name="$/h", read=_dollars_per_hour)
SPEED = Kind(name="tokens/s|time", read=_speed)
TIME_PER_TOKEN = Kind(name="time|tokens/s", read=_time_per_token)
REQUEST_RATE = Kind(name="requests/s", read=_rate(_PER_REQUEST, _PER_TOKEN, TokenRate))
TOKEN_RATE = Kind(name="tokens/s", read=_rate(_PER_TOKEN, _PER_REQUEST, RequestRate))
TEXT = Kind(name="text", read=_text)
TEXTS = Kind(name="text", read=_texts, multiple=True)
NUMBERS = Kind(name="text", read=_numbers)
FLAG = Kind(name="flag", read=_flag, flag=True)
LAYOUT = Kind(name="text", read=_layout)
PATH = Kind(name="path", read=_path)
SUBJECT = Kind(name="text", read=lambda value, field: value)
"""A model or a system: a name, a path, or the record itself, which its reader checks."""
