"""Text <-> SI floats. Numbers inside are seconds, bytes, FLOP/s, watts and dollars.

>>> parse("3.35 TB/s", "B/s")
3350000000000.0
>>> show(0.00123, "s")
'1.23 ms'
"""

from __future__ import annotations

import re
from datetime import date
from math import isfinite, log10

from rackmath.errors import InputError

_PREFIX = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_SMALL = {"m": 1e-3, "u": 1e-6, "n": 1e-9}
_TEXT = re.compile(r"^\s*([-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?:/(\d+(?:\.\d+)?))?(?![\d.])\s*(.*?)\s*$")
_DAY = 86400.0
_LONG = ((_DAY, "days"), (3600.0, "h"))
"""Units of times that are shown, from two of them on. [s]"""

_BASES: dict[str, dict[str, float]] = {
    "B": {"B": 1.0, "b": 0.125, "bit": 0.125},
    "B/s": {"B/s": 1.0, "b/s": 0.125, "bit/s": 0.125},
    "FLOP/s": {"FLOP/s": 1.0, "FLOPS": 1.0, "FLOPs/s": 1.0, "OP/s": 1.0},
    "FLOP": {"FLOP": 1.0, "FLOPs": 1.0},
    "s": {
        "s": 1.0,
        "min": 60.0,
        "h": 3600.0,
        "d": _DAY,
        "day": _DAY,
        "days": _DAY,
        "mo": 30 * _DAY,
        "yr": 365.25 * _DAY,
    },
    "W": {"W": 1.0},
    "USD": {"USD": 1.0, "$": 1.0},
    "USD/s": {"USD/h": 1 / 3600.0, "USD/s": 1.0, "$/h": 1 / 3600.0},
    "USD/B": {"USD/GB": 1e-9, "USD/TB": 1e-12, "USD/B": 1.0},
    "1": {"": 1.0, "%": 0.01},
}
_UNSCALED = {"USD/h", "$/h", "USD/s", "USD/GB", "USD/TB", "USD/B", "min", "h", "d", "day", "days", "mo", "yr", "%"}


def parse(text: str | float, unit: str, field: str = "value") -> float:
    """Read a number with an optional unit into SI.

    Parameters
    ----------
    text : str or float
        For example ``"3.35 TB/s"``, ``"80 GiB"``, ``"5 us"``, ``"128k"``, ``"1/64"``, ``"2mo"`` of 30 days; a bare
        number is SI.
    unit : str
        Dimension wanted: B, B/s, FLOP/s, FLOP, s, W, USD, USD/s, USD/B or 1.
    field : str
        Name for the error message.

    Errors: :class:`InputError` for text that is no number, or another unit.
    """
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        return _finite(float(text), text, field)
    match = _TEXT.match(str(text))
    if not match:
        raise InputError(field, text, _way_out(unit))
    value, under, number = float(match.group(1).replace("_", "")), match.group(2), match.group(3)
    if under is not None:
        if float(under) == 0:
            raise InputError(field, text, "nothing divides by zero")
        value /= float(under)
    if not number:
        return _finite(value, text, field)
    return _finite(value * _factor(number, unit, text, field), text, field)


def _factor(suffix: str, unit: str, text: object, field: str) -> float:
    for name, factor in _BASES[unit].items():
        if suffix == name:
            return factor
        if name and suffix.endswith(name) and name not in _UNSCALED:
            prefix = suffix[: -len(name)]
            scale = _PREFIX.get(prefix) or _BINARY.get(prefix) or (_SMALL.get(prefix) if unit in ("s", "W") else None)
            if scale:
                return factor * scale
    if unit == "1" and suffix in _PREFIX:
        return _PREFIX[suffix]
    if unit == "1" and suffix == "B":
        return 1e9
    raise InputError(
        field, text, f"{suffix!r} is no {'suffix of a number' if unit == '1' else f'unit of {unit}'}: {_way_out(unit)}"
    )


def _way_out(unit: str) -> str:
    """What to write instead."""
    if unit == "1":
        return "write a number, as 1500 or 1.5k"
    return f"write a number with a unit of {unit}"


def _finite(value: float, text: object, field: str) -> float:
    if not isfinite(value):
        raise InputError(field, text, "write a finite number")
    return value


def show(value: float, unit: str = "", digits: int = 3) -> str:
    """Write a number with a metric prefix: ``show(3.35e12, "B/s")`` is ``"3.35 TB/s"``; long times in hours or days."""
    if value != value:
        return "-"
    if value in (float("inf"), float("-inf")):
        return "unbounded"
    if value == 0:
        return f"0 {unit}".strip()
    steps = [
        (1e-9, "n"),
        (1e-6, "u"),
        (1e-3, "m"),
        (1.0, ""),
        (1e3, "k"),
        (1e6, "M"),
        (1e9, "G"),
        (1e12, "T"),
        (1e15, "P"),
    ]
    if unit == "s" and value >= 1:
        size, name = next(((size, name) for size, name in _LONG if value >= 2 * size), (1.0, "s"))
        return f"{_rounded(value / size, digits)} {name}"
    low = -9 if unit == "s" else -3 if unit == "W" else 0
    size = abs(value)
    scale, prefix = next(
        (s for s in reversed(steps) if size >= s[0] * 0.9995 and log10(s[0]) >= low),
        (10.0**low, "n" if low == -9 else ""),
    )
    return f"{_rounded(value / scale, digits)} {prefix}{unit}".strip()


def count(value: float) -> str:
    """Write a count with thousands separators."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def counted(value: float, noun: str) -> str:
    """Write how many of what: ``1 sequence``, ``1,292 sequences``."""
    return f"{count(value)} {noun}{'' if value == 1 else 's'}"


def short_count(value: float) -> str:
    """Write parameters, tokens or dollars as the field does: ``37.6 B``."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        # What rounds to a thousand of the smaller unit is one of the larger.
        if value >= 0.9995 * size:
            return f"{value / size:.3g} {letter}"
    return count(value)


def _rounded(value: float, digits: int) -> str:
    if value == 0:
        return "0"
    places = max(0, digits - 1 - int(log10(abs(value)) // 1))
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def day(text: str, field: str) -> date:
    """Read a day, or a month, which means its middle.

    Errors: :class:`InputError` for anything else.
    """
    try:
        return date.fromisoformat(f"{text}-15" if len(text) == len("2026-11") else text)
    except ValueError as error:
        raise InputError(field, text, "write a day as 2026-11-21, or a month as 2026-11") from error


def decimal_year(at: date) -> float:
    """Day as a decimal year."""
    return at.year + (at.timetuple().tm_yday - 1) / 365.25
