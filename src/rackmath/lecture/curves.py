"""Equations of the blackboard over arrays: what their graphs are drawn from."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, reduce
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.lecture.equations import equation

_MODULES: list[Any] = [
    {"Max": lambda *parts: reduce(np.maximum, parts), "Min": lambda *parts: reduce(np.minimum, parts)},
    "numpy",
]


def curve(name: str, **values: Any) -> NDArray[np.float64]:
    """Right side of an equation, broadcast over its symbols.

    Parameters
    ----------
    name : str
        Id of an equation whose left side is one symbol.
    values
        Every symbol of the right side, in SI units; arrays broadcast.

    Errors: :class:`InputError` for symbols that are missing, or that the equation does not hold.
    """
    names, compute = _compiled(name)
    if set(values) != set(names):
        raise InputError(name, sorted(values), f"give {', '.join(names)}")
    return np.asarray(compute(*(np.asarray(values[symbol], dtype=float) for symbol in names)), dtype=float)


@lru_cache(maxsize=64)
def _compiled(name: str) -> tuple[tuple[str, ...], Callable[..., Any]]:
    right = equation(name).equality.rhs
    symbols = sorted(right.free_symbols, key=lambda s: s.name)
    compute: Any = sp.lambdify(symbols, right, modules=_MODULES)
    return tuple(s.name for s in symbols), compute
