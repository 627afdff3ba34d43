"""Activation memory against depth: stored, recomputed, reversible; what each costs and where it pays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, sqrt

from rackmath.errors import InputError
from rackmath.models.architecture import Architecture
from rackmath.training.activations import kept

WAYS = ("standard", "per block", "sqrt", "reversible")
OVERHEAD = {"standard": 0.0, "per block": 1 / 3, "sqrt": 1 / 3, "reversible": 1 / 3}
"""Computing again, over a step without it: one forward pass more beside three."""


_DEEPEST = 4000
"""Layers up to which ways are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """Activation bytes per token of one way, at a depth. [B/token]"""

    way: str
    memory: float
    overhead: float
    """Part of a step's computation that comes on top. [1]"""


def memory_with_depth(layer: float, boundary: float, layers: int, way: str) -> float:
    r"""Bytes that wait at most. [B]

    Standard :math:`L k`, per block :math:`L b + k`, square root :math:`\lceil L/s \rceil k + s b` with
    s segments, reversible :math:`2 b + k`; k is what a layer keeps, b its input.

    Source: Chen et al. 2016 (square root); Gomez et al. 2017 (reversible).
    Errors: :class:`InputError` for an unknown way or fewer than one layer.
    """
    if way not in WAYS:
        raise InputError("way", way, f"known are {', '.join(WAYS)}")
    if layers < 1:
        raise InputError("--layers", layers, "write a number of at least 1")
    if way == "standard":
        return layers * layer
    if way == "per block":
        return layers * boundary + layer
    if way == "sqrt":
        segments = max(round(sqrt(layers)), 1)
        return ceil(layers / segments) * layer + segments * boundary
    return 2 * boundary + layer


@lru_cache(maxsize=16)
def _each(architecture: Architecture) -> float:
    """What a layer keeps, in the mean of a model's kinds. [B/token]"""
    return kept(architecture, "none")[0] / len(architecture.layers)


def depths(architecture: Architecture, layers: int) -> list[Depth]:
    """All ways for layers like a model's, in the mean of its kinds. Bytes per token at 16 bit."""
    per_layer = _each(architecture)
    boundary = 2.0 * architecture.hidden
    return [
        Depth(way=way, memory=memory_with_depth(per_layer, boundary, layers, way), overhead=OVERHEAD[way])
        for way in WAYS
    ]


def below_from(architecture: Architecture, way: str, rival: str = "per block") -> int:
    """Depth from which one way keeps less than another, at every depth beyond as well.

    Errors: :class:`InputError` for two ways that never change places.
    """
    places = WAYS.index(way), WAYS.index(rival)
    deepest = _DEEPEST
    for layers in range(_DEEPEST, 0, -1):
        ways = depths(architecture, layers)
        if ways[places[0]].memory >= ways[places[1]].memory:
            break
        deepest = layers
    if deepest == _DEEPEST:
        raise InputError("way", way, f"does not keep less than {rival} at any depth")
    return deepest
