"""Files of prices: tables of offers, and the market's fitted constants."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from rackmath.errors import InputError
from rackmath.io.tables import read_csv
from rackmath.prices.calibration import KnownModel
from rackmath.prices.decode import Offer
from rackmath.prices.market import Market
from rackmath.prices.page import Change
from rackmath.prices.trend import ScoredOffer
from rackmath.units import day, decimal_year, parse

COLUMNS = ("model", "provider", "input", "output")
"""Columns that a table of offers must have; cached_input and date may be missing."""
_SIZES = ("active_b", "total_b", "kv_bytes_per_token_bf16", "kv_read_slope_bf16")
_PRICES = ("input", "cached_input", "output")
_MILLION = "USD per million tokens, empty where none is published"


@lru_cache(maxsize=1)
def market() -> Market:
    """Read the shipped constants of the market, which ``tools/prices.py`` writes."""
    text = (files("rackmath") / "data" / "market.toml").read_text(encoding="utf-8")
    return TypeAdapter(Market).validate_python(tomllib.loads(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How much faster a tier is said to be than the standard one."""

    provider: str
    tier: str
    value: float
    source: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What ``data/price_facts.toml`` holds."""

    speed: tuple[Speed, ...]
    change: tuple[Change, ...]


CAPABILITY = ("model", "benchmark", "score", "date", "input", "output")
"""Columns that a table of scores and prices must have; score_source and price_source may be missing."""


def capability(path: Path | None = None) -> dict[str, list[ScoredOffer]]:
    """Models with a published score and a dated price, by benchmark: the package's table, or a table of a user's own.

    Errors: :class:`InputError` for a missing column, a score that is no part of 1, and a price or a day that is none.
    """
    if path is None:
        with as_file(files("rackmath") / "data" / "capability.csv") as own_file:
            return capability(own_file)
    entries: dict[str, list[ScoredOffer]] = {}
    for line, row in enumerate(read_csv(path, "FILE", CAPABILITY), start=2):
        at = f"{path.name} line {line}"
        score, into, out = (parse(row[key], "1", f"{at} {key}") for key in ("score", "input", "output"))
        if not 0 < score <= 1:
            raise InputError(f"{at} score", row["score"], "write the part that is right, above 0 and up to 1")
        for key, price in (("input", into), ("output", out)):
            if not 1e-6 <= price <= 1e6:
                raise InputError(f"{at} {key}", row[key], "write a positive price in USD per million tokens")
        year = decimal_year(day(row["date"].strip(), f"{at} date"))
        entries.setdefault(row["benchmark"].strip().lower(), []).append(
            ScoredOffer(model=row["model"].strip(), score=score, year=year, input=into, output=out)
        )
    if not entries:
        raise InputError("FILE", str(path), "has no rows")
    return entries


@lru_cache(maxsize=1)
def facts() -> Facts:
    """Read facts about price pages that genai-prices does not hold."""
    text = (files("rackmath") / "data" / "price_facts.toml").read_text(encoding="utf-8")
    return TypeAdapter(Facts).validate_python(tomllib.loads(text))


def market_lines(market: Market) -> Iterable[str]:
    """A market as lines of TOML."""
    yield from _lines(asdict(market), ())


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterable[str]:
    """A table of TOML: its own values, then the tables inside it."""
    yield from (
        f"{json.dumps(key) if '.' in key else key} = {_toml(value)}"
        for key, value in table.items()
        if not isinstance(value, Mapping)
    )
    for key, value in table.items():
        if isinstance(value, Mapping):
            name = ".".join(json.dumps(part) if "." in part else part for part in (*path, key))
            yield f"\n[{name}]"
            yield from _lines(value, (*path, key))


def offers_of(path: Path) -> dict[str, list[Offer]]:
    """Offers of a table, by model, in the order of the file.

    Errors: :class:`InputError` for a missing column, or a price that is no positive number.
    """
    entries: dict[str, list[Offer]] = {}
    for line, row in enumerate(read_csv(path, "FILE", COLUMNS), start=2):
        model = row["model"].strip()
        if not model:
            raise InputError(f"{path.name} line {line} model", row["model"], "name the model of every row")
        values = {key: _price(row.get(key) or "", f"{path.name} line {line} {key}") for key in _PRICES}
        entries.setdefault(model, []).append(
            Offer(
                model=model,
                provider=row["provider"].strip(),
                input=values["input"],
                cached_input=values["cached_input"],
                output=values["output"],
                year=_year(row.get("date") or "", f"{path.name} line {line} date"),
            )
        )
    if not entries:
        raise InputError("FILE", str(path), "has no rows")
    return entries


def known_models(path: Path) -> list[KnownModel]:
    """Offers of a table that also has the models' sizes, as the market's fit takes them.

    Errors: as :func:`offers_of`, and for a size that is no number.
    """
    offers = offers_of(path)
    rows = {row["model"].strip(): row for row in read_csv(path, "FILE", (*COLUMNS, "arch_group", *_SIZES))}
    models: list[KnownModel] = []
    for name, offer in offers.items():
        active, total, cache, read = (parse(rows[name][column], "1", f"{name} {column}") for column in _SIZES)
        group = rows[name]["arch_group"]
        models.append(
            KnownModel(model=name, group=group, active=active, total=total, cache=cache, read=read, offers=tuple(offer))
        )
    return models


def _year(text: str, field: str) -> float | None:
    return decimal_year(day(text.strip(), field)) if text.strip() else None


def _price(text: str, field: str) -> float | None:
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError as error:
        raise InputError(field, text, f"write {_MILLION}; other currencies must be converted") from error


def _toml(value: float | str) -> str:
    return f'"{value}"' if isinstance(value, str) else f"{value:.6g}" if value else "0.0"
