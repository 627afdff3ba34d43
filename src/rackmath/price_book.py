"""The room of published prices: genai-prices, tables of offers, and the market's fitted constants."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, date, datetime, time
from decimal import Decimal
from difflib import get_close_matches
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from rackmath.errors import InputError
from rackmath.prices.decode import Offer
from rackmath.prices.lists import PriceList, Rates
from rackmath.prices.market import Market
from rackmath.tables import read_csv

RESELLERS = frozenset({"openrouter"})
"""Providers that pass other hosts' prices on; they are no offers of their own."""
COLUMNS = ("model", "provider", "input", "output")
"""Columns that a table of offers must have; cached_input and date may be missing."""
_PRICES = ("input", "cached_input", "output")
_MILLION = "USD per million tokens, empty where none is published"


@lru_cache(maxsize=1)
def market() -> Market:
    """Read the shipped constants of the market, which ``tools/prices.py`` writes."""
    text = (files("rackmath") / "data" / "market.toml").read_text(encoding="utf-8")
    return TypeAdapter(Market).validate_python(tomllib.loads(text))


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


def offers_of(path: Path) -> dict[str, list[Offer]]:
    """Offers of a table, by model, in the order of the file.

    Errors: :class:`InputError` for a missing column, or a price that is no positive number.
    """
    found: dict[str, list[Offer]] = {}
    for line, row in enumerate(read_csv(path, "FILE", COLUMNS), start=2):
        model = row["model"].strip()
        if not model:
            raise InputError(f"{path.name} line {line} model", row["model"], "name the model of every row")
        values = {key: _price(row.get(key) or "", f"{path.name} line {line} {key}") for key in _PRICES}
        found.setdefault(model, []).append(
            Offer(
                model=model,
                provider=row["provider"].strip(),
                input=values["input"],
                cached=values["cached_input"],
                output=values["output"],
                year=_year(row.get("date") or "", f"{path.name} line {line} date"),
            )
        )
    if not found:
        raise InputError("FILE", str(path), "has no rows")
    return found


def day(text: str, field: str) -> date:
    """Read a day, or a month, which means its middle.

    Errors: :class:`InputError` for anything else.
    """
    try:
        return date.fromisoformat(f"{text}-15" if len(text) == len("2026-11") else text)
    except ValueError as error:
        raise InputError(field, text, "write a day as 2026-11-21, or a month as 2026-11") from error


def decimal_year(at: date) -> float:
    """Day as a decimal year."""
    return at.year + (at.timetuple().tm_yday - 1) / 365.25


def _year(text: str, field: str) -> float | None:
    return decimal_year(day(text.strip(), field)) if text.strip() else None


def _price(text: str, field: str) -> float | None:
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError as error:
        raise InputError(field, text, f"write {_MILLION}; other currencies must be converted") from error


def _plain(name: str) -> str:
    """Name without the vendor's prefix and without case."""
    return name.strip().lower().rstrip("/").rsplit("/", 1)[-1]


def _base(price: Any) -> float | None:
    """Price below the first context tier; free is none."""
    base: Decimal | None = getattr(price, "base", price)
    return float(base) if base else None


def market_lines(found: Market) -> Iterable[str]:
    """A market as lines of TOML."""
    kinds: dict[str, Mapping[str, float]] = {}
    for name, value in asdict(found).items():
        if isinstance(value, Mapping):
            kinds[name] = value
        else:
            yield f"{name} = {_toml(value)}"
    for name, table in kinds.items():
        yield f"\n[{name}]"
        yield from (f"{key} = {_toml(value)}" for key, value in table.items())


def _toml(value: float | str) -> str:
    return f'"{value}"' if isinstance(value, str) else f"{value:.6g}" if value else "0.0"
