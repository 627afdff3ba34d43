"""``racks``: what fits in which scale-up domain, at what latency."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from rackmath import catalogue
from rackmath.api.lists import numbers
from rackmath.cli import render
from rackmath.cli.figures import save
from rackmath.cli.quantities import BYTES, NUMBER
from rackmath.errors import InputError
from rackmath.figures import Figure, Panel, Series
from rackmath.figures.write import check_picture
from rackmath.hardware import System
from rackmath.models.formats import weight_format
from rackmath.serving.racks import domain_fits, domain_of, half_memory, largest_model, pipelined, slowdown_over
from rackmath.units import show

DOMAINS = "h100-sxm,gb200-nvl72,vr200-nvl72,rubin-ultra-nvl144"
"""Hopper 8, Blackwell 72, Rubin 72, Rubin Ultra 144 packages."""


@click.command(epilog="Example: rackmath racks --on h100-sxm,gb200-nvl72")
@click.option("--on", "on", default=DOMAINS, show_default=True, metavar="SYSTEM[,SYSTEM...]", help="Catalogue names.")
@click.option("--domain", help="Hypothetical domains of the first system, such as 16,256.")
@click.option("--sizes", default="0.1,0.3,1,2,5,10,20", show_default=True, help="Trillions of parameters.")
@click.option("--sparsity", default="1,8,32,128", show_default=True, help="Total over active parameters.")
@click.option("--weights", default="fp8", show_default=True, help="Format of the weights.")
@click.option("--context", type=NUMBER, default=8192.0, show_default=True, help="Tokens of a request.")
@click.option("--kv-bytes", type=BYTES, default=70_000.0, show_default=True, help="Cache bytes per token.")
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
    if not 0 < context <= 1e9 or not 0 < kv_bytes <= 1e9:
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
