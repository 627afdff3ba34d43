"""What a sequence keeps between steps: growing cache, bounded windows, constant state.

Stored and read differ: sparse attention stores all and reads some, a layer that
shares a cache stores nothing and reads all. This module counts what is stored;
:mod:`rackmath.models.attention_operators` counts what is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from rackmath.models.architecture import Architecture
from rackmath.models.formats import Format
from rackmath.models.mixers import (
    Compressed,
    GatedDelta,
    Grouped,
    KimiDelta,
    Latent,
    Lightning,
    Mamba1,
    Mamba2,
    MatrixMemory,
    Mixer,
    PooledCache,
    ShortConvolution,
)
from rackmath.models.numbers import Number, floor_multiple, minimum


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """Elements that one mixer stores per sequence."""

    growing: float = 0.0
    """Per token of context, without bound. [elements/token]"""
    window: float = 0.0
    """Per token while a window fills. [elements/token]"""
    window_length: int = 0
    """Tokens that the window holds at most. [tokens]"""
    state: float = 0.0
    """Recurrent state, independent of context. [elements]"""
    convolution: float = 0.0
    """Inputs that a short convolution remembers. [elements]

    Counted as transformers allocates them, ``kernel`` steps; vLLM keeps one less.
    """
    buffer: float = 0.0
    """Uncompressed entries that wait for their block to fill, at most. [elements]"""
    per: int = 1
    """Tokens of context per growing entry (compressed caches). [tokens]"""
    chunked: bool = False
    """True where the window is a chunk that empties when it is full."""

    @property
    def growing_per_token(self) -> float:
        """Growth averaged over many tokens. [elements/token]"""
        return self.growing / self.per


def mixer_cache(mixer: Mixer) -> Cache:
    """Elements that ``mixer`` keeps per sequence, in elements of its own dtype."""
    match mixer:
        case Grouped():
            return _grouped(mixer)
        case Latent():
            index = mixer.indexer.dim if mixer.indexer and mixer.indexer.owned else 0
            return Cache(growing=mixer.kv_rank + mixer.rope_dim + index)
        case Compressed():
            return _compressed(mixer)
        case PooledCache():
            return Cache(growing=mixer.elements)
        case _:
            return _recurrent(mixer)


def _grouped(a: Grouped) -> Cache:
    if not a.stores or a.cross or a.bidirectional:
        return Cache()
    per_token = a.kv_heads * (a.key_dim + a.value_dim)
    limit = a.window or a.chunk
    if limit:
        return Cache(window=per_token, window_length=limit, chunked=a.chunk is not None, convolution=a.convolution)
    return Cache(growing=per_token + (a.blocks.dim if a.blocks else 0), convolution=a.convolution)


def _compressed(a: Compressed) -> Cache:
    index = a.indexer.dim if a.indexer else 0
    # Keys and gates of the block that is being filled; CSA always holds a whole one.
    pairs = 2 * (a.head_dim + index)
    return Cache(
        growing=a.head_dim + index if a.ratio else 0,
        per=a.ratio or 1,
        window=a.head_dim,
        window_length=a.window,
        convolution=a.ratio * pairs if a.indexer else 0,
        buffer=0 if a.indexer or not a.ratio else (a.ratio - 1) * pairs,
    )


def _recurrent(
    m: GatedDelta | KimiDelta | Mamba1 | Mamba2 | Lightning | ShortConvolution | MatrixMemory,
) -> Cache:
    match m:
        case GatedDelta():
            channels = 2 * m.key_heads * m.key_dim + m.value_heads * m.value_dim
            return Cache(state=m.value_heads * m.key_dim * m.value_dim, convolution=channels * m.kernel)
        case KimiDelta():
            return Cache(state=m.heads * m.dim**2, convolution=3 * m.heads * m.dim * m.kernel)
        case Mamba1():
            return Cache(state=m.inner * m.state, convolution=m.inner * m.kernel)
        case Mamba2():
            channels = m.inner + 2 * m.groups * m.state
            return Cache(state=m.heads * m.head_dim * m.state, convolution=channels * m.kernel)
        case Lightning():
            return Cache(state=m.heads * m.dim**2)
        case ShortConvolution():
            # One value per channel of the hidden width; the layer supplies the width.
            return Cache()
        case MatrixMemory():
            return Cache(state=m.heads * (m.key_dim * m.value_dim + m.key_dim + 1))


def layer_caches(architecture: Architecture) -> list[tuple[Mixer, Cache, int]]:
    """Mixers of a model with their caches and multiplicities."""
    caches: list[tuple[Mixer, Cache, int]] = []
    for layer, count in architecture.groups:
        for mixer in layer.mixers:
            cache = mixer_cache(mixer)
            if isinstance(mixer, ShortConvolution):
                cache = Cache(convolution=architecture.hidden * mixer.kernel)
            caches.append((mixer, cache, count))
    return caches


def stored_bytes(cache: Cache, context: Number, form: Format, state_form: Format) -> Number:
    """Bytes that one mixer holds for one sequence of ``context`` tokens. [B]

    Convolution inputs and buffers are in the format of the cache, the recurrent
    state in its own (``mamba_ssm_dtype`` and the like; 32 bit in many models).
    """
    width = form.bytes_per_element
    entries = floor_multiple(context, cache.per) if cache.per > 1 else context
    growing_bytes = cache.growing * entries / cache.per
    if cache.window_length:
        growing_bytes = growing_bytes + cache.window * minimum(context, cache.window_length)
    return (growing_bytes + cache.convolution + cache.buffer) * width + cache.state * state_form.bytes_per_element


def kv_bytes_per_token(architecture: Architecture, form: Format | None = None) -> float:
    """Cache growth per token of context, without bound, all layers. [B/token]"""
    width = (form or architecture.cache_format).bytes_per_element
    return sum(n * cache.growing_per_token for _, cache, n in layer_caches(architecture)) * width


def kv_window_bytes_per_token(architecture: Architecture, form: Format | None = None) -> float:
    """Cache growth per token in bounded layers while their windows fill. [B/token]"""
    width = (form or architecture.cache_format).bytes_per_element
    return sum(n * cache.window for _, cache, n in layer_caches(architecture)) * width


def state_elements(architecture: Architecture) -> float:
    """Elements of recurrent and convolution state per sequence, all layers. [elements]"""
    return sum(n * (c.state + c.convolution) for _, c, n in layer_caches(architecture))


def state_bytes(architecture: Architecture, form: Format | None = None) -> float:
    """Bytes of recurrent and convolution state per sequence. [B]

    With ``form`` every element has that format; without, the recurrent state has
    the format that the config states for it.
    """
    recurrent = form or architecture.state_format
    state_format = form or architecture.cache_format
    return sum(
        n * (c.state * recurrent.bytes_per_element + c.convolution * state_format.bytes_per_element)
        for _, c, n in layer_caches(architecture)
    )


def cache_bytes(architecture: Architecture, context: Number, form: Format | None = None) -> Number:
    """Bytes that one sequence of ``context`` tokens holds, all layers. [B]"""
    form = form or architecture.cache_format
    caches = layer_caches(architecture)
    return sum((n * stored_bytes(c, context, form, architecture.state_format) for _, c, n in caches), 0.0)
