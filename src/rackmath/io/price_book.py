"""The room of published prices: the only reader of genai-prices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from difflib import get_close_matches
from typing import Any

from rackmath.errors import InputError
from rackmath.prices.decode import Offer
from rackmath.prices.lists import PriceList, Rates
from rackmath.prices.page import HOURS, Change, Listing, changes
from rackmath.units import decimal_year

SOURCE = "genai-prices"
_POINT = re.compile(r"(?<=\d)\.(?=\d)")
RESELLERS = frozenset({"openrouter"})
"""Providers that pass other hosts' prices on; they are no offers of their own."""
_ROUTED = "huggingface_"
"""Before the name of a host whose price Hugging Face passes on."""


def published(model: str, at: date | None = None) -> list[Offer]:
    """Offers of a model at all hosts that genai-prices knows, on a day.

    A name is compared without its vendor's prefix and without case; free offers and resellers are left out.

    Errors: :class:`InputError` for a name that nobody offers, with near ones.
    """
    from genai_prices.data_snapshot import get_snapshot

    moment = _noon(at)
    plain_name = _plain(model)
    names: dict[str, str] = {}
    offers: list[Offer] = []
    for provider in get_snapshot().providers:
        if provider.id in RESELLERS:
            continue
        for entry in provider.models:
            name = _plain(entry.id)
            names.setdefault(name, _short(entry.id))
            if name != plain_name:
                continue
            prices = entry.get_prices(moment)
            rates = {key: _base(getattr(prices, f"{key}_mtok", None)) for key in ("input", "cache_read", "output")}
            if rates["input"] is not None or rates["output"] is not None:
                offers.append(
                    Offer(
                        model=model,
                        provider=provider.id.removeprefix(_ROUTED),
                        input=rates["input"],
                        cached_input=rates["cache_read"],
                        output=rates["output"],
                        year=decimal_year(moment.date()),
                    )
                )
    if not offers:
        near = _near(plain_name, names)
        raise InputError(
            "MODEL", model, f"nobody in genai-prices asks a price for it; near names: {near}; or give --input, --output"
        )
    return offers


def price_list(model: str, provider: str | None = None, at: date | None = None, batch: bool = False) -> PriceList:
    """All prices of a model at one provider, on a day, with its context tiers.

    Without a provider, the one whose own model it is: who has the most prices for it (cached, writes, batch).

    Errors: :class:`InputError` for an unknown model or provider, and for ``batch`` where none is sold.
    """
    from genai_prices.data_snapshot import get_snapshot

    moment = _noon(at)
    plain_name = _plain(model)
    by_host: dict[str, tuple[int, Any]] = {}
    names: dict[str, str] = {}
    for host in get_snapshot().providers:
        if host.id in RESELLERS:
            continue
        for entry in host.models:
            names.setdefault(_plain(entry.id), _short(entry.id))
            matches = _plain(entry.id) == plain_name or (host.id == provider and entry.is_match(model))
            if matches and host.id not in by_host:
                rates = entry.get_prices(moment)
                price_count = sum(getattr(rates, key, None) is not None for key in _KEYS.values())
                if rates.input_mtok and rates.output_mtok:
                    by_host[host.id] = price_count + bool(entry.price_variants), entry
    if not by_host:
        near = _near(plain_name, names)
        raise InputError("MODEL", model, f"nobody in genai-prices asks a price for it; near names: {near}")
    if provider is not None and provider not in by_host:
        raise InputError("--provider", provider, f"does not sell {model}; those who do: {', '.join(sorted(by_host))}")
    host = provider or max(sorted(by_host), key=lambda name: by_host[name][0])
    entry = by_host[host][1]
    context = {"processing": "batch"} if batch else None
    tier = entry.get_prices(moment, context)
    if batch and tier == entry.get_prices(moment):
        raise InputError("--batch", model, f"{host} sells no batch tier of it on that day")
    return PriceList(model=model, provider=host, tiers=_rates(tier))


def listings(provider: str | None = None, at: date | None = None) -> list[Listing]:
    """Models that charge for reading and for writing tokens, on a day, in all their tiers.

    Of one provider, or of all but resellers. Where a price depends on the hour, the one of most hours is the
    standard one. Errors: :class:`InputError` for an unknown provider, with near names.
    """
    by_name = providers()
    if provider is not None and provider not in by_name:
        raise InputError("PROVIDER", provider, f"genai-prices has no such provider{_meant(provider, by_name)}")
    selection = [provider] if provider else [name for name in by_name if name not in RESELLERS]
    moment = _noon(at)
    result = (_listing(name, entry, moment) for name in selection for entry in by_name[name].models)
    return [listing for listing in result if listing is not None]


def _meant(name: str, by_name: Mapping[str, Any]) -> str:
    """What may have been meant by a name that no provider has: whoever sells a model of that name, or near names."""
    plain_name = _plain(name)
    sellers = [host for host, provider in by_name.items() if any(_plain(e.id) == plain_name for e in provider.models)]
    if sellers:
        return f"; sellers of a model of that name: {', '.join(sellers[:3])}; write one of them and --model {name}"
    return f"; near names: {', '.join(get_close_matches(name.lower(), by_name, 3, 0.4)) or 'none'}"


def history(provider: str | None = None) -> list[Change]:
    """Price changes that genai-prices dates, by day."""
    by_name = providers()
    selection = [provider] if provider else [name for name in by_name if name not in RESELLERS]
    result: list[Change] = []
    for name in selection:
        for entry in by_name[name].models:
            days = sorted(set(_days(entry)))
            moments = [_noon(days[0] - timedelta(1)), *map(_noon, days)] if days else []
            snapshots = [(str(moment.date()), _listing(name, entry, moment)) for moment in moments]
            result += changes([(day, prices) for day, prices in snapshots if prices is not None], SOURCE)
    return sorted(result, key=lambda change: (change.day, change.provider, change.model))


def providers() -> dict[str, Any]:
    """All providers of the snapshot, by name."""
    from genai_prices.data_snapshot import get_snapshot

    return {provider.id: provider for provider in get_snapshot().providers}


def _days(entry: Any) -> Iterator[date]:
    """Days on which a standard price of a model starts to hold.

    Those of batch and other tiers are the days on which they were entered, which says nothing of when they began.
    """
    for price in entry.prices if isinstance(entry.prices, list) else ():
        start = getattr(price.constraint, "start_date", None)
        if start is not None:
            yield start


def _noon(at: date | None) -> datetime:
    return datetime.combine(at or datetime.now(UTC).date(), time(12), UTC)


def _listing(provider: str, entry: Any, moment: datetime) -> Listing | None:
    """One model in all its tiers; None where reading or writing tokens has no price."""
    hours = [moment]
    if isinstance(entry.prices, list) and any(hasattr(price.constraint, "start_time") for price in entry.prices):
        hours = [moment.replace(hour=hour, minute=45) for hour in range(24)]
    by_hour = [entry.get_prices(hour) for hour in hours]
    standard = max(by_hour, key=by_hour.count)
    if not (_base(standard.input_mtok) and _base(standard.output_mtok)):
        return None
    processing: dict[str, Any] = {}
    for variant in entry.price_variants or ():
        name = _TIERS.get(next(iter(variant.when.items())))
        if name is not None and len(variant.when) == 1 and name not in processing:
            processing[name] = entry.get_prices(moment, variant.when)
    for prices in by_hour:
        if prices != standard:
            dearer = (_base(prices.input_mtok) or 0.0) > (_base(standard.input_mtok) or 0.0)
            processing[f"{'peak' if dearer else 'off-peak'} {HOURS}"] = prices
    return Listing(
        prices=PriceList(model=entry.id, provider=provider, tiers=_rates(standard)),
        processing={
            name: PriceList(model=entry.id, provider=provider, tiers=_rates(mode))
            for name, mode in processing.items()
            if mode != standard and _base(mode.input_mtok) and _base(mode.output_mtok)
        },
    )


_TIERS = {
    ("processing", "batch"): "batch",
    ("service_tier", "flex"): "flex",
    ("service_tier", "priority"): "priority",
    ("service_tier", "fast"): "fast",
    ("speed", "fast"): "fast",
}
"""What genai-prices asks of a request, and our name of the tier."""

_KEYS = {
    "input": "input_mtok",
    "cached_input": "cache_read_mtok",
    "write": "cache_write_mtok",
    "write_hour": "cache_write_1h_mtok",
    "output": "output_mtok",
}
"""Our kinds of tokens, and what genai-prices calls their prices."""


def _rates(prices: Any) -> tuple[Rates, ...]:
    """Prices at every context where one of them changes."""
    rates = {kind: getattr(prices, key, None) for kind, key in _KEYS.items()}
    starts = {0, *(tier.start for price in rates.values() for tier in getattr(price, "tiers", ()))}

    def at(price: Any, start: int) -> float | None:
        tier_prices = [tier.price for tier in getattr(price, "tiers", ()) if tier.start <= start]
        value = tier_prices[-1] if tier_prices else getattr(price, "base", price)
        return None if value is None else float(value)

    return tuple(
        Rates(start=float(start), **{kind: at(price, start) for kind, price in rates.items()})  # pyright: ignore[reportArgumentType]
        for start in sorted(starts)
    )


def _plain(name: str) -> str:
    """Name without the vendor's prefix and without case, versions with hyphens: hosts write 4-5 and 4.5."""
    return _POINT.sub("-", _short(name))


def _short(name: str) -> str:
    """Name without the vendor's prefix and without case."""
    return name.strip().lower().rstrip("/").rsplit("/", 1)[-1]


def _near(model_name: str, names: Mapping[str, str]) -> str:
    """Names that are like one that nobody has, as somebody writes them."""
    return ", ".join(names[name] for name in get_close_matches(model_name, names, 3, 0.5)) or "none"


def _base(price: Any) -> float | None:
    """Price below the first context tier; free is none."""
    base: Decimal | None = getattr(price, "base", price)
    return float(base) if base else None
