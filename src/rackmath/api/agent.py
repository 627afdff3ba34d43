"""What a session of an agent costs, by list price, by first principles, or from a log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from rackmath import units
from rackmath.api import kinds, options
from rackmath.api.energy import energy_of_run
from rackmath.api.fields import Option, read_fields, refuse_without
from rackmath.api.result import Result
from rackmath.api.subjects import load_model, system_of
from rackmath.caching.sessions import Session, turns
from rackmath.errors import InputError
from rackmath.figures.session import session_figure
from rackmath.hardware import System
from rackmath.io import catalogue, constants_file, price_book, usage_log
from rackmath.io.constants_file import DEFAULT_ENGINE, NOW
from rackmath.models.architecture import Architecture
from rackmath.prices.agents import HOUR, own_hardware, session_bill
from rackmath.prices.lists import PriceList, Tokens, bill
from rackmath.serving.engines import engine_layout, layout_notes
from rackmath.serving.variants import as_read

KINDS = ("input", "cached_input", "write", "output")
"""Kinds of tokens that a bill tells apart."""
MINUTES = 300.0
"""How long the shorter product holds a prefix after its last use, where a list does not say otherwise. [s]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRequest:
    """A session of an agent, or a log of one."""

    model: Annotated[str | None, Option(help="Model that genai-prices knows.", metavar="[MODEL]", argument=True)] = None
    provider: Annotated[
        str | None, Option(help="Provider that sells it (default: who has the fullest price list of it).")
    ] = None
    turns: Annotated[int, Option(help="Calls of a session.", kind=kinds.whole())] = 40
    instructions: Annotated[
        float,
        Option(help="Tokens of instructions and tools.", kind=kinds.NUMBER, names=("--instructions", "--first")),
    ] = 12000.0
    turn_tokens: Annotated[
        float,
        Option(help="Tokens that a tool or user adds a turn.", kind=kinds.NUMBER, names=("--turn-tokens", "--added")),
    ] = 1500.0
    output: Annotated[float, Option(help="Tokens that the model says per turn.", kind=kinds.NUMBER)] = 500.0
    think_time: Annotated[float, options.THINK_TIME] = 60.0
    compact_at: Annotated[float, Option(help="Context that is summarised.", kind=kinds.NUMBER)] = 60000.0
    compact_to: Annotated[float, Option(help="Tokens of the summary.", kind=kinds.NUMBER)] = 2000.0
    sessions: Annotated[float, Option(help="Sessions of a day.", kind=kinds.NUMBER)] = 20.0
    smaller_model: Annotated[
        str | None, Option(help="A smaller model to compare with.", names=("--smaller-model", "--smaller"))
    ] = None
    own_model: Annotated[
        str | Architecture | None,
        Option(
            help="Open model for hardware of your own: a catalogue name or a config.json.",
            kind=kinds.SUBJECT,
            names=("--own-model", "--own"),
        ),
    ] = None
    on: Annotated[str | System | None, options.SYSTEM.but(help="Hardware of your own, with --own-model.")] = None
    layout: Annotated[str, Option(help="Layout on hardware of your own.")] = "tp8"
    weights: Annotated[str | None, options.WEIGHTS.but(help="Format of your own model's weights.")] = None
    kv: Annotated[str | None, options.CACHE.but(help="Format of its cache.")] = None
    batch: Annotated[float, Option(help="Sessions that it answers at a time.", kind=kinds.NUMBER)] = 64.0
    engine: Annotated[str, options.ENGINE] = DEFAULT_ENGINE
    usd_per_gpu_hour: Annotated[float | None, options.USD_PER_GPU_HOUR] = None
    grid: Annotated[float | None, options.GRID] = None
    log: Annotated[
        str | None, Option(help="Price a log of usage records instead of a session.", metavar="FILE.jsonl")
    ] = None
    date: Annotated[str | None, Option(help="Day of the prices, as in 2026-11-21 (default: today).")] = None

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)


def run_agent(r: AgentRequest) -> Result:
    """Cost of an agent's session and day; which lever saves most; break-even with hardware of your own.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range.
    """
    at = units.day(r.date, "--date") if r.date else None
    if r.log is not None:
        return Result(request=r, facts=_logged(Path(r.log), r.model, r.provider, at))
    if r.model is None:
        raise InputError("MODEL", "", "name a model, or give --log FILE.jsonl")
    if not 0 < r.sessions <= 1e9:
        raise InputError("--sessions", r.sessions, "write a positive number of sessions per day")
    if (r.own_model is None) != (r.on is None):
        raise InputError("--own-model", r.own_model, "give --own-model MODEL and --on SYSTEM together")
    if r.own_model is None:
        refuse_without(r, "--own-model", "layout", "weights", "kv", "batch", "engine", "usd_per_gpu_hour", "grid")
    session = Session(
        turns=r.turns,
        instructions=r.instructions,
        turn_tokens=r.turn_tokens,
        output=r.output,
        think_time=r.think_time,
        compact_at=r.compact_at,
        compact_to=r.compact_to,
    )
    prices = price_book.price_list(r.model, r.provider, at)
    levers = _levers(prices, replace(session, compact_at=None), session, r.smaller_model, r.provider, at)
    facts: dict[str, Any] = {
        "model": r.model,
        "provider": prices.provider,
        "turns": r.turns,
        "sessions_per_day": r.sessions,
        "levers": [
            {
                **entry,
                "usd_per_day": entry["usd_per_session"] * r.sessions,
                "usd_per_year": entry["usd_per_session"] * r.sessions * 365,
            }
            for entry in levers
        ],
        "cheapest": min(levers, key=lambda entry: entry["usd_per_session"])["lever"],
    }
    notes: tuple[str, ...] = ()
    if r.own_model is not None and r.on is not None:
        best = min((e for e in levers if e["model"] == r.model and not e["batch"]), key=lambda e: e["usd_per_session"])
        facts["own"], notes = _own(r, r.own_model, r.on, session, best)
    facts["assumptions"] = [
        f"pauses are exponential with mean {r.think_time:g} s; every use renews a cached prefix",
        f"minutes: a prefix is kept for {MINUTES:g} s; hour: for {HOUR:g} s; your list may say otherwise",
        "a prefix is all of the prompt before; writes pay the write price, or input where there is none",
        "batch tier: every turn may wait up to a day",
    ]
    if r.own_model is not None:
        facts["assumptions"] += [
            "own hardware: between turns caches wait in a tier whose cost is left out (rackmath lecture cache)",
            *notes,
        ]
    return Result(request=r, facts=facts, draw=lambda: session_figure(facts))


def _levers(
    prices: PriceList, plain: Session, compaction: Session, smaller: str | None, provider: str | None, at: date | None
) -> list[dict[str, Any]]:
    """The session with no lever, with each, and with what goes together."""
    levers = [_priced("none", prices, plain, 0.0)]
    keeps = {"caching, minutes": MINUTES} if prices.tiers[0].cached_input is not None else {}
    if prices.tiers[0].write_hour is not None:
        keeps["caching, hour"] = HOUR
    for name, keep in keeps.items():
        levers.append(_priced(name, prices, plain, keep))
    levers.append(_priced("compaction", prices, compaction, 0.0))
    for name, keep in keeps.items():
        levers.append(_priced(f"{name} + compaction", prices, compaction, keep))
    try:
        cheap = price_book.price_list(prices.model, prices.provider, at, batch=True)
    except InputError:
        # Many sell no batch tier; then it is no lever.
        cheap = None
    if cheap is not None:
        levers.append({**_priced("batch tier", cheap, plain, 0.0), "batch": True})
    if smaller is not None:
        levers.append(_priced("smaller model", price_book.price_list(smaller, provider, at), plain, 0.0))
    for entry in levers:
        entry["saved"] = 1 - entry["usd_per_session"] / levers[0]["usd_per_session"]
    return levers


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
    r: AgentRequest, model: str | Architecture, on: str | System, session: Session, lever: dict[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The compacted session, with its prefixes kept, on hardware of one's own; and what to say of the model."""
    architecture, notes = as_read(load_model(model), r.engine, r.weights, r.kv)
    system, layout = system_of(on), engine_layout(r.layout, None, architecture, r.engine)
    price = catalogue.price_of(system, r.usd_per_gpu_hour)
    if price is None:
        raise InputError("--usd-per-gpu-hour", None, f"no price of {system.name} is known: give one")
    version = constants_file.engine_of(system, r.engine, NOW)
    costs = own_hardware(
        architecture,
        system,
        layout,
        turns(replace(session, keep=HOUR)),
        batch=r.batch,
        prompt_losses=constants_file.losses_of(system, version, "prompt pass"),
        token_losses=constants_file.losses_of(system, version, "time per token"),
    )
    seconds, gpus = costs.seconds, costs.gpus
    facts = {
        "model": model if isinstance(model, str) else architecture.name,
        "system": on if isinstance(on, str) else system.name,
        "layout": r.layout,
        "gpus": gpus,
        "gpu_seconds_per_session": seconds,
        "usd_per_session": seconds * price,
        "usd_per_session_range": [costs.low * price, costs.high * price],
        "listed_usd_per_session": lever["usd_per_session"],
        "listed_lever": lever["lever"],
        "sessions_per_day_capacity": 86_400 * gpus / seconds,
        "sessions_per_day_break_even": 86_400 * gpus * price / lever["usd_per_session"],
        "usd_per_day_rent": 86_400 * gpus * price,
        "energy": energy_of_run(seconds, costs.memory_time, costs.compute_time, system.chip, r.grid),
        "sessions_per_day": r.sessions,
    }
    return facts, (*notes, *layout_notes(layout, r.engine))


def _logged(path: Path, model: str | None, provider: str | None, at: date | None) -> dict[str, Any]:
    """A log by list price, by model."""
    log = usage_log.read_usage(path)
    rows: list[dict[str, Any]] = []
    for (name, batch), tokens in log.tokens.items():
        prices = price_book.price_list(model or name, provider, at, batch=batch)
        costs = bill(prices, tokens)
        bare = Tokens(
            input=tokens.prompt,
            cached_input=np.zeros(1),
            write=np.zeros(1),
            write_hour=np.zeros(1),
            output=tokens.output,
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
                "hit": float(tokens.cached_input.sum()) / prompt if prompt else 0.0,
                "usd": float(costs.total.sum()),
                **{f"usd_{kind}": float(getattr(costs, kind).sum()) for kind in KINDS},
                "usd_without_caching": float(bill(prices, bare).total.sum()),
            }
        )
    return {"requests": sum(row["requests"] for row in rows), "without_usage": log.without_usage, "models": rows}
