"""Points of a grid in sets that fit in the cache of a core, and results put together again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from rackmath.models.numbers import Number

CHUNK = 16_384
"""Points that are evaluated together: small enough for the cache of a core."""


def pieces(point: Mapping[str, Number], shape: tuple[int, ...]) -> Iterator[dict[str, Number]]:
    """Cut the points of a grid along its first axes.

    What broadcasts over the other axes stays as small as it is: widths of a layout are not repeated for every batch.

    Parameters
    ----------
    point : Mapping
        Numbers that broadcast against each other.
    shape : tuple of int
        Their broadcast shape.
    """
    numbers: dict[str, Number] = {k: np.asarray(v, dtype=float) if np.ndim(v) else float(v) for k, v in point.items()}
    if prod(shape) <= CHUNK:
        yield numbers
        return
    first = _cut_axes(shape)
    step = CHUNK // prod(shape[first:])
    numbers = {k: _one_first_axis(v, shape, first) if isinstance(v, np.ndarray) else v for k, v in numbers.items()}
    rows = {k: v for k, v in numbers.items() if isinstance(v, np.ndarray) and len(v) > 1}
    for start in range(0, prod(shape[:first]), step):
        yield numbers | {k: v[start : start + step] for k, v in rows.items()}


def put_together(values: Sequence[Number], shape: tuple[int, ...]) -> Number:
    """One array of a grid's shape from a number of each of its :func:`pieces`, which broadcast over their piece."""
    first = _cut_axes(shape)
    step = CHUNK // prod(shape[first:])
    whole = np.empty((prod(shape[:first]), *shape[first:]))
    for place, value in enumerate(values):
        whole[place * step : (place + 1) * step] = value
    return whole.reshape(shape)


def _cut_axes(shape: tuple[int, ...]) -> int:
    """Axes, from the first on, that points are cut along: as few as leave no more than a piece behind them."""
    return next(axes for axes in range(1, len(shape) + 1) if prod(shape[axes:]) <= CHUNK)


def _one_first_axis(value: NDArray[np.float64], shape: tuple[int, ...], first: int) -> NDArray[np.float64]:
    """A number with its first axes as one, repeated along them only where it varies with any."""
    value = value.reshape((1,) * (len(shape) - value.ndim) + value.shape)
    own_shape = value.shape[first:]
    if prod(value.shape[:first]) == 1:
        return value.reshape((1, *own_shape))
    return np.broadcast_to(value, shape[:first] + own_shape).reshape((-1, *own_shape))
