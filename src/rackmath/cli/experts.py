"""``experts``: a mixture's experts on the accelerators of a rack."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from rackmath.cli import render
from rackmath.cli.quantities import Whole
from rackmath.errors import InputError
from rackmath.figures import Figure, Panel, Series
from rackmath.figures.write import check_picture, write_figure
from rackmath.io import catalogue
from rackmath.models.architecture import Architecture, Experts
from rackmath.models.counts import weight_bytes
from rackmath.models.formats import weight_format
from rackmath.models.requantise import requantise
from rackmath.serving.launch import redundancy_flags
from rackmath.serving.placement import Placement, place
from rackmath.units import show

_ONE_COLUMN, _MOST_LINES = 16, 24
"""Accelerators that are listed below each other; lines of the table at most."""


@click.command(epilog="Example: rackmath lecture experts deepseek-v3 --on gb200-nvl72")
@click.argument("model", metavar="MODEL")
@click.option("--on", "on", required=True, metavar="SYSTEM", help="Catalogue name, or path of a TOML file.")
@click.option("--ranks", type=Whole(1, 100_000), help="Width of expert parallelism (default: one scale-up domain).")
@click.option(
    "--redundant",
    type=Whole(0, 10**6),
    help="Copies of experts beyond one of each (default: the fewest that divide).",
)
@click.option("--weights", help="Format of the weights: bf16, fp8, int4, nvfp4, ... (default: the config's).")
@click.option("--plot", metavar="FILE", help="Draw it: FILE.html, FILE.png or FILE.svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def experts(
    model: str,
    on: str,
    ranks: int | None,
    redundant: int | None,
    weights: str | None,
    plot: str | None,
    as_json: bool,
) -> None:
    """Lay the routed experts of a mixture out on accelerators, with copies where their number does not divide.

    MODEL is a catalogue name, a path to a config.json, or a folder that holds one. Experts that are chosen more often
    than others are not known here: engines move copies to them while they serve.
    """
    drawn = check_picture(plot)
    a = catalogue.model(model)
    if weights:
        a = requantise(a, weight_format(weights))
    system = catalogue.system(on)
    count, layers = _experts_of(a)
    placement = place(count, system.domain if ranks is None else ranks, redundant)
    size = weight_bytes(a)["experts"] / count
    facts = _facts(a, system.name, placement, layers, size, system.chip.memory_capacity)
    if drawn is not None:
        write_figure(_figure(facts, placement), drawn)
    if as_json:
        render.show_json(facts)
        return
    _show(facts, placement)


def _experts_of(a: Architecture) -> tuple[int, int]:
    """Routed experts of a layer, and layers that have them."""
    counts = [part.experts for layer in a.layers for part in layer.feed_forwards if isinstance(part, Experts)]
    if not counts:
        raise InputError("MODEL", a.name, "has no experts: name a mixture, such as deepseek-v3")
    if len(set(counts)) > 1:
        raise InputError(
            "MODEL",
            a.name,
            f"has layers of {', '.join(map(str, sorted(set(counts))))} experts: no one layout is theirs",
        )
    return counts[0], len(counts)


def _facts(
    a: Architecture, system: str, placement: Placement, layers: int, size: float, memory: float
) -> dict[str, Any]:
    places = placement.held.shape[1]
    return {
        "model": a.name,
        "system": system,
        "experts": len(placement.copies),
        "layers": layers,
        "ranks": len(placement.held),
        "experts_per_rank": places,
        "redundant": placement.redundant,
        "bytes_per_rank": places * size,
        "redundant_bytes": placement.redundant * size,
        "memory_share": places * size / memory,
        "heaviest_load": float(placement.load.max()),
        "held": placement.held,
        "copies": placement.copies,
        "flags": redundancy_flags(placement.redundant),
    }


def _show(f: dict[str, Any], placement: Placement) -> None:
    render.show_title(f"{f['experts']} experts of {f['model']} on {f['ranks']} accelerators of {f['system']}")
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
                f"at most {f['heaviest_load']:.3f} times the mean's, if experts are chosen equally often",
            ),
        ],
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


def _figure(f: dict[str, Any], placement: Placement) -> Figure:
    """Experts across, accelerators up; copied ones in a colour of their own."""
    rank = np.repeat(np.arange(len(placement.held)), placement.held.shape[1])
    expert = placement.held.ravel()
    copied = placement.copies[expert] > 1
    series = [
        Series(
            name=name,
            x=[float(e) for e in expert[chosen]],
            y=[float(r) for r in rank[chosen]],
            kind="points",
            labels=[f"expert {e} on accelerator {r}" for e, r in zip(expert[chosen], rank[chosen], strict=True)],
        )
        for name, chosen in (("on one accelerator", ~copied), ("copied", copied))
        if chosen.any()
    ]
    return Figure(
        title=f"{f['experts']} experts of {f['model']} on {f['ranks']} accelerators of {f['system']}",
        panels=[Panel(across="expert", up="accelerator", series=series)],
        note=f"{f['experts_per_rank']} experts of each of {f['layers']} layers on each; {f['redundant']} copies",
    )
