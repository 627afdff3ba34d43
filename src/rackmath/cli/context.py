"""``context``: what an output token costs against the context it sees."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from rackmath import catalogue, constants_file
from rackmath.cli import render
from rackmath.cli.figures import save
from rackmath.cli.quantities import NUMBER, SECONDS, Whole
from rackmath.constants_file import DEFAULT_ENGINE, FAMILIES, NOW
from rackmath.engine import Losses, estimate
from rackmath.engine.layout import candidate_layouts, stack_layouts
from rackmath.errors import DoesNotFit, InputError
from rackmath.figures import Figure, Panel, Series
from rackmath.figures.write import check_picture
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.serving.contexts import ContextCost, cost_against_context
from rackmath.serving.points import Array
from rackmath.serving.token_costs import reading
from rackmath.units import show


@click.command(
    epilog="Example: rackmath context llama-3.1-70b,deepseek-v3,deepseek-v3.2 --on gb200-nvl72 --gpus 8 --to 1e7"
)
@click.argument("models", metavar="MODEL[,MODEL...]")
@click.option("--on", "on", required=True, metavar="SYSTEM", help="Catalogue name, or path of a TOML file.")
@click.option("--gpus", type=Whole(1, 100_000), required=True, help="Accelerators.")
@click.option("--to", type=NUMBER, default=1e8, show_default=True, help="Longest context, in tokens.")
@click.option(
    "--slowest", type=SECONDS, default=0.1, show_default=True, help="Time per token still served, in seconds."
)
@click.option("--engine", type=click.Choice(FAMILIES), default=DEFAULT_ENGINE, show_default=True)
@click.option("--year", type=NUMBER, default=NOW, show_default=True, help="When the engine's version is from.")
@click.option("--usd-per-gpu-hour", type=NUMBER, help="Price of one accelerator, if not the catalogue's.")
@click.option("--ideal", is_flag=True, help="The pure bound, without an engine's losses.")
@click.option("--plot", metavar="FILE", help="Draw the curves: FILE.html, FILE.png or FILE.svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def context(
    models: str,
    on: str,
    gpus: int,
    to: float,
    slowest: float,
    engine: str,
    year: float,
    usd_per_gpu_hour: float | None,
    ideal: bool,
    plot: str | None,
    as_json: bool,
) -> None:
    """Cost of an output token against the context it sees, and where each model stops being servable."""
    drawn = check_picture(plot)
    system = catalogue.system(on)
    if not 2000 <= to <= 1e10:
        raise InputError("--to", to, "write a number of tokens from 2000 to 1e10")
    price = catalogue.price_of(system, usd_per_gpu_hour)
    version = constants_file.engine_of(system, engine, year)
    losses, reads = (
        None if ideal else constants_file.losses_of(system, version, kind) for kind in ("time per token", "prompt pass")
    )
    contexts = np.geomspace(1000, to, 4 * int(np.ceil(np.log10(to / 1000))) + 1)
    facts = [
        _model_facts(catalogue.model(name), name, system, gpus, contexts, slowest, losses, reads, price)
        for name in models.split(",")
    ]
    if drawn is not None:
        save(_context_figure(system, gpus, facts, price), drawn)
    if as_json:
        render.show_json(facts)
        return
    _show_context(system, gpus, facts, contexts, price, slowest)
    render.show_sketch(_context_figure(system, gpus, facts, price))


def _model_facts(
    model: Architecture,
    name: str,
    system: System,
    gpus: int,
    contexts: Array,
    slowest: float,
    losses: Losses | None,
    reads: Losses | None,
    price: float | None,
) -> dict[str, Any]:
    """Writing at every context and reading a prompt of that length; or why the model cannot."""
    try:
        curve = cost_against_context(model, system, gpus, contexts, slowest=slowest, losses=losses)
    except DoesNotFit as error:
        return {"model": name, "contexts": contexts, "fits": False, "reason": str(error), "warnings": []}
    layouts = list(candidate_layouts(model, gpus))
    read = estimate(
        model, system, stack_layouts(layouts, 2), batch=1.0, context=contexts, phase="prefill", losses=reads
    )
    usable = np.where(np.isnan(curve.gpu_seconds) | ~np.asarray(read.memory.fits).any(axis=0), np.nan, 1.0)
    quickest = np.where(np.asarray(read.memory.fits), np.asarray(read.time), np.inf).min(axis=0)
    busy = reading(model, system, layouts, contexts[:1], np.ones(1), losses=reads).layout
    wide = estimate(model, system, busy, batch=float(busy.data), context=contexts, phase="prefill", losses=reads)
    spent = np.asarray(wide.time) * float(busy.gpus) / float(busy.data)
    return _context_facts(name, curve, price) | {
        "fits": True,
        "reason": "",
        "read_time": quickest * usable,
        "read_cost": spent * usable * (1.0 if price is None else price),
        "trained_to": model.max_context,
        "warnings": _beyond(name, model.max_context, contexts),
    }


def _beyond(name: str, trained: int | None, contexts: Array) -> list[str]:
    if trained is None or contexts[-1] <= trained:
        return []
    return [f"{name} was trained for {trained:,} tokens: beyond them it computes, and nobody knows how well it answers"]


def _context_facts(name: str, curve: ContextCost, price: float | None) -> dict[str, Any]:
    cost = curve.gpu_seconds if price is None else curve.gpu_seconds * price * 1e6
    doubled = np.flatnonzero(cost >= 2 * cost[0])
    return {
        "model": name,
        "contexts": curve.contexts,
        "cost": cost,
        "batch": curve.batch,
        "layout": list(curve.layout),
        "time": curve.time,
        "doubles_at": float(curve.contexts[doubled[0]]) if len(doubled) else None,
        "servable_to": curve.servable_to,
        "stopped_by": curve.stopped_by,
    }


def _show_context(
    system: System, gpus: int, facts: list[dict[str, Any]], contexts: Any, price: float | None, slowest: float
) -> None:
    unit = "GPU-s per token" if price is None else "$ per million output tokens"
    decades = [i for i in range(len(contexts)) if i % 4 == 0]
    render.show_table(
        f"{unit} on {gpus} x {system.chip.name}, at most {show(slowest, 's')} per token, cheapest layout and batch",
        ["model", *(f">{show(float(contexts[i]))}" for i in decades), ">doubles at", ">servable to", "stopped by"],
        [
            (
                f["model"],
                *("-" if np.isnan(f["cost"][i]) else f"{f['cost'][i]:.3g}" for i in decades),
                "-" if f["doubles_at"] is None else show(f["doubles_at"]),
                f"beyond {show(float(contexts[-1]))}" if np.isinf(f["servable_to"]) else show(f["servable_to"]),
                f["stopped_by"] or "-",
            )
            for f in facts
            if f["fits"]
        ]
        + [(f["model"], *("-" for _ in decades), "-", "does not fit", "memory") for f in facts if not f["fits"]],
    )
    render.show_table(
        "reading a prompt of that length, alone: time" + (" and GPU-s" if price is None else " and $ per prompt"),
        ["model", *(f">{show(float(contexts[i]))}" for i in decades)],
        [
            (f["model"], *(_read_text(f["read_time"][i], f["read_cost"][i]) for i in decades))
            for f in facts
            if f["fits"]
        ],
    )
    render.show_lines("do not fit", (f["reason"] for f in facts if not f["fits"]))
    render.show_lines("WARNING", (text for f in facts for text in f["warnings"]))


def _read_text(seconds: float, cost: float) -> str:
    return "-" if np.isnan(seconds) else f"{show(float(seconds), 's')} {cost:.2g}"


def _context_figure(system: System, gpus: int, facts: list[dict[str, Any]], price: float | None) -> Figure:
    series: list[Series] = []
    for f in facts:
        if not f["fits"]:
            continue
        shown = ~np.isnan(f["cost"])
        series.append(Series(name=f["model"], x=list(f["contexts"][shown]), y=list(f["cost"][shown])))
    return Figure(
        title=f"cost of an output token against context, {gpus} x {system.chip.name}",
        panels=[
            Panel(
                across="tokens of context",
                up="GPU-seconds per token" if price is None else "$ per million output tokens",
                series=series,
                log_across=True,
                log_up=True,
            )
        ],
        note="cheapest layout and batch at each context; a line ends where the model stops being servable",
    )
