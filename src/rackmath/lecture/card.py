"""A card of the quiz: a question, an answer that is computed, and why it is so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isclose, log10

from rackmath.errors import InputError
from rackmath.figures import Figure
from rackmath.units import parse, show

_SHOWN = ("s", "B", "B/s", "FLOP/s", "W")
"""Units that are written with a prefix."""
_READ = (*_SHOWN, "FLOP")
"""Units that text may carry; all others are names of what is counted."""
_HINTS = (
    (2.0, "a multiply-add is two FLOP, a link has two directions, a cache holds keys and values"),
    (8.0, "bits and bytes differ by eight"),
    (60.0, "minutes and seconds"),
    (1e3, "one prefix is off"),
    (3600.0, "hours and seconds"),
    (1e6, "two prefixes are off, or the price is per million tokens"),
)
"""Ratios that common mistakes make, and the mistakes."""
_NEAR = 0.03
"""How near a ratio is to one of these, relative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A question of the book.

    Exactly one of ``value``, ``says`` and ``draw`` answers it.
    """

    id: str
    chapter: int
    """Chapter of the book."""
    question: str
    why: str
    """What makes the answer so, in one or two sentences."""
    value: Callable[[], float] | None = None
    """The number that answers it, computed when asked. [unit]"""
    unit: str = ""
    """Unit of the number; empty for a plain one."""
    within: float = 0.05
    """Relative distance from the number that still counts as right."""
    says: Callable[[], str] | None = None
    """The answer in words; numbers in it are computed."""
    draw: Callable[[], Figure] | None = None
    """The picture that a sketch is compared with."""

    @property
    def kind(self) -> str:
        """``number``, ``why`` or ``sketch``."""
        return "number" if self.value is not None else "why" if self.says is not None else "sketch"

    @property
    def answer(self) -> str:
        """The answer as text: a number with its unit, words, or what the picture shows."""
        if self.value is not None:
            return written(self.value(), self.unit)
        return self.says() if self.says is not None else self.why


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What became of an answer."""

    card: Card
    number: float
    """The answer that was typed, as read. [unit of the card]"""
    true: float
    is_right: bool
    remark: str
    """How far off it is, and which mistake makes such a distance; empty for a right answer."""


def written(value: float, unit: str) -> str:
    """A number as a person writes it: ``14.4 ms``, ``5,584 sequences``, ``0.31 $``."""
    if unit in _SHOWN:
        return show(value, unit)
    size = abs(value)
    text = f"{value:.3g}" if size < 1000 or size >= 1e15 else f"{value:,.0f}" if size < 1e6 else show(value)
    return f"{text} {unit}".strip()


def check(card: Card, text: str) -> Check:
    """Hold a typed answer against the computed one.

    Parameters
    ----------
    card : Card
        A card whose answer is a number.
    text : str
        A number; suffixes and units are read as everywhere (``14.4ms``, ``5.6k``).

    Errors: :class:`~rackmath.errors.InputError` for text that is no number of the card's unit, and for a card that
    asks for words or a sketch.
    """
    if card.value is None:
        raise InputError(
            "CARD", card.id, f"asks for {'words' if card.says else 'a sketch'}: run `rackmath quiz` to see it"
        )
    number, true = _read(card, text), card.value()
    right = isclose(number, true, rel_tol=card.within, abs_tol=1e-12)
    return Check(card=card, number=number, true=true, is_right=right, remark="" if right else _remark(number, true))


def _read(card: Card, text: str) -> float:
    plain = text.strip().replace(",", "")
    if card.unit in _READ:
        return parse(plain, card.unit, card.id)
    # A count may carry the name of what it counts.
    return parse(plain.removesuffix(card.unit).rstrip(), "1", card.id)


def _remark(number: float, true: float) -> str:
    if true == 0 or number == 0 or number * true < 0:
        return f"{number:.4g} is far from it"
    ratio = number / true
    size = max(ratio, 1 / ratio)
    where = "too large" if ratio > 1 else "too small"
    for factor, cause in _HINTS:
        if abs(size / factor - 1) <= _NEAR:
            return f"{where} by a factor of {factor:,.0f}: {cause}"
    if size < 1.5:
        return f"{where} by {abs(ratio - 1):.0%}"
    return (
        f"{where} by a factor of {size:.3g}" if log10(size) < 4 else f"{where} by {log10(size):.0f} orders of magnitude"
    )
