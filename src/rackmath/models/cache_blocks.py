"""How an engine cuts the memory of a cache into blocks: groups of layers that share a table of blocks.

Source: vLLM's ``v1/core/kv_cache_utils.py`` and ``v1/kv_cache_interface.py``, read through v0.19 to 0.27.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from rackmath.models.architecture import Architecture
from rackmath.models.cache import Cache, layer_caches, stored_bytes
from rackmath.models.mixers import Latent
from rackmath.models.weights import cache_parts

_LATENT_BLOCK = 64
"""Tokens of a block of latents at least (FlashMLA). [tokens]"""
_CLOSE = 1.5
"""Kinds of layers whose counts differ by less are padded to the larger count, instead of cut by the smaller."""

Share = Callable[[int | None], float]
"""Part of a cache on one rank, by the parts that it divides into (0: every rank holds all)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheKind:
    """Layers whose cache an engine handles alike."""

    layers: int
    window: int | None
    """Tokens that it keeps, if not all. [tokens]"""
    recurrent: bool
    """Whether it is one state per sequence."""
    compressed: int = 1
    """Tokens of context per entry. [tokens]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The blocks of a cache on one rank."""

    block: int
    """Tokens of one block. [tokens]"""
    page: float
    """Bytes of one block of one layer. [B]"""
    group: int
    """Layers that share a table of blocks. [layers]"""
    groups: tuple[CacheKind, ...]
    """One entry for each table."""

    @property
    def bytes_per_block(self) -> float:
        """Of all layers of a group. [B]"""
        return self.page * self.group

    def count(self, memory: float) -> int:
        """Blocks in ``memory`` bytes. [blocks]"""
        return int(max(memory, 0.0) // self.page) // self.group if self.page and self.group else 0

    def tokens(self, blocks: int) -> int:
        """Tokens that as many blocks hold, if each layer keeps all of them. [tokens]"""
        return blocks // max(len(self.groups), 1) * self.block

    def per_sequence(self, context: float, budget: float) -> int:
        """Blocks that a sequence takes while a pass of ``budget`` tokens is read. [blocks]"""
        return sum(self._of(kind, context, budget) for kind in self.groups)

    def _of(self, kind: CacheKind, context: float, budget: float) -> int:
        if kind.recurrent:
            return 1
        whole = ceil(context / (self.block * kind.compressed))
        if kind.window is None:
            return whole
        return min(whole, ceil(min(kind.window - 1 + budget, context) / self.block) + 1)


def cache_blocks(architecture: Architecture, share: Share, block: int) -> Blocks:
    """Cut the cache of a model, or of the layers of one stage of it, into blocks.

    Layers of one kind share a table. Several kinds are cut into groups of as many layers as the rarest kind has, the
    last of each padded. Recurrent states take one block each, for which blocks are made long enough.
    """
    counts: defaultdict[tuple[int | None, bool, int], int] = defaultdict(int)
    page = state = 0.0
    for mixer, cache, count in layer_caches(architecture):
        part = share(cache_parts(mixer))
        token = part * (cache.growing + cache.window) * architecture.cache_format.bytes_per_element
        state_bytes = part * stored_bytes(cache, 0.0, architecture.cache_format, architecture.state_format)
        if not token and not state_bytes:
            continue
        counts[_kind(cache)] += count
        page, state = max(page, token), max(state, float(state_bytes) if not token else 0.0)
        if isinstance(mixer, Latent):
            block = max(block, _LATENT_BLOCK)
    kinds = [
        CacheKind(layers=n, window=window, recurrent=recurrent, compressed=per)
        for (window, recurrent, per), n in counts.items()
    ]
    if not kinds:
        return Blocks(block=block, page=0.0, group=0, groups=())
    if not page:
        return Blocks(block=1, page=state, group=sum(kind.layers for kind in kinds), groups=(kinds[0],))
    block *= max(1, ceil(state / (page * block)))
    fewest, most = min(kind.layers for kind in kinds), max(kind.layers for kind in kinds)
    group = most if len(kinds) == 1 or most < _CLOSE * fewest else fewest
    tables = tuple(kind for kind in kinds for _ in range(ceil(kind.layers / group)))
    return Blocks(block=block, page=page * block, group=group, groups=tables)


def _kind(cache: Cache) -> tuple[int | None, bool, int]:
    if cache.growing:
        return None, False, cache.per
    return (cache.window_length, False, 1) if cache.window else (None, True, 1)
