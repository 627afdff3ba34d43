"""``racks`` and ``context``: what fits where at what latency, and what a long context costs."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from rackmath import catalogue, constants_file
from rackmath.cli import render
from rackmath.cli.figures import Figure, Panel, Series, check_picture, save
from rackmath.constants_file import FAMILIES, NOW
from rackmath.engine import Losses
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.models.formats import weight_format
from rackmath.serving.contexts import ContextCost, cost_against_context
from rackmath.serving.racks import domain_fits, domain_of, half_memory, largest_model, pipelined, slowdown_over
from rackmath.sweeps.asked import numbers
from rackmath.units import show

DOMAINS = "h100-sxm,gb200-nvl72,vr200-nvl72,rubin-ultra-nvl144"
"""Hopper 8, Blackwell 72, Rubin 72, Rubin Ultra 144 packages."""


@click.command(epilog="Example: rackmath racks --on h100-sxm,gb200-nvl72")
@click.option("--on", "on", default=DOMAINS, show_default=True, metavar="SYSTEM[,SYSTEM...]", help="Catalogue names.")
@click.option("--domain", help="Hypothetical domains of the first system, such as 16,256.")
@click.option("--sizes", default="0.1,0.3,1,2,5,10,20", show_default=True, help="Trillions of parameters.")
@click.option("--sparsity", default="1,8,32,128", show_default=True, help="Total over active parameters.")
@click.option("--weights", default="fp8", show_default=True, help="Format of the weights.")
@click.option("--context", type=float, default=8192.0, show_default=True, help="Tokens of a request.")
@click.option("--kv-bytes", type=float, default=70_000.0, show_default=True, help="Cache bytes per token.")
@click.option("--plot", metavar="FILE", help="Draw the chart: FILE.html, FILE.png or FILE.svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def racks(
    on: str,
    domain: str | None,
    sizes: str,
    sparsity: str,
    weights: str,
    context: float,
    kv_bytes: float,
    plot: str | None,
    as_json: bool,
) -> None:
    """Say which models fit which scale-up domain, at what latency, and what leaving it costs.

    All numbers are the ideal bound: nothing is lost.
    """
    drawn = check_picture(plot)
    form = weight_format(weights)
    if not 0 < context <= 1e9 or not 0 <= kv_bytes <= 1e9:
        raise InputError("--context", context, "write positive numbers of tokens and bytes, at most 1e9")
    systems = [catalogue.system(name) for name in on.split(",")]
    systems += [domain_of(systems[0], int(n)) for n in numbers(domain, "--domain", 1, 1e6)]
    trillions = [n * 1e12 for n in numbers(sizes, "--sizes", 1e-6, 1e6)]
    sparsities = numbers(sparsity, "--sparsity", 1, 1e6)
    facts: list[dict[str, Any]] = []
    for system in systems:
        fits = domain_fits(system, trillions, sparsities, form, context=context, kv_bytes_per_token=kv_bytes)
        facts.append(
            {
                "system": system.name,
                "domain": system.domain,
                "year": system.chip.year,
                "memory": system.domain_capacity,
                "largest_params": largest_model(system, form),
                "drain_time": system.chip.memory_capacity / system.chip.memory_bandwidth,
                "models": fits,
                **_network(system),
                **_halved(system, largest_model(system, form)),
            }
        )
    if drawn is not None:
        save(_rack_figure(systems, facts, form.name), drawn)
    if as_json:
        render.show_json(facts)
        return
    _show_racks(facts, form.name)


def _network(system: System) -> dict[str, Any]:
    """Two racks and pipelines, where there are two networks."""
    ratio = system.network_ratio
    if ratio is None:
        return {"network_ratio": None, "two_racks_slowdown": None, "pipeline_ratio": None}
    return {
        "network_ratio": ratio,
        "two_racks_slowdown": float(slowdown_over(2.0, system)),
        # Scale-up over scale-out time of a stage of one layer with 8 active experts.
        "pipeline_ratio": 8 * 2 / ratio,
    }


def _halved(system: System, params: float) -> dict[str, Any]:
    """A model that fills half a domain, on chips with half the memory in two stages."""
    if system.scale_out is None:
        return {"half_memory_time": None, "whole_memory_time": None}
    form = weight_format("fp8")
    whole = pipelined(system, params, params / 32, form, 1.0)
    half = pipelined(half_memory(system), params, params / 32, form, 2.0)
    return {
        "whole_memory_time": float(whole.time),
        "half_memory_time": float(half.time),
        "half_memory_fits": bool(half.memory.fits),
    }


def _show_racks(facts: list[dict[str, Any]], form: str) -> None:
    for f in facts:
        render.show_table(
            f"{f['system']}: {f['domain']} accelerators, {show(f['memory'], 'B')} read in {show(f['drain_time'], 's')}",
            [">params", ">sparsity", "fits", ">weights", ">alone", ">full", ">requests", ">tok/s/GPU"],
            [
                (
                    f"{m.total_params / 1e12:g} T",
                    f"{m.sparsity:g}",
                    "yes" if m.fits else "no",
                    f"{m.share:.0%}",
                    show(m.alone, "s") if m.fits else "-",
                    show(m.full, "s") if m.fits else "-",
                    f"{m.batch:,.0f}" if m.fits else "-",
                    f"{m.per_gpu:,.0f}" if m.fits else "-",
                )
                for m in f["models"]
            ],
        )
    render.show_table(
        f"what racks allow ({form} weights in half of the memory)",
        [
            "system",
            ">year",
            ">domain",
            ">largest",
            ">read once",
            ">r",
            ">2 racks x",
            ">pipeline",
            ">half HBM, 2 stages",
        ],
        [
            (
                f["system"],
                f["year"],
                f["domain"],
                f"{f['largest_params'] / 1e12:.2g} T",
                show(f["drain_time"], "s"),
                "-" if f["network_ratio"] is None else f"{f['network_ratio']:.3g}",
                "-" if f["two_racks_slowdown"] is None else f"{f['two_racks_slowdown']:.2g}",
                "-" if f["pipeline_ratio"] is None else f"{f['pipeline_ratio']:.2g}",
                "-"
                if f["half_memory_time"] is None
                else f"{f['half_memory_time'] / f['whole_memory_time']:.3f} x the latency",
            )
            for f in facts
        ],
    )
    render.show_lines(
        "read as",
        (
            "alone: one user; full: memory full of requests; both the ideal bound, everything divided evenly",
            "2 racks: an expert layer over two domains takes so many times the time of one",
            "pipeline: scale-up over scale-out time of a stage of one layer, 8 active experts; at least 1 is free",
            "half HBM: the largest model at sparsity 32 on twice the chips with half the memory, in two stages",
        ),
    )


def _rack_figure(systems: list[System], facts: list[dict[str, Any]], form: str) -> Figure:
    """Time per token against size, each line as long as the domain's memory."""
    series: list[Series] = []
    for colour, (system, f) in enumerate(zip(systems, facts, strict=True)):
        most = f["memory"] / weight_format(form).bytes_per_element
        sizes = np.geomspace(1e11, max(most, 1.1e11), 60)
        fits = domain_fits(system, list(sizes), [1.0], weight_format(form))
        shown = [m for m in fits if m.fits]
        series.append(
            Series(
                name=f"{f['system']} ({f['year']})",
                x=[m.total_params / 1e12 for m in shown],
                y=[m.alone * 1e3 for m in shown],
                colour=colour,
            )
        )
        if shown:
            last = shown[-1]
            series.append(
                Series(
                    name=f"memory of {f['system']} is full",
                    x=[last.total_params / 1e12],
                    y=[last.alone * 1e3],
                    kind="points",
                    colour=colour,
                    named=False,
                    labels=[f"{last.total_params / 1e12:,.1f} T"],
                )
            )
    return Figure(
        title=f"models stalled until racks grew: reading all weights once ({form})",
        panels=[
            Panel(
                across="trillions of parameters",
                up="time to read them all [ms]",
                series=series,
                log_across=True,
                log_up=True,
                show_labels=True,
            )
        ],
        note="one scale-up domain each; ideal bound; a line ends where the memory of its domain is full",
    )


@click.command(
    epilog="Example: rackmath context llama-3.1-70b,deepseek-v3,deepseek-v3.2 --on gb200-nvl72 --gpus 8 --to 1e7"
)
@click.argument("models", metavar="MODEL[,MODEL...]")
@click.option("--on", "on", required=True, metavar="SYSTEM", help="Catalogue name, or path of a TOML file.")
@click.option("--gpus", type=click.IntRange(1, 100_000), required=True, help="Accelerators.")
@click.option("--to", type=float, default=1e8, show_default=True, help="Longest context, in tokens.")
@click.option("--slowest", type=float, default=0.1, show_default=True, help="Time per token still served, in seconds.")
@click.option("--engine", type=click.Choice(FAMILIES), default="vllm", show_default=True)
@click.option("--year", type=float, default=NOW, show_default=True, help="When the engine's version is from.")
@click.option("--usd-per-gpu-hour", type=float, help="Price of one accelerator, if not the catalogue's.")
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
    losses: Losses | None = None
    if not ideal:
        losses = constants_file.losses_of(system, constants_file.engine_of(system, engine, year), "time per token")
    contexts = np.geomspace(1000, to, 4 * int(np.ceil(np.log10(to / 1000))) + 1)
    found = {
        name: cost_against_context(catalogue.model(name), system, gpus, contexts, slowest=slowest, losses=losses)
        for name in models.split(",")
    }
    facts = [_context_facts(name, curve, price) for name, curve in found.items()]
    if drawn is not None:
        save(_context_figure(system, gpus, facts, price), drawn)
    if as_json:
        render.show_json(facts)
        return
    _show_context(system, gpus, facts, contexts, price, slowest)


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
        ],
    )


def _context_figure(system: System, gpus: int, facts: list[dict[str, Any]], price: float | None) -> Figure:
    series: list[Series] = []
    for f in facts:
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
