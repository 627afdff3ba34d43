"""What a list price is made of: work, weights read for a batch, and one product that nobody can split."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from rackmath.prices.hosts import Hosts

Array = NDArray[np.float64]

RIDGE = 295.0
"""Tokens at which reading an 8-bit weight takes as long as using it: 1,979 TFLOP/s over 2 x 3.35 TB/s, H100."""
FLOOR = 2.35 / 3600 / 1979e12 * 2e9 * 1e6
"""A million tokens through a billion parameters at an H100's 8-bit rate and 2.35 $/hour. [USD]"""
METERED = 0.02
"""ln of output over input within which a page has one price for both kinds of tokens, and meters neither."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindPrior:
    """What models of a kind, dense or sparse, look like before any price is seen. Natural logarithms."""

    share: float
    """Part of the models that are of this kind."""
    active: float
    """Mean logarithm of the active parameters, in billions."""
    active_deviation: float
    sparsity: float = 0.0
    """Mean logarithm of total over active parameters; dense models have none."""
    sparsity_deviation: float = 0.0
    correlation: float = 0.0
    """Of the two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """How open-weight models of known size are priced. Natural logarithms; prices in USD per million tokens."""

    dense: KindPrior
    sparse: KindPrior
    hosts: Hosts
    """How prices of one model differ between hosts."""
    level: float
    """Input price of a dense model of a billion parameters."""
    level_scale: float
    """Spread of that between models: utilisation x margin x price of hardware."""
    economy: float
    """How much more slowly than its size a model's price grows: price goes with size ** (1 - economy)."""
    chunk: float
    """Tokens of a prompt that share a read of the weights."""
    batch: float
    """Sequences that share a read of the weights while they are continued, if weight reads set output over input."""
    batch_scale: float
    ratio: float
    """Output over input where the two differ."""
    ratio_scale: float
    """Spread of that between offers."""
    cache: float
    """Stored keys and values per token at 16 bit, in bytes."""
    cache_scale: float
    crossover: float
    """Context at which reading keys and values at 8 bit takes as long as using the weights, in tokens."""
    crossover_scale: float
    attention: float
    """Context at which a new token's attention takes as many FLOPs as its weights, in tokens."""
    attention_scale: float
    speed: float
    """Tokens per second of a reader, of a model with a billion active parameters."""
    speed_slope: float
    """How that falls with the active parameters."""
    speed_scale: float
    stream_scale: float
    """Spread of active parameters per second between models on one chip at like loads."""
    year: float
    """When the prices were collected, as a decimal year."""
    basis: str
    """What the numbers were fitted on."""


def log_prices(active: Array, sparsity: Array, batch: Array, level: Array, economy: Array, chunk: Array) -> Array:
    r"""Logarithms of the input and output price of a million tokens. (2, ...) [ln USD]

    .. math::
        p_{in} = C \, N^{1-\delta} \left(1 + \frac{r \rho}{K}\right), \qquad
        p_{out} = C \, N^{1-\delta} \left(1 + \frac{r \rho}{B}\right)

    with N active parameters in billions, r total over active, rho the ridge in tokens, K
    the tokens of a chunk of the prompt, B the batch, and C the product of utilisation, margin and price of hardware.
    The output price is what weight reads alone would make it; published ones follow conventions. All arguments
    broadcast and are natural logarithms, except ``economy``.

    The read of keys and values is left out: no coefficient for it could be told from zero
    on models of known architecture. Source: lecture chapters 1 and 5, for 8-bit weights.
    """
    base = level + (1 - economy) * active
    return np.stack(
        np.broadcast_arrays(
            base + np.logaddexp(0.0, log(RIDGE) + sparsity - chunk),
            base + np.logaddexp(0.0, log(RIDGE) + sparsity - batch),
        )
    )


def student_log(deviation: Array, variance: Array, freedom: float = 4.0) -> Array:
    """Logarithm of a Student-t density of given scale squared, up to a constant.

    Levels of price have heavier tails than a normal density: with 4 degrees of freedom the
    middle half of models left out is covered as stated, with a normal one it is too wide.
    """
    return -(freedom + 1) / 2 * np.log1p(deviation**2 / (freedom * variance)) - np.log(variance) / 2


def normal_log(deviation: Array, variance: Array) -> Array:
    """Logarithm of a normal density of given variance, up to a constant."""
    return -(deviation**2) / (2 * variance) - np.log(variance) / 2
