"""What figures of the book share."""

from __future__ import annotations

from typing import Any

import numpy as np

from rackmath.figures import Series

POINTS = 160
"""Of a curve."""


def line(name: str, x: Any, y: Any, colour: int | None = None) -> Series:
    """A line through points; ``colour`` is its place among the colours."""
    return Series(name=name, x=np.asarray(x).tolist(), y=np.asarray(y).tolist(), colour=colour)
