"""A model known by its totals only: closed models, and the lecture's own."""

from __future__ import annotations

from math import isfinite

from rackmath.errors import InputError
from rackmath.models.architecture import Architecture, Layer, ParameterTotals
from rackmath.models.formats import BF16, Format
from rackmath.models.mixers import PooledCache


def from_totals(
    name: str,
    total_params: float,
    active_params: float,
    kv_bytes_per_token: float,
    *,
    weights: Format = BF16,
    cache: Format = BF16,
    attention_flops: float = 0.0,
) -> Architecture:
    """Build the degenerate architecture of the lecture: one pool of weights, one cache.

    All weights are read at every step, each token is multiplied by ``active_params``
    of them, and the cache is read in full. Everything divides evenly over
    accelerators.

    Parameters
    ----------
    total_params, active_params : float
        Parameters stored, and multiplied per token. [1]
    kv_bytes_per_token : float
        Cache bytes per token of context in the format ``cache``. [B/token]
    attention_flops : float
        FLOPs per query and token of context; the lecture neglects them. [FLOP]

    Errors: :class:`~rackmath.errors.InputError` for numbers that are negative, not
    finite or contradictory.
    """
    for field, value, low in (
        ("total_params", total_params, 1),
        ("active_params", active_params, 1),
        ("kv_bytes_per_token", kv_bytes_per_token, 0),
        ("attention_flops", attention_flops, 0),
    ):
        if not isfinite(value) or value < low:
            raise InputError(field, value, f"write a finite number of at least {low}")
    if active_params > total_params:
        raise InputError("active_params", active_params, f"cannot exceed total_params {total_params:g}")
    layer = Layer(
        mixers=(PooledCache(elements=kv_bytes_per_token / cache.bytes_per_element, attention_flops=attention_flops),),
        feed_forwards=(ParameterTotals(total=total_params, active=active_params),),
        formats=(("pool", weights),),
    )
    return Architecture(
        name=name,
        hidden=1,
        vocabulary=0,
        layers=(layer,),
        head=False,
        cache_format=cache,
        source="totals",
    )
