"""Simulate: a trace or made-up traffic through a fleet, over time."""

from __future__ import annotations

from typing import Any, Literal

from rackmath.api.simulation.request import SimulateRequest
from rackmath.cli.simulate_text import QUANTITIES, goodput_pairs, load_text
from rackmath.errors import InputError
from rackmath.serving.simulator.settings import POLICIES, ROUTERS
from rackmath.units import show
from rackmath.web import uploads
from rackmath.web.inputs import Model, OtherEngineInputs, System, asking, choice, named, number, slider, text, values_of
from rackmath.web.shown import PageContent, Table, View, answered, drawn

_ROUTERS = tuple(ROUTERS)
_POLICIES = tuple(POLICIES)


@asking(SimulateRequest, aliases={"rate": "poisson"})
class SimulateInputs(OtherEngineInputs):
    """A fleet and what it is asked."""

    model: Model = named("llama-3.1-8b", "model", "model")
    on: System = named("h100-sxm", "system", "system")
    gpus: float = slider(2, 1, 64, "accelerators", whole=True)
    layout: str = text("", "layout of one copy, or the smallest", hint="tp2")
    trace: str = text("", "a trace that was sent", hint="upload-...")
    rate: float = slider(12.0, 0.01, 1000, "requests per second, without a trace")
    requests: float = slider(4000, 10, 50_000, "requests", whole=True)
    input: float = slider(1000, 1, 100_000, "tokens of a prompt", whole=True)
    output: float = slider(200, 1, 20_000, "tokens of an answer", whole=True)
    spread: float = slider(0.5, 0, 3, "spread of lengths over their mean", log=False)
    burst: float = slider(1.0, 0, 8, "spread of gaps over their mean", log=False)
    turns: float = slider(1, 1, 20, "turns of a session", log=False, whole=True)
    policy: Literal[_POLICIES] = choice("chunked", "policy")  # type: ignore[valid-type]
    router: Literal[_ROUTERS] = choice("least-loaded", "router")  # type: ignore[valid-type]
    tiers: str = text("", "prefix cache, or what memory leaves", hint="hbm=shared,ddr5=1TB")
    seats: float = slider(256, 1, 1024, "sequences of a replica", whole=True)
    prefill_gpus: float | None = number(None, 1, 63, "of them read only")
    mtbf: float | None = number(None, 10, 1e7, "mean time between failures", unit="s")
    ttft: float | None = number(0.5, 0.001, 600, "limit of the time to the first token", unit="s")
    tpot: float | None = number(0.03, 0.001, 10, "limit of the time per token", unit="s")
    seed: float = slider(0, 0, 1000, "seed", log=False, whole=True)


def simulate(i: SimulateInputs) -> PageContent:
    """Percentiles, queues and tiers."""
    values = values_of(
        i,
        "model",
        "on",
        "gpus",
        "layout",
        "policy",
        "router",
        "tiers",
        "prefill_gpus",
        "mtbf",
        "ttft",
        "tpot",
        "seats",
        "seed",
    )
    if i.trace:
        if not uploads.is_upload(i.trace):
            raise InputError("trace", i.trace, "send the file; a path is not read")
        values |= values_of(i, "trace", requests="limit")
    else:
        values |= values_of(i, "requests", "input", "output", "burst", "turns", "rate")
        # Sessions grow by turns of one length.
        values |= {"think_time": 10.0} if i.turns > 1 else values_of(i, "spread")
    answer = answered("simulate", SimulateRequest(**values))
    f = answer.facts
    rows = [
        (name, *(show(f[key][p], "s") for p in ("mean", "p50", "p90", "p99")), _interval(f[key]))
        for key, name in QUANTITIES
        if f[key] is not None
    ]
    pairs = [
        ("replicas", ", ".join(f"{n} of {text}" for n, text in zip(f["replicas"], f["layout"], strict=True))),
        ("load", load_text(f)),
        ("throughput", f"{f['throughput']:,.0f} tokens/s while requests arrive"),
        *goodput_pairs(f),
        ("busy", f"{f['utilisation']:.0%} of the time, mean batch {f['mean_batch']:.1f}"),
        ("cost", _cost(f)),
    ]
    if f["blocks_asked"]:
        hits = ", ".join(
            f"{name} {share:.1%} ({show(f['tier_bytes'][name], 'B')})" for name, share in f["hit_rate"].items()
        )
        pairs.append(("prefix blocks found, and kept on average", hits))
    return PageContent(
        figures=drawn(answer.result.picture()),
        pairs=pairs,
        tables=[
            Table(title="what users see", columns=["", ">mean", ">p50", ">p90", ">p99", ">95 % of p99"], rows=rows)
        ],
        facts=f,
        command=answer.command,
        python=answer.python,
        notes=f["assumptions"],
    )


def _interval(facts: dict[str, Any]) -> str:
    low, high = facts["confidence"]["p99"]
    return f"{show(low, 's')} to {show(high, 's')}"


def _cost(f: dict[str, Any]) -> str:
    dollars = f["usd_per_million_tokens"]
    return "no price is known" if dollars is None else f"{dollars:.3g} $ per million tokens written"


def views() -> list[View]:
    """One: a fleet."""
    return [
        View(
            name="simulate",
            title="A fleet",
            about="Event by event: percentiles, queues, prefix tiers.",
            inputs=SimulateInputs,
            answer=simulate,
            heavy=True,
            uploads="trace",
        ),
    ]
