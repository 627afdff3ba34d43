"""A model known by its totals only: closed models, and the lecture's own."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from rackmath.errors import InputError
from rackmath.models.architecture import Architecture, Layer, ParameterTotals
from rackmath.models.formats import BF16, Format, cache_format, weight_format
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


_MOST_COUNTED = 1e18
"""Parameters or bytes that a model by totals may state."""


def totals_of_config(config: Mapping[str, Any], name: str) -> Architecture:
    """Read a model of which a file states ``total_params``, ``active_params`` and ``kv_bytes_per_token``.

    Errors: :class:`~rackmath.errors.InputError` for a number that is missing, and as of :func:`from_totals`.
    """
    numbers: dict[str, float] = {}
    for key in ("total_params", "active_params", "kv_bytes_per_token"):
        value = config.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InputError(key, value, "a model by totals needs this number")
        if not abs(value) <= _MOST_COUNTED:
            raise InputError(key, value, f"write a number of at most {_MOST_COUNTED:g}")
        numbers[key] = float(value)
    return from_totals(
        name,
        **numbers,
        weights=weight_format(str(config.get("weights", "bf16"))),
        cache=cache_format(str(config.get("kv", "bf16"))),
    )
