"""``fit``: which models fit, and how fast each writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import click

from rackmath.api.fit import run_fit
from rackmath.api.fit_request import FitRequest
from rackmath.api.fit_table import speed_table, speed_text
from rackmath.cli import render
from rackmath.cli.options import request_options
from rackmath.cli.quantities import WholeNumber
from rackmath.cli.split_text import show_split
from rackmath.figures.write import check_picture, write_figure
from rackmath.hardware import System
from rackmath.units import show


@click.command(epilog="Example: rackmath fit --on rtx-4090 --context 32k --tpot 50ms")
@request_options(FitRequest)
@click.option("--limit", type=WholeNumber(0), default=25, show_default=True, help="Lines to show; 0 shows all.")
@click.option("--plot", metavar="FILE", help="Draw speed against size: FILE.html, FILE.png or FILE.svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def fit(request: FitRequest, limit: int, plot: str | None, as_json: bool) -> None:
    """List every model that fits, largest first, with its speed in each format that fits and the range of that.

    With --models each format has a line of its own, fastest first, with its 90 % range and memory, as --json has of
    all. With --host-memory what does not fit may stand in the host's memory: experts of the last layers first, then
    whole layers. With --card the machine holds unlike accelerators; of one model in one format the layers of each are
    shown.
    """
    picture = check_picture(plot)
    result = run_fit(request, render.show_progress)
    if picture is not None:
        write_figure(result.picture(), picture)
    if as_json:
        render.show_json(result.facts)
        return
    _show(request, result.facts, limit, *result.details)


def _show(
    r: FitRequest,
    rows: Sequence[Mapping[str, Any]],
    limit: int,
    system: System,
    engine: str,
    left_out: Sequence[Mapping[str, str]],
    notes: Sequence[str],
) -> None:
    gpus = r.gpus or system.default_gpus
    beside = "".join(f" and {card}" for card in r.card)
    title = f"what fits on {gpus} x {system.chip.name}{beside} with {engine}, at {r.context:,.0f} tokens"
    render.show_lines(title, _sentences(r, rows))
    if rows and r.models is None:
        _show_models(r, rows, limit)
    elif rows:
        first_rows = rows if limit == 0 else rows[:limit]
        render.show_table(
            ""
            if len(first_rows) == len(rows)
            else f"the fastest {len(first_rows)} of {len(rows)}: --limit 0 shows all",
            [
                "model",
                "weights",
                ">tokens/s",
                ">90 % range",
                ">memory each",
                *([">on the host", "moved"] if r.host_memory else []),
                *(["layout"] if gpus > 1 or r.card else []),
                "evidence",
            ],
            [_line(r, row, gpus) for row in first_rows],
        )
    if r.card and len(rows) == 1:
        show_split(rows[0]["split"])
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for entry in left_out:
        reasons[entry["reason"]].append(entry["model"])
    render.show_lines("left out", (f"{reason}: {_some(names)}" for reason, names in sorted(reasons.items())))
    render.show_lines("assumed", notes)


def _show_models(r: FitRequest, rows: Sequence[Mapping[str, Any]], limit: int) -> None:
    """A line for each model, a column for each format."""
    table = speed_table(rows, limit)
    host = " *: a part of the weights stands on the host." if r.host_memory else ""
    slow = "does not fit" if r.tpot is None else "does not fit, or is slower than asked"
    render.show_table(
        table.title,
        table.columns,
        table.lines,
        f"{'' if table.whole else '--limit 0 shows all. '}-: {slow}.{host} The range is a factor on every speed of its "
        "line; --models NAME shows each speed by itself, with its memory.",
    )


def _sentences(r: FitRequest, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return ["Nothing does: take more accelerators, narrower formats, a shorter context, or --host-memory."]
    models = {row["model"] for row in rows}
    largest = max(rows, key=lambda row: (row["total_params"], row["tokens_per_second"]))
    return [
        f"Models that fit: {len(models)}; with each format counted: {len(rows)}.",
        f"Fastest: {_named(rows[0])}. Largest: {_named(largest)}, {show(largest['total_params'])} parameters.",
    ]


def _named(row: Mapping[str, Any]) -> str:
    return f"{row['model']} in {row['weights']} at {speed_text(row['tokens_per_second'])} tokens/s"


def _line(r: FitRequest, row: Mapping[str, Any], gpus: int) -> list[str]:
    low, high = r.batch / row["time_high"], r.batch / row["time_low"]
    offload_cells = (
        [show(row["offloaded_bytes"], "B") if row["offloaded_bytes"] else "-", _moved(row)] if r.host_memory else []
    )
    return [
        row["model"],
        row["weights"],
        speed_text(row["tokens_per_second"]),
        f"{speed_text(low)} to {speed_text(high)}",
        show(row["memory"], "B"),
        *offload_cells,
        *([row["layout"]] if gpus > 1 or r.card else []),
        row["evidence"] or "-",
    ]


def _moved(row: Mapping[str, Any]) -> str:
    parts = [(row["offloaded_expert_layers"], "experts of {} layers"), (row["offloaded_layers"], "{} layers")]
    return ", ".join(text.format(count) for count, text in parts if count)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 8 else f"{', '.join(names[:8])} and {len(names) - 8} more"
