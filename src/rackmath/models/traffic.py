"""What the core of a mixer asks for, and which kind of kernel runs it."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from rackmath.models.mixers import Compressed, Grouped, Latent, Mixer, PooledCache
from rackmath.models.numbers import Number

ACTIVATION_BYTES = 2
"""Activations move in 16 bit between operators. [B]"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Traffic:
    """FLOPs and bytes of one mixer's core in one layer, all heads."""

    name: str
    role: str
    split: str
    parts: int | None
    cache_split: int | None
    flops: Number = 0.0
    read: Number = 0.0
    written: Number = 0.0
    activations: Number = 0.0
    kind: str = "attention"
    scores: Number = 0.0
    """Products of a query and a key, over all heads."""
    head: float = inf
    """Width of a head's key. [elements]"""
    compute: str = "bf16"
    """Precision of its multiplications."""


def core_kind(mixer: Mixer) -> str:
    """Kind of kernel at the core of a mixer: of :attr:`~rackmath.models.operator.Operator.kind`."""
    match mixer:
        case Grouped():
            return "block_sparse" if mixer.blocks else "attention"
        case Latent():
            if mixer.indexer is None:
                return "latent"
            return "sparse" if mixer.indexer.owned else "sparse_shared"
        case Compressed():
            return "compressed_sparse" if mixer.indexer else "compressed"
        case PooledCache():
            return "attention"
        case _:
            return "recurrence"
