"""The core of mixers that keep a state: products with it, and its traffic."""

from __future__ import annotations

from rackmath.models.architecture import Architecture
from rackmath.models.cache import mixer_cache
from rackmath.models.mixers import (
    GatedDelta,
    KimiDelta,
    Lightning,
    Mamba1,
    Mamba2,
    MatrixMemory,
    ShortConvolution,
)
from rackmath.models.numbers import Number, above_one
from rackmath.models.traffic import ACTIVATION_BYTES, Traffic, core_kind

CHUNK = 64
"""Tokens per block of a chunked prefill of linear attention. [tokens]"""


def recurrent_traffic(
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
    chunk_flops = heads * (2 * CHUNK * (key + value) + 6 * key * value)
    single = step * heads * key * value
    many = above_one(new)
    flops: Number = single + many * (chunk_flops - single) if heads else 0.0 * new
    cache = mixer_cache(m)
    convolution = a.hidden * m.kernel if isinstance(m, ShortConvolution) else cache.convolution
    state = cache.state * a.state_format.bytes_per_element + convolution * a.cache_format.bytes_per_element
    convolution_flops = 2 * convolution
    return Traffic(
        name="recurrence",
        role="recurrence",
        kind=core_kind(m),
        split="heads",
        parts=heads or None,
        cache_split=heads or None,
        flops=sequences * new * (flops + convolution_flops),
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
