"""The price page of a provider that knows its costs, loses on no request, and is undercut by nobody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rackmath.caching.tiers import TierCost
from rackmath.errors import InputError

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoTier:
    """Prices of two tiers of context that cover the cost of every request."""

    start: float
    """Longest context of the lower tier. [tokens]"""
    below: tuple[float, ...]
    """By kind of token."""
    above: tuple[float, ...]
    overcharge: float
    """What requests pay above their cost, as a part of that. [1]"""
    flat: tuple[float, ...]
    """Prices of a page without tiers that covers the same."""
    flat_overcharge: float


def two_tier(contexts: Array, costs: Array, tokens: Array) -> TwoTier:
    """Prices of two tiers that never lose, with the cliff where requests overpay least.

    A price is the highest cost of its tier, so no request is served at a loss; of all such pages the
    one that overcharges least is the one that no other page with one cliff undercuts.

    Parameters
    ----------
    contexts : array
        Ascending. (contexts,) [tokens]
    costs : array
        Of a token of each kind at each context. (kinds, contexts)
    tokens : array
        How many are asked for, of each kind at each context. (kinds, contexts)

    Errors: :class:`InputError` for fewer than two contexts, and for costs that are not positive.
    """
    if len(contexts) < 2:
        raise InputError("contexts", len(contexts), "two tiers need at least two contexts")
    if not np.all(costs > 0):
        raise InputError("costs", float(np.min(costs)), "write positive costs")
    whole = float(np.sum(tokens * costs))
    if not whole > 0:
        raise InputError("tokens", whole, "nobody asks for any of these contexts")
    up_to = np.maximum.accumulate(costs, axis=1)[:, :-1]
    beyond = np.maximum.accumulate(costs[:, ::-1], axis=1)[:, ::-1][:, 1:]
    cumulative_tokens = np.cumsum(tokens, axis=1)
    below, above = cumulative_tokens[:, :-1], cumulative_tokens[:, -1:] - cumulative_tokens[:, :-1]
    payment = np.sum(up_to * below + beyond * above, axis=0)
    at = int(payment.argmin())
    flat = costs.max(axis=1)
    return TwoTier(
        start=float(contexts[at]),
        below=tuple(up_to[:, at].tolist()),
        above=tuple(beyond[:, at].tolist()),
        overcharge=float(payment[at]) / whole - 1,
        flat=tuple(flat.tolist()),
        flat_overcharge=float(np.sum(flat[:, None] * tokens)) / whole - 1,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePrices:
    """What a provider at cost asks for keeping a prefix. [USD per million tokens]"""

    read: float
    """Of a token that is found: its bytes to be loaded from the cheapest tier for ``held``."""
    write: float
    """Of a token that is written and kept for ``held``: computing it, and the rent."""
    tier: str
    """Where it waits."""
    storage: float
    """Rent. [USD per million tokens and hour]"""


def cache_prices(costs: Sequence[TierCost], hold_time: float, input_cost: float) -> CachePrices:
    """Prices at cost of a prefix that is kept for a time.

    Parameters
    ----------
    costs : sequence of TierCost
        Of one token in each tier; a tier that keeps nothing (computing again) is no cache.
    hold_time : float
        [s]
    input_cost : float
        Of computing a token. [USD per million tokens]
    """
    keeps = [cost for cost in costs if cost.hold > 0]
    if not keeps:
        raise InputError("tiers", len(costs), "no tier keeps anything")
    best = min(keeps, key=lambda keep: keep.cost(hold_time))
    return CachePrices(
        read=best.retrieve * 1e6,
        write=input_cost + best.hold * hold_time * 1e6,
        tier=best.name,
        storage=best.hold * 3600 * 1e6,
    )


def priced(cost: float, utilisation: float, margin: float) -> float:
    r"""Price that leaves a gross margin: :math:`c / (u (1 - m))`.

    Errors: :class:`InputError` for a utilisation or a margin out of range.
    """
    if not 0 < utilisation <= 1:
        raise InputError("--utilisation", utilisation, "write a part of the time above 0 and at most 1")
    if not 0 <= margin < 1:
        raise InputError("--margin", margin, "write a part of the price from 0 to below 1")
    return cost / (utilisation * (1 - margin))
