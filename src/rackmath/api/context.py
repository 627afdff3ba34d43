"""What an output token costs against the context it sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from rackmath.api import kinds, options
from rackmath.api.energy import energy_of_tokens
from rackmath.api.fields import Option, read_fields
from rackmath.api.result import Result
from rackmath.api.subjects import system_of
from rackmath.engine import Losses
from rackmath.engine.layout import Layout, stack_layouts
from rackmath.errors import DoesNotFit, InputError
from rackmath.figures import Figure, Panel, Series
from rackmath.hardware import System
from rackmath.io import catalogue, constants_file
from rackmath.io.constants_file import DEFAULT_ENGINE, NOW
from rackmath.models.architecture import Architecture
from rackmath.serving.contexts import ContextCost, cost_against_context
from rackmath.serving.engines import engine_layouts, micro_batch_tokens
from rackmath.serving.long_prompts import read_prompts
from rackmath.serving.points import Array
from rackmath.serving.token_costs import reading
from rackmath.serving.variants import as_read


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRequest:
    """Models at growing contexts."""

    models: Annotated[
        str,
        options.MODEL.but(
            help="Names of the catalogue, or paths, with commas between them.",
            kind=kinds.TEXT,
            metavar="MODEL[,MODEL...]",
        ),
    ]
    on: Annotated[str | System, options.SYSTEM]
    gpus: Annotated[int, options.GPUS.but(help="Accelerators together.", kind=kinds.whole(1, 100000))]
    to: Annotated[float, Option(help="Longest context, in tokens.", kind=kinds.NUMBER)] = 100000000.0
    weights: Annotated[str | None, options.WEIGHTS] = None
    kv: Annotated[str | None, options.CACHE] = None
    slowest: Annotated[float, Option(help="Time per token still served, in seconds.", kind=kinds.SECONDS)] = 0.1
    engine: Annotated[str, options.ENGINE] = DEFAULT_ENGINE
    year: Annotated[float, options.YEAR] = NOW
    usd_per_gpu_hour: Annotated[float | None, options.USD_PER_GPU_HOUR] = None
    ideal: Annotated[bool, options.IDEAL] = False

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)


def run_context(r: ContextRequest) -> Result:
    """Cost of an output token against the context it sees, and where each model stops being servable.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range.
    """
    system = system_of(r.on)
    if not 2000 <= r.to <= 1e10:
        raise InputError("--to", r.to, "write a number of tokens from 2000 to 1e10")
    price = catalogue.price_of(system, r.usd_per_gpu_hour)
    version = constants_file.engine_of(system, r.engine, r.year)
    losses, reads = (
        None if r.ideal else constants_file.losses_of(system, version, kind)
        for kind in ("time per token", "prompt pass")
    )
    family = "" if r.ideal else r.engine
    contexts = np.geomspace(1000, r.to, 4 * int(np.ceil(np.log10(r.to / 1000))) + 1)
    facts = [_model_facts(r, name, system, contexts, family, losses, reads, price) for name in r.models.split(",")]
    return Result(
        request=r,
        facts=facts,
        draw=lambda: _context_figure(system, r.gpus, facts, price),
        details=(system, r.gpus, facts, contexts, price, r.slowest),
    )


def _model_facts(
    r: ContextRequest,
    name: str,
    system: System,
    contexts: Array,
    family: str,
    losses: Losses | None,
    reads: Losses | None,
    price: float | None,
) -> dict[str, Any]:
    """Writing at every context and reading a prompt of that length; or why the model cannot."""
    model, notes = as_read(catalogue.model(name), family, r.weights, r.kv)
    layouts = engine_layouts(model, r.gpus, family)
    try:
        curve = cost_against_context(model, system, r.gpus, contexts, slowest=r.slowest, losses=losses, family=family)
    except DoesNotFit as error:
        return {"model": name, "contexts": contexts, "fits": False, "reason": str(error), "warnings": list(notes)}
    prompt_passes = read_prompts(
        model,
        system,
        stack_layouts(layouts, 2),
        batch=1.0,
        context=contexts,
        piece=micro_batch_tokens(family),
        losses=reads,
    )
    usable = np.where(np.isnan(curve.gpu_seconds) | ~np.asarray(prompt_passes.memory.fits).any(axis=0), np.nan, 1.0)
    quickest = np.where(np.asarray(prompt_passes.memory.fits), np.asarray(prompt_passes.time), np.inf).min(axis=0)
    gpu_seconds = np.array([_busy_seconds(model, system, layouts, context, reads) for context in contexts])
    energy = energy_of_tokens(curve.gpu_seconds, curve.memory_time, curve.compute_time, system.chip)
    return _context_facts(name, curve, price) | {
        "joules_per_token": energy,
        "fits": True,
        "reason": "",
        "read_time": quickest * usable,
        "read_cost": gpu_seconds * usable * (1.0 if price is None else price),
        "trained_to": model.max_context,
        "warnings": [*notes, *_beyond(name, model.max_context, contexts)],
    }


def _busy_seconds(
    model: Architecture, system: System, layouts: Sequence[Layout], length: float, losses: Losses | None
) -> float:
    """Accelerator time of a prompt where passes are filled, in its cheapest layout; NaN where none holds it. [GPU s]"""
    try:
        return float(reading(model, system, layouts, np.array([length]), np.ones(1), losses=losses).seconds[0]) * length
    except DoesNotFit:
        return np.nan


def _beyond(name: str, longest: int | None, contexts: Array) -> list[str]:
    if longest is None or contexts[-1] <= longest:
        return []
    return [f"{name} was trained for {longest:,} tokens: beyond them it computes, and nobody knows how well it answers"]


def _context_facts(name: str, curve: ContextCost, price: float | None) -> dict[str, Any]:
    cost = curve.gpu_seconds if price is None else curve.gpu_seconds * price * 1e6
    doublings = np.flatnonzero(cost >= 2 * cost[0])
    return {
        "model": name,
        "contexts": curve.contexts,
        "cost": cost,
        "batch": curve.batch,
        "layout": list(curve.layout),
        "time": curve.time,
        "doubles_at": float(curve.contexts[doublings[0]]) if len(doublings) else None,
        "servable_to": curve.servable_to,
        "stopped_by": curve.stopped_by,
    }


def _context_figure(system: System, gpus: int, facts: list[dict[str, Any]], price: float | None) -> Figure:
    series: list[Series] = []
    for f in facts:
        if not f["fits"]:
            continue
        has_cost = ~np.isnan(f["cost"])
        series.append(Series(name=f["model"], x=list(f["contexts"][has_cost]), y=list(f["cost"][has_cost])))
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
