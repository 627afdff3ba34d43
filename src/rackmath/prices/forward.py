"""From accelerator time to the price page of a provider that knows its costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from rackmath.caching.tiers import TierCost
from rackmath.errors import InputError
from rackmath.prices.lists import PriceList, Tokens, bill
from rackmath.prices.rational import CachePrices, TwoTier, cache_prices, priced, two_tier
from rackmath.serving.contexts import ContextCost
from rackmath.serving.token_costs import Demand, PromptCost

Array = NDArray[np.float64]

MINUTES, HOUR = 300.0, 3600.0
"""How long the two usual products keep a prefix. [s]"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CostCurve:
    """Cost of a million tokens against context, its range beside it. Arrays of (contexts,). [USD]"""

    contexts: Array
    input: Array
    input_low: Array
    input_high: Array
    output: Array
    output_low: Array
    output_high: Array

    def at(self, context: float) -> tuple[float, float]:
        """Cost of input and of output tokens of requests of one length, between the contexts by ratio."""
        across: Array = np.log(self.contexts)
        logs: list[Array] = [np.log(side) for side in (self.input, self.output)]
        into, out = (exp(float(np.interp(log(context), across, side))) for side in logs)
        return into, out


@dataclass(frozen=True, slots=True, kw_only=True)
class PricePage:
    """What a provider would print that covers its costs and no more, but for a stated margin. [USD per million]"""

    input: float
    """Of a token that is not found, in the workload's mean; without tiers."""
    output: float
    tiers: TwoTier
    """Kinds are input and output."""
    minutes: CachePrices
    hour: CachePrices
    output_over_input: float
    cached_over_input: float
    """Where the load overlaps other work."""
    waited_over_input: float
    """Where the accelerator waits for it."""
    batch: float | None
    """Output price without a limit on time, over the standard one; None where the batch is fixed."""
    fast: float | None
    """Output price of the fast tier over the standard one; None where no layout is as fast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Margin:
    """A published list against the cost of the same workload."""

    revenue: float
    """Of a mean request. [USD]"""
    cost: float
    margin: float
    """(revenue - cost) / revenue. [1]"""
    input: float
    cached_input: float | None
    output: float


def curve(
    contexts: Array,
    read: PromptCost,
    answers: ContextCost,
    price: float,
    utilisation: tuple[float, float],
    margin: float,
) -> CostCurve:
    """Cost against context, as far as answers are servable.

    Parameters
    ----------
    read, answers
        Accelerator time per token at these contexts. (contexts,)
    price : float
        Of one accelerator. [USD/s]
    utilisation : tuple of float
        Parts of the time that the accelerators work that read, and that write.
    margin : float
        Part of the price that is kept.
    """
    is_finite = np.isfinite(answers.gpu_seconds)
    reads, writes = (priced(price * 1e6, part, margin) for part in utilisation)
    into, into_low, into_high = (side[is_finite] * reads for side in (read.seconds, read.low, read.high))
    out, out_low, out_high = (side[is_finite] * writes for side in (answers.gpu_seconds, answers.low, answers.high))
    return CostCurve(
        contexts=contexts[is_finite],
        input=into,
        input_low=into_low,
        input_high=into_high,
        output=out,
        output_low=out_low,
        output_high=out_high,
    )


def rational_page(
    costs: CostCurve,
    demand: Demand,
    tiers: Sequence[TierCost],
    waiting: Sequence[TierCost],
    *,
    fast: float | None,
    batch: float | None,
) -> PricePage:
    """Prices at cost of a workload.

    Parameters
    ----------
    tiers : sequence of TierCost
        Where a token's cache can wait, if its load overlaps other work.
    waiting : sequence of TierCost
        The same, if the accelerator waits for the load.
    fast, batch : float, optional
        Cost of an output token of the workload in the fast and in the batch tier, over the standard one's.

    Errors: :class:`InputError` where fewer than two contexts are servable.
    """
    parts = demand.parts(costs.contexts)
    tokens = np.stack([parts * costs.contexts * (1 - demand.hit), parts * demand.answer])
    prices = two_tier(costs.contexts, np.stack([costs.input, costs.output]), tokens)
    into = float(np.average(costs.input, weights=parts * costs.contexts))
    _, out = costs.at(min(demand.context, float(costs.contexts[-1])))
    minutes, hour = (cache_prices(tiers, duration, into) for duration in (MINUTES, HOUR))
    return PricePage(
        input=into,
        output=out,
        tiers=prices,
        minutes=minutes,
        hour=hour,
        output_over_input=out / into,
        cached_over_input=minutes.read / into,
        waited_over_input=cache_prices(waiting, MINUTES, into).read / into,
        batch=batch,
        fast=fast,
    )


def margin_of(prices: PriceList, demand: Demand, page: PricePage) -> Margin:
    """Gross margin of a published list on a workload, where a found token costs its loading only.

    Lengths spread as the workload's do, so context tiers count as they would.
    """
    lengths, parts = demand.lengths()
    no_tokens = np.zeros_like(lengths)
    cached_input = lengths * demand.hit
    total = bill(
        prices,
        Tokens(
            input=lengths - cached_input,
            cached_input=cached_input,
            write=no_tokens,
            write_hour=no_tokens,
            output=np.full_like(lengths, demand.answer),
        ),
    )
    revenue = float(parts @ total.total)
    mean = float(parts @ lengths)
    new = mean * (1 - demand.hit)
    cost = (new * page.input + mean * demand.hit * page.minutes.read + demand.answer * page.output) / 1e6
    if not revenue > 0:
        raise InputError("--sold-as", prices.model, "its list charges nothing for this workload")
    base = prices.tiers[0]
    return Margin(
        revenue=revenue,
        cost=cost,
        margin=1 - cost / revenue,
        input=1 - page.input / base.input,
        cached_input=None if base.cached_input is None else 1 - page.minutes.read / base.cached_input,
        output=1 - page.output / base.output,
    )
