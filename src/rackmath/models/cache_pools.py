"""How SGLang shares the memory of a cache out: tokens of full attention, tokens of windows, states of recurrences.

Source: SGLang's ``model_runner_kv_cache_mixin.py`` (``handle_max_mamba_cache``, ``set_num_tokens_hybrid_swa``) and
``server_args.py`` (``swa_full_tokens_ratio``, ``mamba_full_memory_ratio``), read in 2026.
"""

from __future__ import annotations

from dataclasses import dataclass

from rackmath.models.architecture import Architecture
from rackmath.models.cache import layer_caches, stored_bytes
from rackmath.models.cache_blocks import Share
from rackmath.models.weights import cache_parts

WINDOW_RATIO = 0.8
"""``--swa-full-tokens-ratio``: tokens of the pool of windows over those of full attention. [1]"""
STATE_RATIO = 0.9
"""``--mamba-full-memory-ratio``: memory of states over that of tokens. [1]"""
_STATES_PER_REQUEST = 3
"""States that a running request may take with prefixes kept (``MAMBA_CACHE_SIZE_MAX_RUNNING_REQUESTS_RATIO``)."""

_WINDOWS_APART = frozenset({"gpt_oss", "llama4", "mimo_v2_flash", "mimo_v2", "step3p5", "gemma4"})
"""Classes whose windows have a pool of their own (``is_hybrid_swa_model``); others keep all tokens in every layer."""


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

    @property
    def cell(self) -> float:
        """Bytes that a token of the pool of full attention brings with it. [B]"""
        return self.full + WINDOW_RATIO * self.windows

    @property
    def bytes_per_block(self) -> float:
        """Bytes that a token of full attention takes with its share of all pools. [B]"""
        return self.cell * (1 + STATE_RATIO * bool(self.states))

    def count(self, memory: float) -> int:
        """Tokens of full attention in ``memory`` bytes. [tokens]"""
        return int(max(memory, 0.0) // self.bytes_per_block)

    def tokens(self, count: int) -> int:
        """Tokens that the cache holds: those of full attention. [tokens]"""
        return count

    def per_sequence(self, context: float, budget: float) -> float:
        """Tokens of full attention whose share of the memory a sequence takes, by the pool that is full first. [tokens]

        A window holds what a pass of ``budget`` tokens reads as well, until that has ended.
        """
        kept = min(context, self.window + budget) / WINDOW_RATIO if self.windows else 0.0
        state = _STATES_PER_REQUEST * self.states / (STATE_RATIO * self.cell)
        return max(context, kept, state)


def cache_pools(architecture: Architecture, share: Share) -> CachePools | None:
    """Pools of a model, or of the layers of one stage of it; None where SGLang has other ones: compressed caches."""
    apart = architecture.model_type in _WINDOWS_APART
    full = windows = states = 0.0
    longest = 0
    for mixer, cache, count in layer_caches(architecture):
        part = share(cache_parts(mixer))
        if cache.growing and cache.per > 1:
            return None
        size = count * part * architecture.cache_format.bytes_per_element
        full += size * cache.growing
        if cache.window and apart:
            windows += size * cache.window
            longest = max(longest, cache.window_length or 0)
        else:
            full += size * cache.window
        if not cache.growing and not cache.window:
            states += (
                count * part * float(stored_bytes(cache, 0.0, architecture.cache_format, architecture.state_format))
            )
    return CachePools(full=full, windows=windows, window=longest, states=states) if full else None
