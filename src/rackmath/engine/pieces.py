"""Points of a grid in sets that fit in the cache of a core, and results put together again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np

from rackmath.models.numbers import Number

CHUNK = 16_384
"""Points that are evaluated together: small enough for the cache of a core."""


def pieces(point: Mapping[str, Number], shape: tuple[int, ...]) -> Iterator[dict[str, Number]]:
    """Cut the points of a grid along its first axis.

    What broadcasts over other axes stays as small as it is: the widths of a layout are not repeated for every batch.

    Parameters
    ----------
    point : Mapping
        Numbers that broadcast against each other.
    shape : tuple of int
        Their broadcast shape.
    """
    cut = _cut(shape)
    if cut != shape:
        point = {k: v if np.ndim(v) == 0 else np.broadcast_to(v, shape).reshape(-1) for k, v in point.items()}
    arrays = {k: np.asarray(v, dtype=float) if np.ndim(v) else float(v) for k, v in point.items()}
    if prod(cut) <= CHUNK:
        yield arrays
        return
    varied = {k for k, v in arrays.items() if np.ndim(v) == len(cut) and np.shape(v)[0] > 1}
    step = CHUNK // prod(cut[1:])
    for start in range(0, cut[0], step):
        yield {k: np.asarray(v)[start : start + step] if k in varied else v for k, v in arrays.items()}


def put_together(values: Sequence[Number], shape: tuple[int, ...]) -> Number:
    """One array of a grid's shape from a number of each of its :func:`pieces`, which broadcast over their piece."""
    cut = _cut(shape)
    step = CHUNK // prod(cut[1:])
    whole = np.empty(cut)
    for place, value in enumerate(values):
        whole[place * step : (place + 1) * step] = value
    return whole.reshape(shape)


def _cut(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Shape in which points are cut: their own, or one axis where all but the first are too many together."""
    return shape if min(prod(shape), prod(shape[1:])) <= CHUNK else (prod(shape),)
