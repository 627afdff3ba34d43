"""From two numbers and the kind of a claim to a verdict."""

from __future__ import annotations

from collections.abc import Sequence

Value = float | tuple[float, float] | str
"""A number, a range, or a word."""

TOLERANCE = {"exact": 0.02, "approx": 0.15, "order": 2.2, "range": 0.02}
"""How far off still holds: relative for exact, approximate and ranges; a factor less one for orders."""

FALSE = "does not hold"
"""Verdict of a claim that another number replaces."""

LARGEST_FACTOR = 1.5
"""A claim that is off by more than this does not hold: a number that is true replaces it."""


def parse_expected(text: str) -> Value:
    """Read the ``expected`` column: a number, ``a..b``, or a word."""
    parts = text.split("..")
    try:
        numbers = [float(p) for p in parts]
    except ValueError:
        return text
    return (numbers[0], numbers[1]) if len(numbers) == 2 else numbers[0]


def off_by(expected: Value, real: Value) -> float:
    """Worst ratio between what was claimed and what is, at least 1; words count as 1 or infinity."""
    if isinstance(expected, str) or isinstance(real, str):
        return 1.0 if expected == real else float("inf")
    low, high = _ends(expected)
    worst = 1.0
    for value in _ends(real):
        if value == 0 or low == 0:
            worst = max(worst, 1.0 if low <= value <= high else float("inf"))
        elif value < low:
            worst = max(worst, low / value)
        elif value > high:
            worst = max(worst, value / high)
    return worst


def verdict(kind: str, expected: Value, real: Value) -> str:
    """Judge a claim: holds, holds within a factor of f, or does not hold."""
    factor = off_by(expected, real)
    if factor <= 1 + TOLERANCE.get(kind, 0.02):
        return "holds"
    if factor <= LARGEST_FACTOR:
        return f"holds within a factor of {factor:.2g}"
    return FALSE


def _ends(value: float | tuple[float, float]) -> Sequence[float]:
    return value if isinstance(value, tuple) else (value, value)
