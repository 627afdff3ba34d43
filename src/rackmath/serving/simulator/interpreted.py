"""The loop without machine code: its functions run as Python on one object per request, replica and block.

Results are equal to the last bit: the functions are the same, and neither form reorders a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import make_dataclass
from functools import cache
from operator import attrgetter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rackmath.serving.simulator.fixed import RunConstants
from rackmath.serving.simulator.state import PrefixCaches, Replicas, Requests


def interpreted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Form of a function of the loop that takes the same arrays and leaves the same in them."""

    def called(kinds: Sequence[RunConstants], s: Replicas, q: Requests, c: PrefixCaches, *rest: Any) -> Any:
        own_objects, requests = _objects(s.own), _objects(q)
        blocks = {name: _objects(getattr(c, name)) for name in ("links", "uses", "shelves")}
        result = function(tuple(map(_lists, kinds)), s._replace(own=own_objects), requests, c._replace(**blocks), *rest)
        for records, objects in (
            (s.own, own_objects),
            (q, requests),
            *((getattr(c, name), blocks[name]) for name in blocks),
        ):
            _write_back(records, objects)
        return result

    return called


@cache
def _record(dtype: np.dtype[Any]) -> tuple[type, Callable[[Any], tuple[Any, ...]]]:
    """Class of objects with the fields of a record, and what reads all of them."""
    names = cast(tuple[str, ...], dtype.names)
    return make_dataclass("Record", names, slots=True), attrgetter(*names)


def _objects(records: NDArray[Any]) -> NDArray[Any]:
    """One object per record, in an array of the same shape."""
    make = _record(records.dtype)[0]
    objects = np.empty(records.size, object)
    objects[:] = [make(*values) for values in records.ravel().tolist()]
    return objects.reshape(records.shape)


def _write_back(records: NDArray[Any], objects: NDArray[Any]) -> None:
    values_of = _record(records.dtype)[1]
    records[...] = np.array([values_of(item) for item in objects.ravel()], records.dtype).reshape(records.shape)


def _lists(constants: RunConstants) -> RunConstants:
    """Tables as lists of Python's numbers, which are read several times faster than items of arrays."""
    return constants._replace(
        **{name: value.tolist() for name, value in constants._asdict().items() if isinstance(value, np.ndarray)}
    )
