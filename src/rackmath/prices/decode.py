"""What prices say of the model behind them, and how little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite, log, pi

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.prices.cliff import CacheDraws, cache_from_cliff
from rackmath.prices.hosts import Price, typical_price
from rackmath.prices.importance import Draws, draw, quantiles
from rackmath.prices.market import FLOOR, KindPrior, Market, log_prices, normal_log, student_log

Array = NDArray[np.float64]

UTILISATION = 0.15
"""Typical part of the 8-bit rate that a busy service uses: DeepSeek's prefill node of February 2025,
73,700 tokens/s of which 56.3 % come from a cache, 74 GFLOP per token, 8 x 1,979 TFLOP/s."""
UTILISATION_SCALE = 0.5
RENT_SCALE = 0.35
"""Spread of what an H100-equivalent hour costs, around 2.35 $."""
_AGREEMENT = 0.1
"""Rounding to a provider's grid: no price says more than this of its logarithm."""
_DRIFT = 0.5
"""Spread that a year between the prices and the calibration adds to their level (assumed)."""
_AT = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What one host asks for one model. [USD per million tokens]"""

    model: str
    provider: str
    input: float | None = None
    cached_input: float | None = None
    output: float | None = None
    year: float | None = None
    """When the prices held, as a decimal year."""

    def __post_init__(self) -> None:
        for field in ("input", "cached_input", "output"):
            value = getattr(self, field)
            if value is not None and not (isfinite(value) and 1e-6 <= value <= 1e6):
                raise InputError(
                    field, value, f"{self.model} at {self.provider}: write a positive price in USD per million tokens"
                )
        if self.cached_input is not None and self.input is not None and self.cached_input > self.input:
            raise InputError(
                "cached_input",
                self.cached_input,
                f"is above the input price {self.input:g} of {self.model}: swap the two",
            )
        if self.year is not None and not 2020 <= self.year <= 2040:
            raise InputError("date", self.year, f"{self.model} at {self.provider}: write a day from 2020 to 2040")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Median and the middle 50 % and 90 % of a posterior."""

    median: float
    low50: float
    high50: float
    low90: float
    high90: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedPrice:
    """What the prices of one model say."""

    model: str
    hosts: int
    """Offers with different prices; a copied list counts once."""
    active_params: Interval
    total_params: Interval
    kv_bytes_per_token: Interval
    """The prior: prices do not identify it. A context cliff is weighed."""
    product: Interval
    """Price over the cost of an ideal H100 at 2.35 $/hour: margin x rent / utilisation. Identified."""
    margin: Interval
    """Price over cost, under the priors of utilisation and rent."""
    dense: float
    """Probability that all parameters are active."""
    effective_draws: float
    pareto_k: float
    cannot_tell: tuple[str, ...]


def decode(
    offers: Sequence[Offer],
    market: Market,
    speed: float | None = None,
    stream: float | None = None,
    cliff: float | None = None,
) -> DecodedPrice:
    """Posterior of a model's size from what hosts ask for it.

    Parameters
    ----------
    offers : sequence of Offer
        Of one model; any of the prices may be missing.
    market : Market
        How models of known size are priced.
    speed : float, optional
        Tokens per second that a reader sees.
    stream : float, optional
        Bytes of active 8-bit weights per second that models of known size reach on the same host; without it
        speed says little. [B/s]
    cliff : float, optional
        Context at which the price steps up. [tokens]

    Errors: :class:`InputError` for no offers, offers of different models, and numbers out of range.
    """
    if not offers or len({offer.model for offer in offers}) != 1:
        raise InputError("offers", len(offers), "give at least one offer, all of one model")
    for field, value, top in (("speed", speed, 1e5), ("stream", stream, 1e16)):
        if value is not None and not 0 < value < top:
            raise InputError(field, value, f"a positive number below {top:g}")
    if stream is not None and speed is None:
        raise InputError("stream", stream, "says nothing without a speed: give both")
    prices = different_prices(offers, market.ratio)
    known_price = _known_price(offers, prices, market) if prices else None
    offer_years = [offer.year for offer in offers if offer.year is not None]
    years = abs(float(np.median(offer_years)) - market.year) if offer_years else 0.0
    market_then = replace(market, level_scale=float(np.hypot(market.level_scale, _DRIFT * years)))
    drawn_models: list[Draws] = []
    logs: list[float] = []
    for kind in (market.dense, market.sparse):
        drawn_models.append(_posterior(kind, market_then, known_price, speed, stream))
        logs.append(log(kind.share) + drawn_models[-1].log_evidence)
    part = np.exp(np.array(logs) - max(logs))
    part /= part.sum()
    dense = drawn_models[0].points
    points = np.concatenate([np.column_stack([dense, np.zeros(len(dense))]), drawn_models[1].points])
    weights = np.concatenate([draws.weights * p for draws, p in zip(drawn_models, part, strict=True)])
    active, level, sparsity = points.T
    product = level - market.economy * active - log(FLOOR)
    random = np.random.default_rng(len(points))
    split = log(UTILISATION) + np.hypot(UTILISATION_SCALE, RENT_SCALE) * random.standard_normal(len(points))
    cache = None if cliff is None else cache_from_cliff(cliff, active + log(1e9), weights, market)
    return DecodedPrice(
        model=offers[0].model,
        hosts=len(prices),
        active_params=_interval(active + log(1e9), weights),
        total_params=_interval(active + sparsity + log(1e9), weights),
        kv_bytes_per_token=(
            _normal_interval(market.cache, market.cache_scale)
            if cache is None
            else _interval(cache.logs, cache.weights)
        ),
        product=_interval(product, weights),
        margin=_interval(product + split, weights),
        dense=float(part[0]),
        effective_draws=1 / float(np.sum(weights**2)),
        pareto_k=max(draws.pareto_k for draws, p in zip(drawn_models, part, strict=True) if p > 0.01),
        cannot_tell=_cannot_tell(offers, speed, stream, cache),
    )


def different_prices(offers: Sequence[Offer], ratio: float) -> list[Price]:
    """Different input prices of one model, each with the hosts that ask it; a copied list is one price.

    ``ratio``, ln of a typical output over input, makes input prices of output prices where no host has an input price.
    """
    entries: dict[tuple[float | None, float | None], set[str]] = {}
    for offer in offers:
        if offer.input is not None or offer.output is not None:
            entries.setdefault((offer.input, offer.output), set()).add(offer.provider)
    price_hosts = [(pair, tuple(sorted(hosts))) for pair, hosts in entries.items()]
    inputs = [Price(value=log(pair[0]), hosts=hosts) for pair, hosts in price_hosts if pair[0] is not None]
    return inputs or [
        Price(value=log(pair[1]) - ratio, hosts=hosts) for pair, hosts in price_hosts if pair[1] is not None
    ]


def _known_price(offers: Sequence[Offer], prices: Sequence[Price], market: Market) -> tuple[float, float]:
    """Logarithm of what a typical host asks for input, and its variance."""
    value, variance = typical_price(prices, market.hosts)
    # Hosts follow one model's ratio, so more of them do not make it better known.
    is_guess = all(offer.input is None for offer in offers)
    return value, variance + _AGREEMENT**2 + is_guess * market.ratio_scale**2


def _posterior(
    kind: KindPrior, market: Market, known_price: tuple[float, float] | None, speed: float | None, stream: float | None
) -> Draws:
    """Draws of ln (active, level[, sparsity]) of models of one kind."""
    sparse = kind.sparsity_deviation > 0
    center = np.array([kind.active, market.level] + [kind.sparsity] * sparse)
    spread = np.array([kind.active_deviation, market.level_scale] + [kind.sparsity_deviation] * sparse)

    def log_density(points: Array) -> Array:
        active, level = points.T[:2]
        sparsity = points[:, 2] if sparse else np.zeros(len(points))
        total = _prior(points, kind, market, sparse)
        if known_price is not None:
            # The batch moves only the output price.
            inputs, _ = log_prices(
                active, sparsity, np.asarray(0.0), level, np.asarray(market.economy), np.asarray(market.chunk)
            )
            total = total + normal_log(known_price[0] - inputs, np.asarray(known_price[1]))
        if speed is not None and stream is not None:
            off = log(speed) + active + log(1e9) - log(stream)
            total = total + normal_log(off, np.asarray(market.stream_scale**2))
        elif speed is not None:
            expected = market.speed - market.speed_slope * active
            total = total + normal_log(log(speed) - expected, np.asarray(market.speed_scale**2))
        return total

    return draw(log_density, center, spread)


def _prior(points: Array, kind: KindPrior, market: Market, sparse: bool) -> Array:
    """Logarithm of the prior; its constants matter, for dense and sparse are weighed against each other."""
    active = (points[:, 0] - kind.active) / kind.active_deviation
    density = student_log(points[:, 1] - market.level, np.asarray(market.level_scale**2))
    if not sparse:
        return density - active**2 / 2 - log(kind.active_deviation)
    many = (points[:, 2] - kind.sparsity) / kind.sparsity_deviation
    rest = 1 - kind.correlation**2
    square = (active**2 - 2 * kind.correlation * active * many + many**2) / rest
    density = (
        density - square / 2 - log(kind.active_deviation * kind.sparsity_deviation * np.sqrt(rest)) - log(2 * pi) / 2
    )
    return np.where(points[:, 2] > 0, density, -np.inf)


def _interval(logs: Array, weights: Array) -> Interval:
    """Interval of a quantity from weighted draws of its logarithm."""
    low90, low50, median, high50, high90 = (float(value) for value in np.exp(quantiles(logs, weights, _AT)))
    return Interval(median=median, low50=low50, high50=high50, low90=low90, high90=high90)


def _normal_interval(center: float, deviation: float) -> Interval:
    """Interval of a log-normal quantity."""
    half, most = np.exp(0.6744898 * deviation), np.exp(1.6448536 * deviation)
    middle = float(np.exp(center))
    return Interval(
        median=middle,
        low50=middle / float(half),
        high50=middle * float(half),
        low90=middle / float(most),
        high90=middle * float(most),
    )


def _cannot_tell(
    offers: Sequence[Offer], speed: float | None, stream: float | None, cache: CacheDraws | None
) -> tuple[str, ...]:
    """What the data leave open, in words."""
    lines = [
        "KV bytes per token: not identified by prices; the interval is that of all open-weight models",
        "margin, utilisation and rent: only their product is identified; the split follows stated priors",
    ]
    if any(offer.output is not None for offer in offers):
        lines.append(
            "output over input: set by the developer and followed by hosts, for dense and sparse models alike; used"
            " only where no input price is known"
        )
    if cache is not None:
        lines.append(
            f"context cliff: stands where KV reads overtake the weights with probability {cache.crossover:.3f}, from"
            " even odds against any round number; the KV range is mixed accordingly"
        )
    if any(offer.cached_input is not None for offer in offers):
        lines.append("cached price: follows conventions (x0.1, x0.25, x0.5), not the cache's size; not used")
    if all(offer.input is None and offer.output is None for offer in offers):
        lines.append("no input or output price given: sizes are those of open-weight models at large")
    if speed is not None and stream is None:
        lines.append("speed without the host's stream: hardware is unknown, so it says little of the size")
    return tuple(lines)
