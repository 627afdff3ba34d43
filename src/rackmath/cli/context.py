"""``context``: what an output token costs against the context it sees."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from rackmath.api.context import ContextRequest, run_context
from rackmath.api.study_summaries import context_summary
from rackmath.cli import render
from rackmath.cli.options import request_options
from rackmath.figures.write import check_picture, write_figure
from rackmath.hardware import System
from rackmath.units import show


@click.command(
    epilog="Example: rackmath lecture context llama-3.1-70b,deepseek-v3,deepseek-v3.2 --on gb200-nvl72 --gpus 8 "
    "--to 1e7"
)
@request_options(ContextRequest)
@click.option("--plot", metavar="FILE", help="Draw the curves: FILE.html, FILE.png or FILE.svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def context(request: ContextRequest, plot: str | None, as_json: bool) -> None:
    """Cost of an output token against the context it sees, and where each model stops being servable."""
    picture = check_picture(plot)
    result = run_context(request)
    if picture is not None:
        write_figure(result.picture(), picture)
    if as_json:
        render.show_json(result.facts)
        return
    _show_context(*result.details)
    render.show_sketch(result.picture())


def _show_context(
    system: System, gpus: int, facts: list[dict[str, Any]], contexts: Any, price: float | None, slowest: float
) -> None:
    render.show_lines("in short", context_summary(facts, price))
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
    with_energy = [f for f in facts if f["fits"] and f["joules_per_token"] is not None]
    if with_energy:
        render.show_table(
            "energy of an output token, accelerators alone, J",
            ["model", *(f">{show(float(contexts[i]))}" for i in decades)],
            [(f["model"], *(_joules(f["joules_per_token"][i]) for i in decades)) for f in with_energy],
        )
    render.show_lines("do not fit", (f["reason"] for f in facts if not f["fits"]))
    render.show_lines("WARNING", (text for f in facts for text in f["warnings"]))


def _joules(energy: float) -> str:
    return "-" if np.isnan(energy) else f"{energy:.3g}"


def _read_text(seconds: float, cost: float) -> str:
    return "-" if np.isnan(seconds) else f"{show(float(seconds), 's')} {cost:.2g}"
