"""What several commands ask for: an engine's constants, a price, numbers in a list."""

from __future__ import annotations

from rackmath import catalogue, constants_file
from rackmath.engine import Losses
from rackmath.engine.constants import OF_SCHEDULING, Engine
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.serving import Scheduling

FAMILIES = ("vllm", "sglang", "trtllm", "llama.cpp")
"""Engines that constants are fitted for."""

FIRST_YEAR, LAST_YEAR = 2023, 2028
NOW = 2026.5
"""Year that is meant where none is given."""


def engine_of(system: System, family: str, year: float) -> Engine:
    """What the constants of an engine on a system depend on."""
    if not FIRST_YEAR <= year <= LAST_YEAR:
        raise InputError("--year", year, f"write a year from {FIRST_YEAR} to {LAST_YEAR}")
    return Engine(generation=system.chip.generation, family=family, date=year)


def losses_of(system: System, engine: Engine, kind: str) -> Losses:
    """Losses of an engine on a system, with the range of one class of questions."""
    known = constants_file.constants()
    low, high = known.range(kind, system.chip.name)
    return known.losses(engine, low, high)


def scheduling_of(engine: Engine) -> Scheduling:
    """How an engine mixes prompts and answers."""
    known = constants_file.constants()
    return Scheduling(**{name: known.value(name, engine) for name in OF_SCHEDULING})


def price_of(system: System, usd_per_hour: float | None) -> float | None:
    """Price of one accelerator: the one that is given, or the catalogue's. [USD/s]"""
    if usd_per_hour is None:
        return system.price
    if not 0 < usd_per_hour < 1e6:
        raise InputError("--usd-per-gpu-hour", usd_per_hour, "write a positive number of dollars")
    return usd_per_hour / 3600


def price_note(system: System, given: float | None) -> tuple[str, ...]:
    """Where a price comes from, for the reader."""
    if given is not None:
        return (f"price {given:g} $ per GPU-hour, as given",)
    if system.price is None:
        return ("no price is known for this system: give --usd-per-gpu-hour",)
    source = catalogue.sources()[system.sources["price"]]
    return (
        f"price {system.price * 3600:.2f} $ per GPU-hour of {system.price_date}: {source.title}, {source.publisher}",
    )


def names(text: str | None) -> list[str]:
    """``a,b,c`` -> its parts, without empty ones."""
    return [part.strip().lower() for part in (text or "").split(",") if part.strip()]


def numbers(text: str | None, field: str, low: float, high: float) -> list[float]:
    """``1,2,3`` -> numbers from ``low`` to ``high``."""
    found: list[float] = []
    for part in names(text):
        try:
            value = float(part)
        except ValueError as error:
            raise InputError(field, part, "write numbers with commas between them") from error
        if not low <= value <= high:
            raise InputError(field, part, f"write numbers from {low:g} to {high:g}")
        found.append(value)
    return found
