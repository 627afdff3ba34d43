"""Numbers where no closed form exists: bisection with fifty digits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mpmath
import sympy as sp


def positive_roots(equality: Any, unknown: sp.Symbol, numbers: Mapping[sp.Symbol, Any]) -> list[float]:
    """Positive roots by bisection between the points of a logarithmic grid."""
    # Fifty digits: differences such as 1 - (1 - k/E)^B lose all of a float's.
    with mpmath.workdps(50):
        return _bisected(sp.lambdify(unknown, (equality.lhs - equality.rhs).subs(numbers), "mpmath"))


def _bisected(gap: Any) -> list[float]:
    grid = [mpmath.mpf(10) ** (mpmath.mpf(e) / 4) for e in range(-48, 73)]
    values = [_real(gap, x) for x in grid]
    roots: list[float] = []
    for low, high, at_low, at_high in zip(grid, grid[1:], values, values[1:], strict=False):
        if at_low is None or at_high is None or at_low * at_high > 0:
            continue
        for _ in range(200):
            middle = (low + high) / 2
            at_middle = _real(gap, middle)
            if at_middle is None:
                break
            low, high = (middle, high) if at_low * at_middle > 0 else (low, middle)
        roots.append(float((low + high) / 2))
    return roots


def _real(gap: Any, x: Any) -> Any | None:
    try:
        value = gap(x)
    except (ValueError, OverflowError, ZeroDivisionError):
        return None
    return value if isinstance(value, mpmath.mpf) and mpmath.isfinite(value) else None
