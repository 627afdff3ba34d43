"""The room of published prices: the only reader of genai-prices."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from difflib import get_close_matches
from typing import Any

from rackmath.errors import InputError
from rackmath.prices.decode import Offer
from rackmath.prices.lists import PriceList, Rates
from rackmath.units import decimal_year

RESELLERS = frozenset({"openrouter"})
"""Providers that pass other hosts' prices on; they are no offers of their own."""


def published(model: str, at: date | None = None) -> list[Offer]:
    """Offers of a model at all hosts that genai-prices knows, on a day.

    A name is compared without its vendor's prefix and without case; free offers and resellers are left out.

    Errors: :class:`InputError` for a name that nobody offers, with near ones.
    """
    from genai_prices.data_snapshot import get_snapshot

    moment = datetime.combine(at or datetime.now(UTC).date(), time(12), UTC)
    wanted = _plain(model)
    names: set[str] = set()
    found: list[Offer] = []
    for provider in get_snapshot().providers:
        for entry in provider.models:
            name = _plain(entry.id)
            names.add(name)
            if name != wanted or provider.id in RESELLERS:
                continue
            prices = entry.get_prices(moment)
            asked = {key: _base(getattr(prices, f"{key}_mtok", None)) for key in ("input", "cache_read", "output")}
            if asked["input"] is not None or asked["output"] is not None:
                found.append(
                    Offer(
                        model=model,
                        provider=provider.id,
                        input=asked["input"],
                        cached=asked["cache_read"],
                        output=asked["output"],
                        year=decimal_year(moment.date()),
                    )
                )
    if not found:
        near = ", ".join(get_close_matches(wanted, names, 3, 0.5)) or "none"
        raise InputError(
            "MODEL", model, f"nobody in genai-prices asks a price for it; near names: {near}; or give --input, --output"
        )
    return found


def price_list(model: str, provider: str | None = None, at: date | None = None, batch: bool = False) -> PriceList:
    """All prices of a model at one provider, on a day, with its context tiers.

    Without a provider, the one whose own model it is: who has the most prices for it (cached, writes, batch).

    Errors: :class:`InputError` for an unknown model or provider, and for ``batch`` where none is sold.
    """
    from genai_prices.data_snapshot import get_snapshot

    moment = datetime.combine(at or datetime.now(UTC).date(), time(12), UTC)
    wanted = _plain(model)
    sold: dict[str, tuple[int, Any]] = {}
    names: set[str] = set()
    for host in get_snapshot().providers:
        for entry in host.models:
            names.add(_plain(entry.id))
            matches = _plain(entry.id) == wanted or (host.id == provider and entry.is_match(model))
            if matches and host.id not in RESELLERS and host.id not in sold:
                asked = entry.get_prices(moment)
                known = sum(getattr(asked, key, None) is not None for key in _KEYS.values())
                if asked.input_mtok and asked.output_mtok:
                    sold[host.id] = known + bool(entry.price_variants), entry
    if not sold:
        near = ", ".join(get_close_matches(wanted, names, 3, 0.5)) or "none"
        raise InputError("MODEL", model, f"nobody in genai-prices asks a price for it; near names: {near}")
    if provider is not None and provider not in sold:
        raise InputError("--provider", provider, f"does not sell {model}; those who do: {', '.join(sorted(sold))}")
    host = provider or max(sorted(sold), key=lambda name: sold[name][0])
    entry = sold[host][1]
    context = {"processing": "batch"} if batch else None
    found = entry.get_prices(moment, context)
    if batch and found == entry.get_prices(moment):
        raise InputError("--batch", model, f"{host} sells no batch tier of it on that day")
    return PriceList(model=model, provider=host, tiers=_rates(found))


_KEYS = {
    "input": "input_mtok",
    "cached": "cache_read_mtok",
    "write": "cache_write_mtok",
    "write_hour": "cache_write_1h_mtok",
    "output": "output_mtok",
}
"""Our kinds of tokens, and what genai-prices calls their prices."""


def _rates(found: Any) -> tuple[Rates, ...]:
    """Prices at every context where one of them changes."""
    asked = {kind: getattr(found, key, None) for kind, key in _KEYS.items()}
    starts = {0, *(tier.start for price in asked.values() for tier in getattr(price, "tiers", ()))}

    def at(price: Any, start: int) -> float | None:
        reached = [tier.price for tier in getattr(price, "tiers", ()) if tier.start <= start]
        value = reached[-1] if reached else getattr(price, "base", price)
        return None if value is None else float(value)

    return tuple(
        Rates(start=float(start), **{kind: at(price, start) for kind, price in asked.items()})  # pyright: ignore[reportArgumentType]
        for start in sorted(starts)
    )


def _plain(name: str) -> str:
    """Name without the vendor's prefix and without case."""
    return name.strip().lower().rstrip("/").rsplit("/", 1)[-1]


def _base(price: Any) -> float | None:
    """Price below the first context tier; free is none."""
    base: Decimal | None = getattr(price, "base", price)
    return float(base) if base else None
