"""Models as the market knows them, drawn at random: the prior of whatever stands behind a price page."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rackmath.prices.decode import UTILISATION, UTILISATION_SCALE
from rackmath.prices.market import RIDGE, Market, log_prices, normal_log

Array = NDArray[np.float64]

DRAWS = 8192
CONTEXT, CONTEXT_SCALE = 2900.0, 1.0
"""Tokens that a typical token sees, and their spread in ln: the pooled fit of ``shared/pricing.md``, section 2;
the spread is assumed."""
LINK, LINK_SCALE = 30e9, 0.7
"""Bytes per second at which a waiting cache reaches one accelerator: between a drive of 14 GB/s and a PCIe 5.0
slot of 64 GB/s; the spread covers both."""
_FREEDOM = 4.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Population:
    """Models, one per draw. Arrays of (draws,)."""

    active: Array
    """Parameters. [1]"""
    sparsity: Array
    """Total over active parameters. [1]"""
    read_out: Array
    """Time of reading weights over that of using them, per output token: r rho / B. [1]"""
    read_in: Array
    """The same per input token: r rho / K. [1]"""
    cache: Array
    """Stored at 8 bit. [B/token]"""
    crossover: Array
    """Context at which reading its keys and values takes as long as using the weights. [tokens]"""
    attention: Array
    """Context at which a new token's attention takes as many FLOPs as its weights. [tokens]"""
    context: Array
    """That a typical token sees. [tokens]"""
    above: Array
    """Where a request above a cliff stands between the tier's start and its end, as a part of the logarithm. [1]"""
    link: Array
    """[B/s]"""
    utilisation: Array
    """Of the peak 8-bit rate. [1]"""
    log_input: Array
    """ln of the input price in USD per million tokens."""
    input_scale: float
    """Spread of one host's price around that, in ln."""

    def given(self, input_price: float) -> Array:
        """Weights of the draws once an input price is known; they sum to 1. (draws,)"""
        logs = normal_log(np.log(input_price) - self.log_input, np.asarray(self.input_scale**2))
        weights: Array = np.exp(logs - float(np.max(logs)))
        return weights / float(np.sum(weights))


def population(market: Market, draws: int = DRAWS, seed: int = 1) -> Population:
    """Draw models from the market's prior: size, sparsity, batch, cache and attention. Deterministic."""
    random = np.random.default_rng(seed)

    def normal(center: float, scale: float) -> Array:
        return center + scale * random.standard_normal(draws)

    dense = random.random(draws) < market.dense.share
    first, second = random.standard_normal((2, draws))

    def pick(name: str) -> Array:
        """A field of each draw's kind."""
        first, sparse_value = (float(getattr(kind, name)) for kind in (market.dense, market.sparse))
        return np.where(dense, first, sparse_value)

    joint = pick("correlation")
    active = pick("active") + pick("active_deviation") * first
    many = joint * first + np.sqrt(1 - joint**2) * second
    sparsity = np.maximum(pick("sparsity") + pick("sparsity_deviation") * many, 0.0)
    batch = normal(market.batch, market.batch_scale)
    level = market.level + market.level_scale * random.standard_t(_FREEDOM, draws)
    log_input, _ = log_prices(active, sparsity, batch, level, np.asarray(market.economy), np.asarray(market.chunk))
    reads = RIDGE * np.exp(sparsity)
    return Population(
        active=1e9 * np.exp(active),
        sparsity=np.exp(sparsity),
        read_out=reads / np.exp(batch),
        read_in=reads / np.exp(market.chunk),
        cache=np.exp(normal(market.cache, market.cache_scale)) / 2,
        crossover=np.exp(normal(market.crossover, market.crossover_scale)),
        attention=np.exp(normal(market.attention, market.attention_scale)),
        context=np.exp(normal(np.log(CONTEXT), CONTEXT_SCALE)),
        above=random.random(draws),
        link=np.exp(normal(np.log(LINK), LINK_SCALE)),
        utilisation=np.minimum(np.exp(normal(np.log(UTILISATION), UTILISATION_SCALE)), 1.0),
        log_input=log_input,
        input_scale=float(np.hypot(market.hosts.scale, market.hosts.offer_scale)),
    )
