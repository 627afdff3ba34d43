r"""What a ratio on a price page would be, and would imply, if this or that had made it.

Costs of a token in units of the time in which its weights are used, with r total over
active parameters, rho the ridge in tokens, B sequences and K tokens of a prompt per read of the
weights, c the context, L and A the contexts at which reading keys and values, and attention's FLOPs,
take as long as the weights:

.. math::
    out = 1 + \frac{r \rho}{B} + \frac{c}{L}, \qquad in = 1 + \frac{r \rho}{K} + \frac{c}{2 A}

Source: lecture chapters 1, 2 and 5; the second keeps the attention that the lecture leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from rackmath.prices import page
from rackmath.prices.market import RIDGE
from rackmath.prices.page import Ratio
from rackmath.prices.population import Population

Array = NDArray[np.float64]

CONVENTION = "convention"
MEMORY = 3.35e12
"""Bandwidth of the H100 that the ridge is of. [B/s]"""
HBM_RENT = 2.35 / 3600 / 80e9
"""An H100 hour at 2.35 $, for its 80 GB. [USD/(B s)]"""
FLASH_RENT = 0.15e-9 / (4 * 365.25 * 86_400)
"""NVMe drives at 0.15 $ per GB, written off over four years. [USD/(B s)]"""
HELD = {page.WRITE: 300.0, page.WRITE_HOUR: 3600.0}
"""How long a write is paid for. [s]"""
WINDOW = 5.0
"""Longest request over the start of the last context tier, where the page does not say: 1 M over 200 k."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RatioDraws:
    """What one hypothesis says of one ratio. Arrays of (draws,), or one number."""

    hypothesis: str
    predicted: Array
    """The ratio; infinite where no price would do."""
    implies: str = ""
    """What the published ratio would mean, in words with its unit."""
    implied: Array | None = None
    """That quantity; not a number for models that the hypothesis cannot be true of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioContext:
    """A ratio with what else is known of the model."""

    ratio: Ratio
    input: float
    """Price. [USD per million tokens]"""
    speed: float | None = None
    """Claimed speed of a fast tier over the standard one."""


def stories(question: RatioContext, models: Population) -> list[RatioDraws]:
    """Physical hypotheses that say something about a ratio; none for what only a convention can set."""
    tell = _TELLERS.get(question.ratio.kind)
    return (
        [replace(story, predicted=np.asarray(story.predicted, float)) for story in tell(question, models)]
        if tell
        else []
    )


def _output(question: RatioContext, m: Population) -> list[RatioDraws]:
    q = question.ratio.value
    read_in, read_out = 1 + m.read_in, 1 + m.read_out
    rest = q * read_in - 1
    return [
        RatioDraws(
            hypothesis="weight reads",
            predicted=read_out / read_in,
            implies="effective batch",
            implied=_positive(RIDGE * m.sparsity / np.where(rest > 0, rest, np.nan)),
        ),
        RatioDraws(
            hypothesis="crossover",
            predicted=(read_out + m.context / m.crossover) / read_in,
            implies="mean context, tokens",
            implied=_positive((rest - m.read_out) * m.crossover),
        ),
        RatioDraws(
            hypothesis="attention",
            predicted=read_out / (read_in + m.context / (2 * m.attention)),
            implies="mean prompt, tokens",
            implied=_positive((read_out / q - read_in) * 2 * m.attention),
        ),
    ]


def _cliff(question: RatioContext, m: Population) -> list[RatioDraws]:
    start = question.ratio.value
    return [
        RatioDraws(
            hypothesis="crossover",
            predicted=m.crossover,
            implies="KV read per token, B at 8 bit",
            implied=m.active / (RIDGE * start),
        ),
        RatioDraws(
            hypothesis="attention",
            predicted=2 * m.attention,
            implies="attention, FLOP per token and token of context",
            implied=4 * m.active / start,
        ),
    ]


def _above(question: RatioContext, m: Population) -> tuple[Array, Array]:
    """Contexts of requests above and below a cliff, over the cliff."""
    start, stop = question.ratio.start, question.ratio.stop
    above = (WINDOW if stop == inf else stop / start) ** m.above
    return above, np.minimum(m.context / start, 1.0)


def _input_above(question: RatioContext, m: Population) -> list[RatioDraws]:
    # The cliff stands where the hypothesis puts it: mean attention of the prompt equals the weights.
    above, below = _above(question, m)
    weights = 1 + m.read_in
    return [
        RatioDraws(hypothesis="crossover", predicted=np.ones(1)),
        RatioDraws(
            hypothesis="attention",
            predicted=(weights + above) / (weights + below),
            implies="mean prompt above, tokens",
            implied=_positive(question.ratio.start * (question.ratio.value * (weights + below) - weights)),
        ),
    ]


def _output_above(question: RatioContext, m: Population) -> list[RatioDraws]:
    above, below = _above(question, m)
    weights = 1 + m.read_out
    return [
        RatioDraws(
            hypothesis="crossover",
            predicted=(weights + above) / (weights + below),
            implies="mean context above, tokens",
            implied=_positive(question.ratio.start * (question.ratio.value * (weights + below) - weights)),
        ),
        RatioDraws(hypothesis="attention", predicted=np.ones(1)),
    ]


def _cached_above(question: RatioContext, m: Population) -> list[RatioDraws]:
    """A token found costs the bytes to load, whatever stands around it."""
    return [
        RatioDraws(hypothesis="crossover", predicted=np.ones(1)),
        RatioDraws(hypothesis="attention", predicted=np.ones(1)),
    ]


def _cached(question: RatioContext, m: Population) -> list[RatioDraws]:
    compute = m.crossover / (m.utilisation * MEMORY)
    return [
        RatioDraws(
            hypothesis="load or recompute",
            predicted=1 / (compute * m.link),
            implies="KV bytes per second to one accelerator, B/s",
            implied=1 / (compute * question.ratio.value),
        )
    ]


def _write(question: RatioContext, m: Population) -> list[RatioDraws]:
    stored_cache = m.cache * HELD[question.ratio.kind]
    price = question.input / 1e6
    rent = np.maximum(question.ratio.value - 1, 0.0) * price / stored_cache * 3600e9
    return [
        RatioDraws(
            hypothesis=name,
            predicted=1 + stored_cache * usual / price,
            implies="rent of storage, $ per GB and hour",
            implied=_positive(rent),
        )
        for name, usual in (("rent of HBM", HBM_RENT), ("rent of flash", FLASH_RENT))
    ]


def _batch(question: RatioContext, m: Population) -> list[RatioDraws]:
    q = question.ratio.value
    return [
        RatioDraws(
            hypothesis="full batches",
            predicted=1 / (1 + m.read_in),
            implies="tokens of a prompt per read of the weights, standard tier",
            implied=_positive(RIDGE * m.sparsity * q / (1 - q)) if q < 1 else None,
        )
    ]


def _fast(question: RatioContext, m: Population) -> list[RatioDraws]:
    r"""Speed s by smaller batches alone costs :math:`1 / (1 - y (s - 1))`, y = r rho / B of the standard tier.

    A step takes B + r rho; the batch that is s times as fast is (B + r rho) / s - r rho, and none where y (s - 1) >= 1.
    """
    q, s = question.ratio.value, question.speed
    if s is None:
        return []
    room = 1 - m.read_out * (s - 1)
    return [
        RatioDraws(
            hypothesis="small batches",
            predicted=np.where(room > 0, 1 / np.where(room > 0, room, 1.0), inf),
            implies="effective batch, standard tier",
            implied=_positive(RIDGE * m.sparsity * (s - 1) / (1 - 1 / q)) if q > 1 else None,
        )
    ]


def _positive(values: Array) -> Array:
    return np.where(values > 0, values, np.nan)


_TELLERS: Mapping[str, Callable[[RatioContext, Population], list[RatioDraws]]] = {
    page.OUTPUT: _output,
    page.CACHED: _cached,
    page.WRITE: _write,
    page.WRITE_HOUR: _write,
    page.CLIFF: _cliff,
    page.INPUT_ABOVE: _input_above,
    page.CACHED_ABOVE: _cached_above,
    page.OUTPUT_ABOVE: _output_above,
    "batch": _batch,
    "flex": _batch,
    "fast": _fast,
}
