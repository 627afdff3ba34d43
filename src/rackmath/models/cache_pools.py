"""How SGLang shares the memory of a cache out: tokens of full attention, tokens of windows, states of recurrences.

Source: SGLang's ``model_runner_kv_cache_mixin.py`` (``handle_max_mamba_cache``, ``set_num_tokens_hybrid_swa``),
``pool_configurator.py`` (``DSV4PoolConfigurator``), ``deepseek_v4_memory_pool.py`` (``get_compress_state_ring_size``)
and ``server_args.py`` (``swa_full_tokens_ratio``, ``mamba_full_memory_ratio``), read in 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from rackmath.models.architecture import Architecture
from rackmath.models.cache import layer_caches, stored_bytes
from rackmath.models.cache_blocks import Share
from rackmath.models.mixers import Compressed
from rackmath.models.weights import cache_parts

_WINDOW_RATIO = 0.8
"""``--swa-full-tokens-ratio``: tokens of the pool of windows over those of full attention. [1]"""
_WINDOW_RATIOS: Mapping[str, float] = MappingProxyType({"gemma4": 0.15, "deepseek_v4": 0.1})
"""The same by class, where SGLang sets another one."""
STATE_RATIO = 0.9
"""``--mamba-full-memory-ratio``: memory of states over that of tokens. [1]"""
_STATES_PER_REQUEST = 3
"""States that a running request may take with prefixes kept (``MAMBA_CACHE_SIZE_MAX_RUNNING_REQUESTS_RATIO``)."""

_WINDOWS_APART = frozenset({"gpt_oss", "llama4", "mimo_v2_flash", "mimo_v2", "step3p5", "gemma4"})
"""Classes whose windows have a pool of their own (``is_hybrid_swa_model``); others keep all tokens in every layer."""

COMPRESSED_SEQUENCES = 256
"""Requests that SGLang runs at once with compressed caches where nothing is said. [sequences]"""
_ROTARY = 64
"""Elements of a compressed entry that stay in 16 bit; the others have 8, and eight bytes of scales."""
_PAGE = 256
"""Tokens of a page with compressed caches. [tokens]"""
_STATE_BYTES = 4
"""Of an element of what is not compressed yet, a key or a score. [B]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePools:
    """The pools of a cache on one rank."""

    full: float
    """Bytes of a token in all layers of full attention, and in windows that keep all tokens. [B]"""
    windows: float
    """Bytes of a token in all layers whose windows have a pool of their own. [B]"""
    window: int
    """Tokens that such a layer keeps, the longest of them. [tokens]"""
    states: float
    """Bytes of all recurrent states of a sequence. [B]"""
    window_ratio: float = _WINDOW_RATIO
    """Tokens of the pool of windows over those of full attention. [1]"""
    reserved: float = 0.0
    """Bytes that requests fill before they are compressed, of all requests that may run. [B]"""
    page: int = 1
    """Tokens that are given out together. [tokens]"""

    @property
    def cell(self) -> float:
        """Bytes that a token of the pool of full attention brings with it. [B]"""
        return self.full + self.window_ratio * self.windows

    @property
    def bytes_per_block(self) -> float:
        """Bytes that a token of full attention takes with its share of all pools. [B]"""
        return self.cell * (1 + STATE_RATIO * bool(self.states))

    def count(self, memory: float) -> int:
        """Tokens of full attention in ``memory`` bytes. [tokens]"""
        return int(max(memory - self.reserved, 0.0) // self.bytes_per_block) // self.page * self.page

    def tokens(self, count: int) -> int:
        """Tokens that the cache holds: those of full attention. [tokens]"""
        return count

    def per_sequence(self, context: float, budget: float) -> float:
        """Tokens of full attention whose share of the memory a sequence takes, by the pool that is full first. [tokens]

        A window holds what a pass of ``budget`` tokens reads as well, until that has ended.
        """
        window_tokens = min(context, self.window + budget) / self.window_ratio if self.windows else 0.0
        state = _STATES_PER_REQUEST * self.states / (STATE_RATIO * self.cell)
        return max(context, window_tokens, state)


def cache_pools(
    architecture: Architecture, share: Share, sequences: float = COMPRESSED_SEQUENCES, speculative: bool = False
) -> CachePools | None:
    """Pools of a model, or of the layers of one stage of it; None where SGLang has no such pools.

    Parameters
    ----------
    sequences : float
        Requests that may run at once. [sequences]
    speculative : bool
        Whether the model's own layers draft, which have a part of a compressed cache as well.
    """
    apart = architecture.model_type in _WINDOWS_APART
    ratio = _WINDOW_RATIOS.get(architecture.model_type, _WINDOW_RATIO)
    full = windows = states = 0.0
    longest = 0
    for mixer, cache, count in layer_caches(architecture):
        if isinstance(mixer, Compressed):
            return _compressed(architecture, share, ratio, sequences, speculative)
        part = share(cache_parts(mixer))
        size = count * part * architecture.cache_format.bytes_per_element
        full += size * cache.growing / cache.per
        if cache.window and apart:
            windows += size * cache.window
            longest = max(longest, cache.window_length or 0)
        else:
            full += size * cache.window
        if not cache.growing and not cache.window:
            states += (
                count * part * float(stored_bytes(cache, 0.0, architecture.cache_format, architecture.state_format))
            )
    if not full:
        return None
    return CachePools(full=full, windows=windows, window=longest, states=states, window_ratio=ratio)


def _compressed(
    architecture: Architecture, share: Share, ratio: float, sequences: float, speculative: bool
) -> CachePools | None:
    """Pools of compressed entries, of windows, and of what waits to be compressed; None where layers are of two kinds.

    Entries are in FlashMLA's 8-bit format whatever the cache's format is. Keys and scores that are not compressed yet
    stand in a ring of two blocks for each page of the window where blocks overlap, and in one of a block for each
    request where they do not; drafts double both.
    """
    full = windows = reserve = 0.0
    layers, window = 0, 0
    for mixer, _, count in layer_caches(architecture):
        if not isinstance(mixer, Compressed):
            return None
        part = count * share(cache_parts(mixer))
        entry = mixer.head_dim + _ROTARY + 8
        windows += part * entry
        layers, window = layers + count, mixer.window
        rings = 2 if speculative else 1
        if mixer.indexer is not None:
            index = mixer.indexer.dim + mixer.indexer.dim // 128 * 4
            full += part * (entry + index) / mixer.ratio
            waiting = 4 * (mixer.head_dim + mixer.indexer.dim) * _STATE_BYTES
            windows += part * rings * 2 * mixer.ratio / mixer.window * waiting
        elif mixer.ratio:
            full += part * entry / mixer.ratio
            ring = rings * mixer.ratio
            rows = -(-((sequences + 1) * ring + ring + 1) // 128) * 128
            reserve += part * rows * 2 * mixer.head_dim * _STATE_BYTES
    more = (layers + 1) / layers if speculative else 1.0
    return CachePools(
        full=full * more,
        windows=windows * more,
        window=window,
        states=0.0,
        window_ratio=ratio,
        reserved=reserve,
        page=_PAGE,
    )
