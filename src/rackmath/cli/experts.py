"""``experts``: a mixture's experts on the accelerators of a rack, with copies."""

from __future__ import annotations

from typing import Any

import click

from rackmath.api.experts import ExpertsRequest, run_experts
from rackmath.api.study_summaries import experts_summary
from rackmath.cli import render
from rackmath.cli.options import request_options
from rackmath.figures.write import check_picture, write_figure
from rackmath.serving.placement import Placement
from rackmath.units import show

_ONE_COLUMN, _MOST_LINES = 16, 24
"""Accelerators that are listed below each other; lines of the table at most."""


@click.command(epilog="Example: rackmath lecture experts deepseek-v3 --on gb200-nvl72")
@request_options(ExpertsRequest)
@click.option("--plot", metavar="FILE", help="Draw it: FILE.html, FILE.png or FILE.svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def experts(request: ExpertsRequest, plot: str | None, as_json: bool) -> None:
    """Lay the routed experts of a mixture out on accelerators, with copies where their number does not divide.

    MODEL is a catalogue name, a path to a config.json, or a folder that holds one. With --expert-skew or --expert-load
    copies go to the experts that most tokens want, as engines move them while they serve (EPLB).
    """
    picture = check_picture(plot)
    result = run_experts(request)
    if picture is not None:
        write_figure(result.picture(), picture)
    if as_json:
        render.show_json(result.facts)
        return
    _show(result.facts, result.details)


def _show(f: dict[str, Any], placement: Placement) -> None:
    title = f"{f['experts']} experts of {f['model']} on {f['ranks']} accelerators of {f['system']}"
    render.show_lines(title, experts_summary(f))
    render.show_pairs(
        "each accelerator",
        [
            ("experts", f"{f['experts_per_rank']} of each of {f['layers']} layers"),
            ("weights", f"{show(f['bytes_per_rank'], 'B')}, {f['memory_share']:.0%} of its memory"),
            (
                "copies",
                f"{f['redundant']} redundant experts in all, {show(f['redundant_bytes'], 'B')} more",
            ),
            (
                "load",
                f"at most {f['heaviest_load']:.3f} times the mean's"
                + ("" if f["placements"] else ", if experts are chosen equally often"),
            ),
            *(
                [("rebalancing", _rebalancing(f["rebalancing"], f["rebalanced_every"]))]
                if f["placements"] and f["rebalancing"] is not None
                else []
            ),
        ],
    )
    if f["placements"]:
        render.show_table(
            "tokens of the fullest accelerator, over the mean",
            ["placed", ">copies", ">fullest"],
            [(way["placed"], str(way["redundant"]), f"{way['heaviest_load']:.3f}") for way in f["placements"]],
        )
    rows = [_row(rank, experts, placement) for rank, experts in enumerate(placement.held)]
    across = 3 if len(rows) > _ONE_COLUMN else 1
    high = -(-len(rows) // across)
    render.show_table(
        "experts of each accelerator (*: another holds it too)",
        ["accelerator", "experts", "load"] * across,
        [[cell for row in rows[i::high] for cell in row] for i in range(min(high, _MOST_LINES))],
        "" if high <= _MOST_LINES else f"{_MOST_LINES} lines of {high}; --json has all",
    )
    if f["flags"]:
        render.show_lines("flags for these copies", [f"{engine}: {text}" for engine, text in f["flags"].items()])


def _rebalancing(seconds: float, interval: int) -> str:
    whole, part = show(seconds, "s"), show(seconds / interval, "s")
    return f"{whole} to move all of them over the network, {part} of each step if every {interval:,} steps"


def _row(rank: int, experts: Any, placement: Placement) -> tuple[str, str, str]:
    return str(rank), _named([int(e) for e in experts], placement.copies), f"{placement.load[rank]:.2f}"


def _named(experts: list[int], copies: Any) -> str:
    """Runs as 0-3; copied experts with a star."""
    runs: list[list[int]] = []
    for e in sorted(experts):
        if runs and e == runs[-1][-1] + 1 and (copies[e] > 1) == (copies[runs[-1][-1]] > 1):
            runs[-1].append(e)
        else:
            runs.append([e])
    return " ".join(
        (f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0])) + ("*" if copies[run[0]] > 1 else "") for run in runs
    )
