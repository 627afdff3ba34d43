"""The core of each mixer: products with the cache, and the cache traffic they cause.

FLOPs are for queries and keys that really meet (causal masks, windows, chosen
blocks). Reads count each cache entry once per pass and sequence, as a fused
attention kernel does; what is stored but not read is in :mod:`rackmath.models.cache`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from rackmath.models.architecture import Architecture
from rackmath.models.cache import mixer_cache
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
from rackmath.models.numbers import Number, above_one, maximum, minimum

ACTIVATION_BYTES = 2
"""Activations move in 16 bit between operators. [B]"""

CHUNK = 64
"""Tokens per block of a chunked prefill of linear attention. [tokens]"""


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


def visible_pairs(new: Number, context: Number, limit: float | None = None) -> Number:
    r"""Query-key pairs of one sequence under a causal mask with a window. [pairs]

    .. math:: \sum_{p=T-q+1}^{T} \min(p, w)

    ``new`` q queries are the last of ``context`` T tokens; ``limit`` w, None for none.
    """
    before = maximum(context - new, 0.0)
    return _triangle(context, limit) - _triangle(before, limit)


def chunk_pairs(new: Number, context: Number, chunk: int) -> Number:
    """Query-key pairs of one sequence where each query sees its own chunk only. [pairs]"""

    def below(n: Number) -> Number:
        full, rest = n // chunk, n % chunk
        return full * (chunk * (chunk + 1) / 2) + rest * (rest + 1) / 2

    return below(context) - below(maximum(context - new, 0.0))


def visible_keys(new: Number, context: Number, limit: float | None = None) -> Number:
    """Distinct keys that the new queries of one sequence read. [tokens]"""
    return context if limit is None else minimum(context, limit + new - 1)


def mixer_traffic(
    mixer: Mixer, a: Architecture, sequences: Number, new: Number, context: Number, absorbed: bool
) -> Traffic:
    """FLOPs and traffic of one mixer's core for a whole pass.

    Parameters
    ----------
    mixer, a
        The mixer and the model it stands in (hidden width and cache formats).
    sequences, new, context : Number
        Sequences, new tokens per sequence, and tokens visible to the last of them.
    absorbed : bool
        Whether latent attention works on the latent.
    """
    match mixer:
        case Grouped():
            return _grouped(mixer, a, sequences, new, context)
        case Latent():
            return _latent(mixer, a, sequences, new, context, absorbed)
        case Compressed():
            return _compressed(mixer, a, sequences, new, context)
        case PooledCache():
            width = a.cache_format.bytes_per_element
            return Traffic(
                name="cache",
                role="attention",
                split="all",
                parts=None,
                cache_split=None,
                flops=sequences * mixer.attention_flops * visible_pairs(new, context),
                read=sequences * context * mixer.elements * width,
            )
        case _:
            return _recurrent(mixer, a, sequences, new)


def _triangle(n: Number, limit: float | None) -> Number:
    """Sum of min(p, limit) for p = 1 .. n."""
    if limit is None:
        return n * (n + 1) / 2
    inside = minimum(n, limit)
    return inside * (inside + 1) / 2 + (n - inside) * limit


def _grouped(m: Grouped, a: Architecture, sequences: Number, new: Number, context: Number) -> Traffic:
    width = a.cache_format.bytes_per_element
    per_token = m.kv_heads * (m.key_dim + m.value_dim)
    pair = 2 * m.query_heads * (m.key_dim + m.value_dim)
    index_flops: Number = 0.0
    index_read: Number = 0.0
    written = per_token if m.stores else 0
    if m.cross:
        # Text queries meet vision tokens, which a text pass does not have.
        pairs: Number = 0.0 * context
        keys: Number = 0.0 * context
        written = 0
    elif m.bidirectional:
        pairs, keys, written = new * context, context, 0
    elif m.chunk:
        pairs = chunk_pairs(new, context, m.chunk)
        keys = _chunk_keys(new, context, m.chunk)
    else:
        limit = m.window if m.blocks is None else m.blocks.visible
        pairs = visible_pairs(new, context, limit)
        keys = visible_keys(new, context, limit)
        if m.blocks:
            b = m.blocks
            index_flops = 2 * b.heads * b.dim * visible_pairs(new, context)
            index_read = context * b.dim
            keys = minimum(context, new * minimum(context, b.visible))
            written += b.dim
    return Traffic(
        name="attention",
        role="attention",
        split="heads",
        parts=m.query_heads,
        cache_split=m.kv_heads,
        head=m.key_dim,
        scores=sequences * m.query_heads * pairs,
        flops=sequences * (pair * pairs + index_flops),
        read=sequences * (keys * per_token + index_read) * width,
        written=sequences * new * written * width,
        activations=sequences * new * m.query_heads * (m.key_dim + m.value_dim) * ACTIVATION_BYTES,
    )


def _chunk_keys(new: Number, context: Number, chunk: int) -> Number:
    """Keys read: back to the start of the chunk of the first new token."""
    first = maximum(context - new, 0.0)
    return context - first // chunk * chunk


def _latent(m: Latent, a: Architecture, sequences: Number, new: Number, context: Number, absorbed: bool) -> Traffic:
    width = a.cache_format.bytes_per_element
    entry = m.kv_rank + m.rope_dim
    # Sparse attention chooses per query, so there is no common set to expand.
    if absorbed or m.indexer:
        pair = 2 * m.query_heads * (entry + m.kv_rank)
    else:
        pair = 2 * m.query_heads * (m.nope_dim + m.rope_dim + m.value_dim)
    pairs, keys = visible_pairs(new, context), context
    flops, read = pair * pairs, keys * entry
    if m.indexer:
        i = m.indexer
        chosen = visible_pairs(new, context, i.topk)
        # Queries choose for themselves; together they read at most everything.
        flops = pair * chosen
        read = minimum(context, new * minimum(context, i.topk)) * entry
        if i.owned:
            flops = flops + 2 * i.heads * (i.dim + 1) * pairs
            read = read + context * i.dim
    stored = mixer_cache(m).growing
    return Traffic(
        name="attention",
        role="attention",
        split="heads",
        parts=m.query_heads,
        cache_split=0,
        kind="latent",
        flops=sequences * flops,
        read=sequences * read * width,
        written=sequences * new * stored * width,
        activations=sequences * new * m.query_heads * (entry + m.value_dim) * ACTIVATION_BYTES,
    )


def _compressed(m: Compressed, a: Architecture, sequences: Number, new: Number, context: Number) -> Traffic:
    width = a.cache_format.bytes_per_element
    pair = 4 * m.query_heads * m.head_dim
    flops = pair * visible_pairs(new, context, m.window)
    entries = visible_keys(new, context, m.window) * m.head_dim
    written: Number = m.head_dim
    if m.ratio:
        compressed, blocks = visible_pairs(new, context) / m.ratio, context / m.ratio
        if m.indexer:
            i = m.indexer
            flops = flops + 2 * i.heads * (i.dim + 1) * compressed
            flops = flops + pair * visible_pairs(new, context, i.topk * m.ratio) / m.ratio
            entries = entries + blocks * i.dim + minimum(blocks, new * minimum(blocks, i.topk)) * m.head_dim
        else:
            flops = flops + pair * compressed
            entries = entries + blocks * m.head_dim
        written = written + mixer_cache(m).growing_per_token
    return Traffic(
        name="attention",
        role="attention",
        split="heads",
        parts=m.query_heads,
        cache_split=0,
        kind="latent",
        flops=sequences * flops,
        read=sequences * entries * width,
        written=sequences * new * written * width,
        activations=sequences * new * 2 * m.query_heads * m.head_dim * ACTIVATION_BYTES,
    )


def _recurrent(
    m: GatedDelta | KimiDelta | Mamba1 | Mamba2 | Lightning | ShortConvolution | MatrixMemory,
    a: Architecture,
    sequences: Number,
    new: Number,
) -> Traffic:
    """State-keeping mixers: the state is read and written once per pass, whatever the context.

    One token costs the recurrence; a long pass runs in chunks of ``CHUNK`` tokens,
    where each token also meets half of its chunk.
    """
    heads, key, value, step = _state_shape(m)
    chunked = heads * (2 * CHUNK * (key + value) + 6 * key * value)
    single = step * heads * key * value
    many = above_one(new)
    flops: Number = single + many * (chunked - single) if heads else 0.0 * new
    cache = mixer_cache(m)
    convolution = a.hidden * m.kernel if isinstance(m, ShortConvolution) else cache.convolution
    state = cache.state * a.state_format.bytes_per_element + convolution * a.cache_format.bytes_per_element
    convolved = 2 * convolution
    return Traffic(
        name="recurrence",
        role="recurrence",
        kind="recurrence",
        split="heads",
        parts=heads or None,
        cache_split=heads or None,
        flops=sequences * new * (flops + convolved),
        read=sequences * state + 0.0 * new,
        written=sequences * state + 0.0 * new,
        activations=sequences * new * heads * (key + 2 * value) * ACTIVATION_BYTES,
    )


def _state_shape(
    m: GatedDelta | KimiDelta | Mamba1 | Mamba2 | Lightning | ShortConvolution | MatrixMemory,
) -> tuple[int, int, int, int]:
    """Heads, key and value width of the state, and FLOPs per state element and token.

    The delta rule costs 7 (decay 1, read 2, rank-1 update 2, query 2), a plain decay 6
    with its input scaling, a fixed decay 5.
    """
    match m:
        case GatedDelta():
            return m.value_heads, m.key_dim, m.value_dim, 7
        case KimiDelta():
            return m.heads, m.dim, m.dim, 7
        case Mamba1():
            return m.inner, m.state, 1, 6
        case Mamba2():
            return m.heads, m.state, m.head_dim, 6
        case Lightning():
            return m.heads, m.dim, m.dim, 5
        case MatrixMemory():
            return m.heads, m.key_dim, m.value_dim, 6
        case ShortConvolution():
            return 0, 0, 0, 0
