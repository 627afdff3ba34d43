"""Low-rank adapters (LoRA) that requests choose among: how many of them a batch meets, and how often one is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.models.numbers import Number, minimum

ALL_LINEAR = "all-linear"
_EXACT = 64
"""Adapters whose popularity is taken one by one; beyond them in ranges of ranks."""

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """Adapters of one rank and one set of matrices, and how requests choose among them.

    Parameters
    ----------
    rank : int
        Width r between the two matrices of an adapter.
    targets : tuple of str
        Matrices that have one: ends of tensor names (``q_proj``), tensor classes (``attention``), or ``all-linear``.
    count : int
        Adapters that requests choose from.
    resident : int
        Adapters that accelerators hold at a time (vLLM's ``--max-loras``).
    share : float
        Part of the requests with an adapter. [1]
    skew : float
        Exponent s of their popularity: the i-th is chosen in proportion to 1 / i^s; 0 where all are alike.

    Errors: :class:`InputError` for numbers out of range.
    """

    rank: int
    targets: tuple[str, ...] = (ALL_LINEAR,)
    count: int = 1
    resident: int = 1
    share: float = 1.0
    skew: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        for field, value, low, high in (
            ("--max-lora-rank", self.rank, 1, 1024),
            ("--adapters", self.count, 1, 10_000_000),
            ("--max-loras", self.resident, 1, self.count),
            ("--adapter-share", self.share, 0.0, 1.0),
            ("--adapter-skew", self.skew, 0.0, 5.0),
        ):
            if not low <= value <= high:
                raise InputError(field, value, f"write a number from {low:g} to {high:g}")

    def distinct(self, requests: Number) -> Number:
        r"""Expected distinct adapters of a batch, no more than are resident. [adapters]

        .. math:: \sum_i 1 - (1 - a p_i)^n

        with n requests, of which a part a has an adapter, and popularities p.
        """
        chance, many = self._popularity
        draws = np.asarray(requests, dtype=float)[..., np.newaxis]
        expected_count = (many * -np.expm1(draws * np.log1p(-np.minimum(self.share * chance, 1 - 1e-15)))).sum(axis=-1)
        return minimum(expected_count, float(self.resident))

    @property
    def missing(self) -> float:
        r"""Part of the requests whose adapter has to be loaded first, the least recently used having left. [1]

        .. math:: a \sum_i p_i e^{-p_i T}, \quad \sum_i 1 - e^{-p_i T} = C

        with C resident adapters. Source: Che, Tung and Wang 2002.
        """
        return self.share * _missing(self.count, self.resident, self.skew)

    @property
    def _popularity(self) -> tuple[Array, Array]:
        """Chance of one adapter, and adapters of that chance. (ranges,)"""
        return _popularity(self.count, self.skew)


@lru_cache(maxsize=64)
def _popularity(count: int, skew: float) -> tuple[Array, Array]:
    first = np.arange(1.0, min(count, _EXACT) + 1)
    edges = [float(_EXACT)]
    while edges[-1] < count:
        edges.append(min(np.ceil(edges[-1] * 1.05), float(count)))
    low, high = np.array(edges[:-1]) + 0.5, np.array(edges[1:]) + 0.5
    tail = np.log(high / low) if skew == 1 else (high ** (1 - skew) - low ** (1 - skew)) / (1 - skew)
    many = np.concatenate([np.ones_like(first), high - low])
    mass = np.concatenate([first**-skew, tail])
    return mass / mass.sum() / many, many


@lru_cache(maxsize=64)
def _missing(count: int, resident: int, skew: float) -> float:
    """Part of the draws of an adapter that find it gone."""
    if resident == count:
        return 0.0
    chance, many = _popularity(count, skew)
    low, high = 0.0, 1.0
    while (many * -np.expm1(-chance * high)).sum() < resident:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        below = (many * -np.expm1(-chance * middle)).sum() < resident
        low, high = (middle, high) if below else (low, middle)
    return float((many * chance * np.exp(-chance * high)).sum())
