"""Lists in one text: names and numbers with commas between them."""

from __future__ import annotations

from rackmath.errors import InputError
from rackmath.units import parse


def names(text: str | None, field: str) -> list[str]:
    """``a,b,c`` -> its parts; none where there is no text.

    Errors: :class:`InputError` for text that holds no part.
    """
    if text is None:
        return []
    parts = [part.strip().lower() for part in text.split(",") if part.strip()]
    if not parts:
        raise InputError(field, text, "write at least one, or leave the option out")
    return parts


def numbers(text: str | None, field: str, low: float, high: float) -> list[float]:
    """``1,2,3`` -> numbers from ``low`` to ``high``.

    Errors: :class:`InputError` for what is no such number.
    """
    values: list[float] = []
    for part in names(text, field):
        try:
            value = parse(part, "1", field)
        except InputError as error:
            raise InputError(field, part, "write numbers with commas between them") from error
        if not low <= value <= high:
            raise InputError(field, part, f"write numbers from {low:g} to {high:g}")
        values.append(value)
    return values
