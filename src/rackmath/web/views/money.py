"""Prices: a page read, a model decoded, where a cache waits, what an agent costs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from rackmath.api.agent import AgentRequest
from rackmath.api.cache import CacheRequest
from rackmath.api.decode import PriceRequest
from rackmath.api.price_page import PageRequest
from rackmath.errors import InputError
from rackmath.io import price_book
from rackmath.units import show
from rackmath.web.inputs import (
    Inputs,
    Model,
    OtherNumbersInputs,
    System,
    asking,
    choice,
    named,
    number,
    slider,
    text,
    ticked,
    values_of,
)
from rackmath.web.shown import PageContent, Table, View, answered, drawn

_PROVIDERS = tuple(sorted(price_book.providers()))


@asking(PageRequest)
class PageInputs(Inputs):
    """A provider's page."""

    provider: Literal[_PROVIDERS] = choice("anthropic", "provider")  # type: ignore[valid-type]
    model: str = text("", "only this model", hint="claude-opus-5-5")


def page(i: PageInputs) -> PageContent:
    """Ratios, and what each of them implies."""
    answer = answered("prices page", PageRequest(**values_of(i, "provider", "model")))
    result = answer.facts[0]
    rows = [
        (
            model["model"],
            *(_dollars(model[key]) for key in ("input", "cached_input", "output")),
            ", ".join(f"{r['kind']} {r['value']:.3g}" for r in model["ratios"]),
        )
        for model in result["models"]
    ]
    return PageContent(
        figures=drawn(answer.result.picture()),
        pairs=[("models", f"{len(rows):,}")],
        tables=[
            Table(
                title="prices per million tokens",
                columns=["model", ">input", ">cached", ">output", "ratios"],
                rows=rows,
            ),
            _hypotheses(result),
        ],
        facts=answer.facts,
        command=answer.command,
        python=answer.python,
        notes=["prices are those of genai-prices; what is not dated there is taken to have always held"],
    )


def _hypotheses(facts: Mapping[str, Any]) -> Table:
    rows = [
        (
            f"{reading['kind']} {reading['value']:.3g}",
            h["hypothesis"],
            *_foretold(h["predicted"]),
            h["implies"] or "",
            _implied(h["implied"]),
            "" if h["log10_bayes_factor"] is None else f"{h['log10_bayes_factor']:+.2f}",
        )
        for reading in facts["readings"]
        for h in reading["hypotheses"]
    ]
    return Table(
        title="what each hypothesis foretells, implies, and how it fares",
        columns=["ratio", "hypothesis", ">foretells", ">90 %", "implies", ">value", ">log10 Bayes factor"],
        rows=rows,
    )


def _foretold(ratios: Mapping[str, float] | None) -> tuple[str, str]:
    return (
        ("", "") if ratios is None else (f"{ratios['median']:.3g}", f"{ratios['low90']:.3g} to {ratios['high90']:.3g}")
    )


def _implied(ratios: Mapping[str, float] | None) -> str:
    return (
        "nothing possible"
        if ratios is None
        else f"{ratios['median']:.3g}, {ratios['low90']:.3g} to {ratios['high90']:.3g}"
    )


def _dollars(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


@asking(PriceRequest, aliases={"model": "source"})
class DecodeInputs(Inputs):
    """Prices behind which a model stands."""

    model: str = text("", "a model of several hosts, instead of prices", hint="kimi-k2.6")
    input: float = slider(0.6, 0.005, 50, "input", unit="$ per million")
    cached_input: float | None = number(None, 0.0005, 50, "cached input", unit="$ per million")
    output: float = slider(2.5, 0.01, 200, "output", unit="$ per million")
    speed: float | None = number(None, 1, 5000, "speed that a reader sees", unit="tokens/s")
    cliff: float | None = number(None, 1000, 1e8, "context at which the price steps", unit="tokens")


def decode(i: DecodeInputs) -> PageContent:
    """Sizes, batch and margin with their intervals."""
    if i.model:
        if not _NAME.fullmatch(i.model):
            raise InputError("model", i.model, "write a name that genai-prices knows, or leave it empty")
        values = values_of(i, "model", "speed", "cliff")
    else:
        values = values_of(i, "input", "cached_input", "output", "speed", "cliff")
    answer = answered("prices decode", PriceRequest(**values))
    f = answer.facts[0]
    scales = (
        ("active_params", 1e9, "B"),
        ("total_params", 1e9, "B"),
        ("kv_bytes_per_token", 1e3, "kB"),
        ("margin", 1, ""),
    )
    rows = [
        (
            name.replace("_", " "),
            *(f"{f[name][key] / scale:.3g} {unit}".strip() for key in ("median", "low50", "high50", "low90", "high90")),
        )
        for name, scale, unit in scales
    ]
    return PageContent(
        figures=drawn(answer.result.picture()),
        pairs=[("chance that it is dense", f"{f['dense']:.0%}")],
        tables=[Table(title="what prices say", columns=["", ">median", ">50 %", "> ", ">90 %", ">  "], rows=rows)],
        facts=answer.facts,
        command=answer.command,
        python=answer.python,
        notes=f["cannot_tell"],
    )


@asking(CacheRequest)
class CacheInputs(OtherNumbersInputs):
    """Where the cache of a prefix waits."""

    model: Model = named("llama-3.1-70b", "model", "model")
    on: System = named("h100-sxm", "system", "system")
    context: float = slider(20_000, 100, 1e6, "tokens of the prefix", whole=True)
    reuse: float = slider(300, 1, 1e6, "half of the next uses come within", unit="s")
    memory_price: float = slider(1.0, 0.1, 10, "factor on prices of devices")
    years: float = slider(4.0, 1, 10, "devices are written off over", log=False)
    remote: bool = ticked(False, "behind the network")
    waiting: bool = ticked(False, "the accelerator waits for the bytes")


def cache(i: CacheInputs) -> PageContent:
    """Hold, retrieve or compute again."""
    fields = ("model", "on", "context", "reuse", "memory_price", "years", "remote", "waiting")
    answer = answered("lecture cache", CacheRequest(**values_of(i, *fields)))
    f = answer.facts
    rows = [
        (
            tier["tier"],
            show(tier["drain_time"], "s"),
            f"{tier['hold_usd_per_million_hour']:.3g}",
            f"{tier['retrieve_usd_per_million']:.3g}",
            show(tier["wait"], "s"),
            show(tier["accelerator_seconds"], "s"),
        )
        for tier in f["tiers"]
    ]
    return PageContent(
        figures=drawn(answer.result.picture()),
        tables=[
            Table(
                title="$ per million tokens",
                columns=["tier", ">drain time", ">hold per hour", ">bring back", ">user waits", ">accelerator time"],
                rows=rows,
            )
        ],
        facts=f,
        command=answer.command,
        python=answer.python,
        notes=f.get("assumptions", []),
    )


@asking(AgentRequest)
class AgentInputs(Inputs):
    """Sessions whose context grows."""

    model: str = text("claude-opus-5-5", "model that is sold", hint="claude-opus-5-5")
    turns: float = slider(40, 1, 500, "calls of a session", whole=True)
    first: float = slider(12_000, 10, 200_000, "tokens of instructions", whole=True)
    added: float = slider(1500, 1, 50_000, "tokens that a turn adds", whole=True)
    output: float = slider(500, 1, 20_000, "tokens that the model says per turn", whole=True)
    think: float = slider(60, 1, 10_000, "mean pause between turns", unit="s")
    sessions: float = slider(20, 1, 100_000, "sessions of a day", whole=True)


def agent(i: AgentInputs) -> PageContent:
    """What a session and a day cost, lever by lever."""
    if not _NAME.fullmatch(i.model):
        raise InputError("model", i.model, "write a name that genai-prices knows")
    fields = ("model", "turns", "first", "added", "output", "think", "sessions")
    answer = answered("prices agent", AgentRequest(**values_of(i, *fields)))
    f = answer.facts
    rows = [
        (
            lever["lever"],
            f"{lever['usd_per_session']:.3g}",
            f"{lever['usd_per_day']:,.4g}",
            f"{lever['hit']:.1%}",
            f"{lever['saved']:.0%}",
        )
        for lever in f["levers"]
    ]
    return PageContent(
        figures=drawn(answer.result.picture()),
        pairs=[("who sells it", f["provider"])],
        tables=[
            Table(title="levers", columns=["lever", ">$ a session", ">$ a day", ">cache hits", ">saved"], rows=rows)
        ],
        facts=f,
        command=answer.command,
        python=answer.python,
    )


_NAME = re.compile(r"(?!.*\.csv$)[A-Za-z0-9][A-Za-z0-9._:-]{0,79}", re.IGNORECASE)
"""A model's name; never a path, nor a file of prices."""


def views() -> list[View]:
    """A page of prices, a model behind them, caches, agents."""
    return [
        View(
            name="page",
            title="A price page",
            about="Ratios that carry information, and what each implies.",
            inputs=PageInputs,
            answer=page,
            heavy=True,
        ),
        View(
            name="decode",
            title="A model behind its price",
            about="What prices say of its size, and what they cannot.",
            inputs=DecodeInputs,
            answer=decode,
        ),
        View(
            name="cache",
            title="Where a cache waits",
            about="Tier by tier, against the time that it waits.",
            inputs=CacheInputs,
            answer=cache,
            uploads="config",
        ),
        View(
            name="agent",
            title="An agent's day",
            about="Sessions whose context grows, and what saves most.",
            inputs=AgentInputs,
            answer=agent,
        ),
    ]
