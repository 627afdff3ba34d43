"""``estimate``: one pass of a model on a system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from rackmath import catalogue
from rackmath.answers import Answer
from rackmath.answers import estimate as estimated
from rackmath.cli import render
from rackmath.cli.estimate_text import explain_estimate, longest_operators, show_estimate
from rackmath.cli.figures import save
from rackmath.cli.quantities import NUMBER, Whole
from rackmath.constants_file import DEFAULT_ENGINE, FAMILIES, NOW
from rackmath.engine import Estimate, Layout
from rackmath.engine import estimate as run
from rackmath.engine.capacity import largest_batch
from rackmath.figures import Figure, pictures
from rackmath.figures.write import check_picture
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.prices import usd_per_million_tokens

PICTURES = ("roofline", "batch", "memory")
"""What ``--plot`` draws: operators on the roofline, the lecture's two graphs, memory by kind."""


@click.command(epilog="Example: rackmath estimate deepseek-v3 --on gb200-nvl72 --batch 2048 --context 8192")
@click.argument("model", metavar="MODEL")
@click.option("--on", "on", required=True, metavar="SYSTEM", help="Catalogue name, or path of a TOML file.")
@click.option("--gpus", type=Whole(), help="Accelerators; by default one scale-up domain.")
@click.option("--layout", "layout_text", help="Such as tp8,ep8,pp1,dp1; by default the fastest that fits.")
@click.option("--batch", type=NUMBER, required=True, help="Sequences of the whole deployment.")
@click.option("--context", type=NUMBER, required=True, help="Tokens that each new token sees; in prefill the prompt.")
@click.option("--phase", type=click.Choice(["decode", "prefill"]), default="decode", show_default=True)
@click.option("--cached", type=NUMBER, default=0.0, help="Prefill: tokens of the prompt that are cached already.")
@click.option("--weights", help="Format of the linear layers: bf16, fp8, int4, nvfp4, ... (default: the config's).")
@click.option("--kv", help="Format of the cache: bf16, fp8, nvfp4 (default: the config's).")
@click.option("--usd-per-gpu-hour", type=NUMBER, help="Price of one accelerator, if not the catalogue's.")
@click.option(
    "--engine", type=click.Choice(FAMILIES), default=DEFAULT_ENGINE, show_default=True, help="Family of the engine."
)
@click.option("--year", type=NUMBER, default=NOW, show_default=True, help="When its version is from.")
@click.option("--drafted", type=NUMBER, default=0.0, help="Decode: tokens speculated and verified with each step.")
@click.option("--acceptance", help="Chance that a draft is accepted, for all or by position as 0.8,0.6 [as measured].")
@click.option("--draft-model", metavar="MODEL", help="Model that drafts, one pass per token; by default own layers.")
@click.option("--ideal", "as_ideal", is_flag=True, help="The pure bound, without an engine's losses.")
@click.option("--explain", is_flag=True, help="Show equations, numbers and the operators behind the result.")
@click.option("--plot", metavar="FILE", help="Draw a picture: FILE.html, FILE.png or FILE.svg.")
@click.option("--picture", type=click.Choice(PICTURES), help="Sketch it here; with --plot what to draw [roofline].")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def estimate(
    model: str,
    on: str,
    gpus: int | None,
    layout_text: str | None,
    batch: float,
    context: float,
    phase: str,
    cached: float,
    weights: str | None,
    kv: str | None,
    usd_per_gpu_hour: float | None,
    engine: str,
    year: float,
    drafted: float,
    acceptance: str | None,
    draft_model: str | None,
    as_ideal: bool,
    explain: bool,
    plot: str | None,
    picture: str | None,
    as_json: bool,
) -> None:
    """Estimate one decode or prefill pass: time with its range, what binds, memory, cost.

    MODEL is a catalogue name, a path to a config.json, or a folder that holds one.
    """
    drawn = check_picture(plot)
    answer = estimated(
        model,
        on,
        batch=batch,
        context=context,
        phase=phase,
        cached=cached,
        gpus=gpus,
        layout=layout_text,
        weights=weights,
        kv=kv,
        engine=engine,
        year=year,
        drafted=drafted,
        acceptance=acceptance,
        draft_model=draft_model,
        ideal=as_ideal,
    )
    architecture, system, layout = answer.architecture, answer.system, answer.layout
    result, settings = answer.step, answer.settings
    notes = (*answer.notes, *catalogue.price_note(system, usd_per_gpu_hour))
    price = catalogue.price_of(system, usd_per_gpu_hour)
    facts = _facts(answer, price, notes)
    if drawn is not None:
        save(_figure(picture or PICTURES[0], architecture, system, layout, settings, price, facts), drawn)
    if as_json:
        render.show_json(facts)
        return
    show_estimate(system.chip.name, facts, phase, batch, context)
    if picture is not None and drawn is None:
        render.show_sketch(_figure(picture, architecture, system, layout, settings, price, facts))
    if explain:
        explain_estimate(architecture, system, layout, result, settings)


def _facts(answer: Answer, price: float | None, notes: tuple[str, ...]) -> dict[str, Any]:
    e, a, system, layout = answer.step, answer.architecture, answer.system, answer.layout
    time, low, high = float(e.time), float(e.time_low), float(e.time_high)
    fits = bool(e.memory.fits)
    cost = None if price is None or not fits else float(usd_per_million_tokens(e, price))
    return {
        "model": a.name,
        "system": system.name,
        "gpus": int(e.gpus),
        "layout": layout.text(),
        "time": time,
        "time_low": low,
        "time_high": high,
        "time_ideal": float(e.time_ideal),
        "time_overlapped": float(e.time_overlapped),
        "bound_by": str(e.bound_by),
        "terms": {name: float(value) for name, value in e.terms.items()},
        "lost": {name: float(value) for name, value in e.lost.items()},
        "fits": fits,
        "memory_per_gpu": float(e.memory.total),
        "memory": {
            "weights": float(e.memory.weights),
            "cache": float(e.memory.cache),
            "activations": float(e.memory.activations),
            "capacity": e.memory.capacity,
        },
        "tokens_per_second": float(e.tokens_per_second) if fits else None,
        "tokens_per_second_per_gpu": float(e.tokens_per_second_per_gpu) if fits else None,
        "tokens_per_second_per_user": answer.tokens_per_second_per_user,
        "accepted_tokens": answer.accepted,
        "usd_per_million_tokens": cost,
        "usd_per_million_tokens_low": None if cost is None else cost * low / time,
        "usd_per_million_tokens_high": None if cost is None else cost * high / time,
        "assumptions": [*notes, _range_note(e), *e.assumptions],
    }


def _range_note(e: Estimate) -> str:
    if e.time_high == e.time_low:
        return "ideal bound: nothing is lost"
    return f"losses and 90 % range fitted on {e.basis}; `rackmath calibrate` fits them on your own"


def _figure(
    picture: str,
    a: Architecture,
    system: System,
    layout: Layout,
    settings: Mapping[str, Any],
    price: float | None,
    facts: dict[str, Any],
) -> Figure:
    title = f"{facts['model']} on {facts['gpus']} x {system.chip.name}, {facts['layout']}, {settings['phase']}"
    note = "; ".join(facts["assumptions"][:2])
    if picture == "roofline":
        _, timed = longest_operators(a, system, layout, settings)
        return pictures.roofline_figure(f"{title}, batch {settings['batch']:g}", system, timed, note)
    room = float(largest_batch(a, system, layout, context=settings["context"], tokens=1.0, draft=settings["draft"]))
    most = max(2 * room, settings["batch"], 16.0)
    if picture == "memory":
        batches = np.unique(np.round(np.geomspace(1, most, 9)))
        curve = _curve(a, system, layout, settings, batches)
        return pictures.memory_figure(f"{title}, context {settings['context']:,.0f}", curve, list(batches), note)
    batches = np.unique(np.round(np.geomspace(1, most, 120)))
    curve = _curve(a, system, layout, settings, batches)
    return pictures.batch_figure(f"{title}, context {settings['context']:,.0f}", curve, list(batches), price, note)


def _curve(
    a: Architecture, system: System, layout: Layout, settings: Mapping[str, Any], batches: NDArray[np.float64]
) -> Estimate:
    """The same pass at many batches."""
    changed: dict[str, Any] = {**settings, "batch": batches}
    return run(a, system, layout, **changed)
