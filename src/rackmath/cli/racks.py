"""``racks``: what fits in which scale-up domain, at what latency."""

from __future__ import annotations

from typing import Any

import click

from rackmath.api.racks import RacksRequest, run_racks
from rackmath.cli import render
from rackmath.cli.options import request_options
from rackmath.figures.write import check_picture, write_figure
from rackmath.units import show


@click.command(epilog="Example: rackmath lecture racks --on h100-sxm,gb200-nvl72")
@request_options(RacksRequest)
@click.option("--plot", metavar="FILE", help="Draw the chart: FILE.html, FILE.png or FILE.svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def racks(request: RacksRequest, plot: str | None, as_json: bool) -> None:
    """Say which models fit which scale-up domain, at what latency, and what leaving it costs.

    All numbers are the ideal bound: nothing is lost.
    """
    picture = check_picture(plot)
    result = run_racks(request)
    if picture is not None:
        write_figure(result.picture(), picture)
    if as_json:
        render.show_json(result.facts)
        return
    _show_racks(result.facts, result.details)


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
