"""The core of each mixer: products with the cache, and the cache traffic they cause.

FLOPs are for queries and keys that really meet (causal masks, windows, chosen
blocks). Reads count each cache entry once per pass and sequence, as a fused
attention kernel does; what is stored but not read is in :mod:`rackmath.models.cache`.
"""

from __future__ import annotations

from math import inf

from rackmath.models.architecture import Architecture
from rackmath.models.cache import mixer_cache
from rackmath.models.mixers import Compressed, Grouped, Latent, Mixer, PooledCache
from rackmath.models.numbers import Number, maximum, minimum
from rackmath.models.recurrent_operators import recurrent_traffic
from rackmath.models.traffic import ACTIVATION_BYTES, Traffic, core_kind


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
            return recurrent_traffic(mixer, a, sequences, new)


def index_traffic(mixer: Mixer, a: Architecture, sequences: Number, new: Number, context: Number) -> Traffic | None:
    """FLOPs and reads of choosing the keys that attention meets; None where it meets all, or others have chosen.

    Every rank chooses for all heads alike: engines replicate the index. DeepSeek's multiplies in 8 bit, over entries of
    its own. Sources: DeepSeek-V3.2-Exp's report, vLLM's and SGLang's ``Indexer``.
    """
    match mixer:
        case Latent(indexer=index) if index is not None and index.owned:
            heads, dim, score_weights, ratio, compute = index.heads, index.dim, 1, 1, "fp8"
        case Compressed(indexer=index) if index is not None:
            heads, dim, score_weights, ratio, compute = index.heads, index.dim, 1, mixer.ratio, "fp8"
        case Grouped(blocks=index) if index is not None:
            heads, dim, score_weights, ratio, compute = index.heads, index.dim, 0, 1, "bf16"
        case _:
            return None
    return Traffic(
        name="index",
        role="indexer",
        split="none",
        parts=None,
        cache_split=0,
        kind=f"{core_kind(mixer)}_index",
        compute=compute,
        flops=sequences * 2 * heads * (dim + score_weights) * visible_pairs(new, context) / ratio,
        read=sequences * context / ratio * dim * a.cache_format.bytes_per_element,
    )


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
    write_bytes = per_token if m.stores else 0
    if m.cross:
        # Text queries meet vision tokens, which a text pass does not have.
        pairs: Number = 0.0 * context
        keys: Number = 0.0 * context
        write_bytes = 0
    elif m.bidirectional:
        pairs, keys, write_bytes = new * context, context, 0
    elif m.chunk:
        pairs = chunk_pairs(new, context, m.chunk)
        keys = _chunk_keys(new, context, m.chunk)
    else:
        limit = m.window if m.blocks is None else m.blocks.visible
        pairs = visible_pairs(new, context, limit)
        keys = visible_keys(new, context, limit)
        if m.blocks:
            keys = minimum(context, new * minimum(context, m.blocks.visible))
            write_bytes += m.blocks.dim
    return Traffic(
        name="attention",
        role="attention",
        split="heads",
        parts=m.query_heads,
        cache_split=m.kv_heads,
        head=m.key_dim,
        kind=core_kind(m),
        scores=sequences * m.query_heads * pairs,
        flops=sequences * pair * pairs,
        read=sequences * keys * per_token * width,
        written=sequences * new * write_bytes * width,
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
    flops, read_bytes = pair * pairs, keys * entry
    if m.indexer:
        topk = m.indexer.topk
        # Queries choose for themselves; together they read at most everything.
        flops = pair * visible_pairs(new, context, topk)
        read_bytes = minimum(context, new * minimum(context, topk)) * entry
    entry_bytes = mixer_cache(m).growing
    return Traffic(
        name="attention",
        role="attention",
        split="heads",
        parts=m.query_heads,
        cache_split=0,
        kind=core_kind(m),
        head=float(m.query_heads) if m.indexer else inf,
        flops=sequences * flops,
        read=sequences * read_bytes * width,
        written=sequences * new * entry_bytes * width,
        activations=sequences * new * m.query_heads * (entry + m.value_dim) * ACTIVATION_BYTES,
    )


def _compressed(m: Compressed, a: Architecture, sequences: Number, new: Number, context: Number) -> Traffic:
    width = a.cache_format.bytes_per_element
    pair = 4 * m.query_heads * m.head_dim
    flops = pair * visible_pairs(new, context, m.window)
    entries = visible_keys(new, context, m.window) * m.head_dim
    write_bytes: Number = m.head_dim
    if m.ratio:
        entry_count, blocks = visible_pairs(new, context) / m.ratio, context / m.ratio
        if m.indexer:
            topk = m.indexer.topk
            flops = flops + pair * visible_pairs(new, context, topk * m.ratio) / m.ratio
            entries = entries + minimum(blocks, new * minimum(blocks, topk)) * m.head_dim
        else:
            flops = flops + pair * entry_count
            entries = entries + blocks * m.head_dim
        write_bytes = write_bytes + mixer_cache(m).growing_per_token
    return Traffic(
        name="attention",
        role="attention",
        split="heads",
        parts=m.query_heads,
        cache_split=0,
        kind=core_kind(m),
        head=float(m.query_heads),
        flops=sequences * flops,
        read=sequences * entries * width,
        written=sequences * new * write_bytes * width,
        activations=sequences * new * 2 * m.query_heads * m.head_dim * ACTIVATION_BYTES,
    )
