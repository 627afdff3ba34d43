"""``agent``: what a session of an agent costs, by list price, by first principles, or from a log."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import click
import numpy as np

from rackmath import catalogue, constants_file, price_book, units, usage_log
from rackmath.caching.sessions import Session, turns
from rackmath.cli import render
from rackmath.cli.agent_text import KINDS, session_figure, show_log, show_session
from rackmath.cli.figures import save
from rackmath.cli.quantities import NUMBER, SECONDS, Whole
from rackmath.constants_file import DEFAULT_ENGINE, FAMILIES, NOW
from rackmath.engine import parse_layout
from rackmath.errors import InputError
from rackmath.figures.write import check_picture
from rackmath.prices.agents import HOUR, own_hardware, session_bill
from rackmath.prices.lists import PriceList, Tokens, bill

MINUTES = 300.0
"""How long the shorter product holds a prefix after its last use, where a list does not say otherwise. [s]"""


@click.command(epilog="Example: rackmath agent claude-opus-5-5 --turns 60 --think 90 --date 2026-11-21")
@click.argument("model", required=False, metavar="[MODEL]")
@click.option("--provider", help="Who sells it (default: who has the fullest price list of it).")
@click.option("--turns", "count", type=Whole(), default=40, show_default=True, help="Calls of a session.")
@click.option("--first", type=NUMBER, default=12_000.0, show_default=True, help="Tokens of instructions and tools.")
@click.option("--added", type=NUMBER, default=1500.0, show_default=True, help="Tokens that a tool or user adds a turn.")
@click.option("--output", type=NUMBER, default=500.0, show_default=True, help="Tokens that the model says per turn.")
@click.option("--think", type=SECONDS, default=60.0, show_default=True, help="Mean pause between turns, in s.")
@click.option("--compact-at", type=NUMBER, default=60_000.0, show_default=True, help="Context that is summarised.")
@click.option("--compact-to", type=NUMBER, default=2000.0, show_default=True, help="Tokens of the summary.")
@click.option("--sessions", type=NUMBER, default=20.0, show_default=True, help="Sessions of a day.")
@click.option("--smaller", help="A smaller model to compare with.")
@click.option("--own", help="Open model for hardware of your own: a catalogue name or a config.json.")
@click.option("--on", "on", metavar="SYSTEM", help="Hardware of your own, with --own.")
@click.option("--layout", default="tp8", show_default=True, help="Layout on it.")
@click.option("--batch", type=NUMBER, default=64.0, show_default=True, help="Sessions that it answers at a time.")
@click.option("--engine", type=click.Choice(FAMILIES), default=DEFAULT_ENGINE, show_default=True)
@click.option("--usd-per-gpu-hour", type=NUMBER, help="Price of one accelerator, if not the catalogue's.")
@click.option("--log", "log", metavar="FILE.jsonl", help="Price a log of usage records instead of a session.")
@click.option("--date", "day", help="Day of the prices, as in 2026-11-21 (default: today).")
@click.option("--plot", metavar="FILE", help="Draw the cost of a session by call: FILE.html, FILE.png or FILE.svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def agent(
    model: str | None,
    provider: str | None,
    count: int,
    first: float,
    added: float,
    output: float,
    think: float,
    compact_at: float,
    compact_to: float,
    sessions: float,
    smaller: str | None,
    own: str | None,
    on: str | None,
    layout: str,
    batch: float,
    engine: str,
    usd_per_gpu_hour: float | None,
    log: str | None,
    day: str | None,
    plot: str | None,
    as_json: bool,
) -> None:
    """Cost of an agent's session and day; which lever saves most; break-even with hardware of your own.

    MODEL is a name that genai-prices knows. With --log, the usage records of a log are priced by their own models.
    """
    at = units.day(day, "--date") if day else None
    drawn = check_picture(plot)
    if log is not None:
        if drawn is not None:
            raise InputError("--plot", plot, "draws a session; a log has none")
        facts = _logged(Path(log), model, provider, at)
        if as_json:
            render.show_json(facts)
        else:
            show_log(facts)
        return
    if model is None:
        raise InputError("MODEL", "", "name a model, or give --log FILE.jsonl")
    if not 0 < sessions <= 1e9:
        raise InputError("--sessions", sessions, "write a positive number of sessions per day")
    if (own is None) != (on is None):
        raise InputError("--own", own, "give --own MODEL and --on SYSTEM together")
    session = Session(
        turns=count, first=first, added=added, output=output, think=think, compact_at=compact_at, compact_to=compact_to
    )
    prices = price_book.price_list(model, provider, at)
    levers = _levers(prices, replace(session, compact_at=None), session, smaller, provider, at)
    facts: dict[str, Any] = {
        "model": model,
        "provider": prices.provider,
        "turns": count,
        "sessions_per_day": sessions,
        "levers": [
            {
                **entry,
                "usd_per_day": entry["usd_per_session"] * sessions,
                "usd_per_year": entry["usd_per_session"] * sessions * 365,
            }
            for entry in levers
        ],
        "cheapest": min(levers, key=lambda entry: entry["usd_per_session"])["lever"],
    }
    if own is not None and on is not None:
        best = min((e for e in levers if e["model"] == model and not e["batch"]), key=lambda e: e["usd_per_session"])
        facts["own"] = _own(session, own, on, layout, batch, engine, usd_per_gpu_hour, best, sessions)
    facts["assumptions"] = [
        f"pauses are exponential with mean {think:g} s; every use renews a cached prefix",
        f"minutes: a prefix is kept for {MINUTES:g} s; hour: for {HOUR:g} s; your list may say otherwise",
        "a prefix is all of the prompt before; writes pay the write price, or input where there is none",
        "batch tier: every turn may wait up to a day",
    ]
    if own is not None:
        facts["assumptions"].append(
            "own hardware: between turns caches wait in a tier whose cost is left out (rackmath cache)"
        )
    if drawn is not None:
        save(session_figure(facts), drawn)
    if as_json:
        render.show_json(facts)
        return
    show_session(facts)


def _levers(
    prices: PriceList, plain: Session, compacted: Session, smaller: str | None, provider: str | None, at: date | None
) -> list[dict[str, Any]]:
    """The session with no lever, with each, and with what goes together."""
    found = [_priced("none", prices, plain, 0.0)]
    keeps = {"caching, minutes": MINUTES} if prices.tiers[0].cached is not None else {}
    if prices.tiers[0].write_hour is not None:
        keeps["caching, hour"] = HOUR
    for name, keep in keeps.items():
        found.append(_priced(name, prices, plain, keep))
    found.append(_priced("compaction", prices, compacted, 0.0))
    for name, keep in keeps.items():
        found.append(_priced(f"{name} + compaction", prices, compacted, keep))
    try:
        cheap = price_book.price_list(prices.model, prices.provider, at, batch=True)
    except InputError:
        # Many sell no batch tier; then it is no lever.
        cheap = None
    if cheap is not None:
        found.append({**_priced("batch tier", cheap, plain, 0.0), "batch": True})
    if smaller is not None:
        found.append(_priced("smaller model", price_book.price_list(smaller, provider, at), plain, 0.0))
    for entry in found:
        entry["saved"] = 1 - entry["usd_per_session"] / found[0]["usd_per_session"]
    return found


def _priced(lever: str, prices: PriceList, session: Session, keep: float) -> dict[str, Any]:
    """A session by list price."""
    calls = turns(replace(session, keep=keep))
    costs = session_bill(prices, calls, keep)
    return {
        "lever": lever,
        "model": prices.model,
        "batch": False,
        "usd_per_session": float(costs.total.sum()),
        **{kind: float(getattr(costs, kind).sum()) for kind in KINDS},
        "hit": calls.hit,
        "largest_prompt": float(calls.prompt.max()),
        "input_tokens": float(calls.prompt.sum()),
        "output_tokens": float(calls.output.sum()),
        "usd_by_call": np.cumsum(costs.total),
    }


def _own(
    session: Session,
    model: str,
    on: str,
    layout: str,
    batch: float,
    engine: str,
    price_given: float | None,
    listed: dict[str, Any],
    sessions: float,
) -> dict[str, Any]:
    """The compacted session, with its prefixes kept, on hardware of one's own."""
    architecture, system = catalogue.model(model), catalogue.system(on)
    price = catalogue.price_of(system, price_given)
    if price is None:
        raise InputError("--usd-per-gpu-hour", None, f"no price of {system.name} is known: give one")
    version = constants_file.engine_of(system, engine, NOW)
    found = own_hardware(
        architecture,
        system,
        parse_layout(layout, None, architecture),
        turns(replace(session, keep=HOUR)),
        batch=batch,
        prompt_losses=constants_file.losses_of(system, version, "prompt pass"),
        token_losses=constants_file.losses_of(system, version, "time per token"),
    )
    seconds, gpus = found.seconds, found.gpus
    return {
        "model": model,
        "system": on,
        "layout": layout,
        "gpus": gpus,
        "gpu_seconds_per_session": seconds,
        "usd_per_session": seconds * price,
        "usd_per_session_range": [found.low * price, found.high * price],
        "listed_usd_per_session": listed["usd_per_session"],
        "listed_lever": listed["lever"],
        "sessions_per_day_capacity": 86_400 * gpus / seconds,
        "sessions_per_day_break_even": 86_400 * gpus * price / listed["usd_per_session"],
        "usd_per_day_rent": 86_400 * gpus * price,
        "sessions_per_day": sessions,
    }


def _logged(path: Path, model: str | None, provider: str | None, at: date | None) -> dict[str, Any]:
    """A log by list price, by model."""
    log = usage_log.read_usage(path)
    rows: list[dict[str, Any]] = []
    for (name, batch), tokens in log.tokens.items():
        prices = price_book.price_list(model or name, provider, at, batch=batch)
        costs = bill(prices, tokens)
        bare = Tokens(
            input=tokens.prompt, cached=np.zeros(1), write=np.zeros(1), write_hour=np.zeros(1), output=tokens.output
        )
        prompt = float(tokens.prompt.sum())
        rows.append(
            {
                "model": name,
                "priced_as": prices.model,
                "provider": prices.provider,
                "batch": batch,
                "requests": len(tokens.input),
                "input_tokens": prompt,
                "output_tokens": float(tokens.output.sum()),
                "hit": float(tokens.cached.sum()) / prompt if prompt else 0.0,
                "usd": float(costs.total.sum()),
                **{f"usd_{kind}": float(getattr(costs, kind).sum()) for kind in KINDS},
                "usd_without_caching": float(bill(prices, bare).total.sum()),
            }
        )
    return {"requests": sum(row["requests"] for row in rows), "without_usage": log.without_usage, "models": rows}
