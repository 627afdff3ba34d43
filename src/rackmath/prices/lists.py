"""A published price list applied to tokens: kinds of tokens, context tiers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Prices of a context tier. [USD per million tokens]"""

    start: float = 0.0
    """Requests with more input tokens than this pay these prices for all of their tokens."""
    input: float
    cached_input: float | None
    """Of tokens read from a cache; None where the provider has no such price."""
    write: float | None
    """Of tokens written to the cache that is kept for minutes; None where writing costs what reading a prompt costs."""
    write_hour: float | None
    """Of tokens written to the cache that is kept for an hour."""
    output: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceList:
    """What a provider asks for one model in one processing tier."""

    model: str
    provider: str
    tiers: tuple[Rates, ...]
    """By context, ascending; the first starts at 0."""

    def __post_init__(self) -> None:
        starts = [tier.start for tier in self.tiers]
        if not starts or starts[0] != 0 or starts != sorted(set(starts)):
            raise InputError("tiers", starts, f"tiers of {self.model} ascend from 0")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tokens:
    """Tokens of requests, by what they are charged as. All of one shape, or broadcast."""

    input: Array
    """Neither read from a cache nor written to one."""
    cached_input: Array
    write: Array
    """Written to the cache that is kept for minutes."""
    write_hour: Array
    output: Array

    @property
    def prompt(self) -> Array:
        """Everything that the model reads."""
        return self.input + self.cached_input + self.write + self.write_hour


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bill:
    """Cost of requests by kind of token. [USD]"""

    input: Array
    cached_input: Array
    write: Array
    output: Array

    @property
    def total(self) -> Array:
        """Sum of all kinds."""
        return self.input + self.cached_input + self.write + self.output


def bill(prices: PriceList, tokens: Tokens) -> Bill:
    """Cost of each request by list price.

    The tier of a request follows from all of its input tokens and holds for all of its tokens, output
    too, as every provider with tiers does it. Where a provider has no price for cached tokens or for writes, they cost
    what input costs.

    Errors: :class:`InputError` for tokens that are negative or no number.
    """
    for field in ("input", "cached_input", "write", "write_hour", "output"):
        value = getattr(tokens, field)
        if not np.all(value >= 0) or not np.all(np.isfinite(value)):
            raise InputError(f"tokens.{field}", "negative or no number", "give counts of tokens")
    starts = np.array([tier.start for tier in prices.tiers])
    tier = np.maximum(np.searchsorted(starts, tokens.prompt, side="left") - 1, 0)

    def rate(field: str) -> Array:
        """Price per token of each request."""
        rates = [getattr(tier, field) for tier in prices.tiers]
        plain = [tier.input for tier in prices.tiers]
        complete_rates = [
            own_rate if own_rate is not None else plain_rate for own_rate, plain_rate in zip(rates, plain, strict=True)
        ]
        return np.array(complete_rates)[tier] / 1e6

    minutes = tokens.write * rate("write")
    hours = tokens.write_hour * (rate("write_hour") if prices.tiers[0].write_hour is not None else rate("write"))
    return Bill(
        input=tokens.input * rate("input"),
        cached_input=tokens.cached_input * rate("cached_input"),
        write=minutes + hours,
        output=tokens.output * rate("output"),
    )
