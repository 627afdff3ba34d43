"""A provider's prices -> the ratios that carry information, apart from their level."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from math import inf

from rackmath.prices.lists import PriceList

TOLERANCE = 0.02
"""Multiples that differ by less are the same: prices are printed with few digits."""

OUTPUT, CACHED, WRITE, WRITE_HOUR = "output / input", "cached / input", "write / input", "hour write / input"
CLIFF = "cliff"
HOURS = "hours"
INPUT_ABOVE, CACHED_ABOVE, OUTPUT_ABOVE = "input above cliff", "cached above cliff", "output above cliff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One model at one provider, in all tiers of speed and delay that it is sold in."""

    prices: PriceList
    processing: Mapping[str, PriceList] = field(default_factory=dict[str, PriceList])
    """By tier: batch, flex, priority, fast, peak hours, off-peak hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One number of a price page that no change of currency or margin moves."""

    kind: str
    value: float
    """A multiple; of a cliff the context in tokens."""
    start: float = 0.0
    """Where the context tier starts that it is of. [tokens]"""
    stop: float = inf
    """Where that tier ends. [tokens]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A price that became another."""

    day: str
    provider: str
    model: str
    what: str
    before: str
    after: str
    source: str


def ratios(listing: Listing) -> list[Ratio]:
    """All ratios of a listing, those of context tiers and of processing against the base prices."""
    base = listing.prices.tiers[0]
    result = [
        Ratio(kind=kind, value=price / base.input)
        for kind, price in (
            (OUTPUT, base.output),
            (CACHED, base.cached_input),
            (WRITE, base.write),
            (WRITE_HOUR, base.write_hour),
        )
        if price
    ]
    above = listing.prices.tiers[1:]
    for tier, after in zip_longest(above, above[1:]):
        stop = after.start if after else inf
        result.append(Ratio(kind=CLIFF, value=tier.start, start=tier.start, stop=stop))
        for kind, dear, cheap in (
            (INPUT_ABOVE, tier.input, base.input),
            (CACHED_ABOVE, tier.cached_input, base.cached_input),
            (OUTPUT_ABOVE, tier.output, base.output),
        ):
            if dear and cheap:
                result.append(Ratio(kind=kind, value=dear / cheap, start=tier.start, stop=stop))
    for name, prices in listing.processing.items():
        usual = prices.tiers[0]
        multiple = usual.input / base.input
        result.append(Ratio(kind=name, value=multiple))
        if abs(usual.output / base.output / multiple - 1) > TOLERANCE:
            result.append(Ratio(kind=f"{name}, output", value=usual.output / base.output))
    return result


def changes(days: Iterable[tuple[str, Listing]], source: str) -> list[Change]:
    """What changed between a model's listings, given by day, oldest first."""
    result: list[Change] = []
    for (_, old), (day, new) in pairwise(days):
        before, after = _printed(old), _printed(new)
        result.extend(
            Change(
                day=day,
                provider=new.prices.provider,
                model=new.prices.model,
                what=key,
                before=before.get(key, "none"),
                after=after.get(key, "none"),
                source=source,
            )
            for key in dict.fromkeys([*before, *after])
            if before.get(key) != after.get(key)
        )
    return result


def _printed(listing: Listing) -> dict[str, str]:
    """Prices and multiples of a listing as a page prints them."""
    base = listing.prices.tiers[0]
    texts = {
        kind: f"${price:g}"
        for kind, price in (
            ("input", base.input),
            ("cached_input", base.cached_input),
            ("write", base.write),
            ("hour write", base.write_hour),
            ("output", base.output),
        )
        if price is not None
    }
    for ratio in ratios(listing):
        if ratio.kind in (INPUT_ABOVE, OUTPUT_ABOVE, CACHED_ABOVE):
            texts[f"{ratio.kind} of {ratio.start / 1000:.4g}k"] = f"x{ratio.value:.3g}"
        elif ratio.kind not in (OUTPUT, CACHED, WRITE, WRITE_HOUR, CLIFF) and HOURS not in ratio.kind:
            # genai-prices dates prices, but not since when they have depended on the hour.
            texts[ratio.kind] = f"x{ratio.value:.3g}"
    return texts
