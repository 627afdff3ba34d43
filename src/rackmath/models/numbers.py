"""Numbers that are floats or arrays: the few operations that must work on both.

Every argument called ``Number`` broadcasts; the result has the broadcast shape.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Number = float | NDArray[np.float64]


def minimum(a: Number, b: Number) -> Number:
    """Smaller of two numbers, element by element."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.minimum(a, b)
    return min(a, b)


def maximum(a: Number, b: Number) -> Number:
    """Larger of two numbers, element by element."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.maximum(a, b)
    return max(a, b)


def floor_multiple(a: Number, multiple: int) -> Number:
    """Largest multiple of ``multiple`` not above ``a``."""
    return a // multiple * multiple


def ceiling(a: Number) -> Number:
    """Smallest whole number not below ``a``."""
    return np.ceil(a) if isinstance(a, np.ndarray) else float(-(-a // 1))


def above_one(n: Number) -> Number:
    """1 where ``n`` exceeds one, else 0; what a single rank, stage or token does not pay."""
    if isinstance(n, np.ndarray):
        return np.where(n > 1, 1.0, 0.0)
    return 1.0 if n > 1 else 0.0


def above_zero(n: Number) -> Number:
    """1 where ``n`` is positive, else 0."""
    if isinstance(n, np.ndarray):
        return np.where(n > 0, 1.0, 0.0)
    return 1.0 if n > 0 else 0.0


def largest_part(total: Number, parts: Number) -> Number:
    """Largest of ``parts`` groups that ``total`` things are dealt to: whole numbers are rounded up, means interpolated.

    A running batch of 1.5 sequences is one half of the time and two the other half, so that the largest of one group
    is 1.5, not 2.
    """
    below = np.floor(total)
    low, high = np.ceil(below / parts), np.ceil((below + 1) / parts)
    value = low + (total - below) * (high - low)
    return value if np.ndim(value) else float(value)
