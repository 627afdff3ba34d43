"""``traffic``: a trace as a small model, from which traffic like it is drawn."""

from __future__ import annotations

from pathlib import Path

import click

from rackmath.api.traffic import TrafficFitRequest, TrafficFitResult, run_traffic_fit
from rackmath.cli import render
from rackmath.cli.options import request_options
from rackmath.units import show


@click.group(epilog="Example: rackmath traffic fit trace.csv --out traffic.toml")
def traffic() -> None:
    """Make a trace a small model, from which simulate draws as many requests as are asked for."""


@traffic.command(epilog="Example: rackmath traffic fit trace.csv --out traffic.toml")
@request_options(TrafficFitRequest)
@click.option("--out", metavar="FILE.toml", help="Write the model, which simulate --trace takes.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def fit(request: TrafficFitRequest, out: str | None, as_json: bool) -> None:
    """Fit rate over time, bursts, classes of lengths and reuse of prefixes, and say how close the model is.

    TRACE is what simulate --trace reads: Azure's, Mooncake's and BurstGPT's files, results of load generators, tables.
    """
    render.show_progress("fitting classes of lengths")
    result = run_traffic_fit(request)
    if out is not None:
        result.write(Path(out), "--out")
    if as_json:
        render.show_json(result.to_dict())
        return
    _show(result, out)


def _show(result: TrafficFitResult, out: str | None) -> None:
    model = result.model
    render.show_table(
        f"{result.title}: {len(result.trace):,} requests, {model.rate:.4g} per second",
        ["class", ">share", ">prompt", ">spread", ">answer", ">spread", ">correlation"],
        [
            (
                str(k),
                f"{group.share:.1%}",
                f"{group.input:,.0f}",
                f"{group.input_spread:.2g}",
                f"{group.output:,.0f}",
                f"{group.output_spread:.2g}",
                f"{group.correlation:.2f}",
            )
            for k, group in enumerate(model.classes, 1)
        ],
    )
    render.show_table(
        "as many requests drawn from the model, beside the trace",
        ["", ">mean", ">drawn", ">deviation", ">drawn", ">furthest apart", ">chance alone"],
        [
            (
                entry.name,
                *(f"{value:.4g}" for value in (*entry.mean, *entry.deviation)),
                f"{entry.distance:.1%}",
                f"{entry.critical:.1%}",
            )
            for entry in result.closeness
        ],
    )
    lines = [
        f"the rate repeats after {show(model.period, 's')}, told in {len(model.profile)} parts",
        "furthest apart: largest difference of the two distributions (Kolmogorov-Smirnov); 5 % of samples of one "
        "distribution are further apart than chance alone",
    ]
    if result.known_share is not None:
        lines.append("an unbounded cache knows {:.1%} of the prefix blocks, {:.1%} drawn".format(*result.known_share))
    if out is not None:
        lines.append(f"written to {out}: rackmath simulate MODEL --on SYSTEM --gpus N --trace {out} --requests N")
    render.show_lines("", [*result.notes, *lines])
