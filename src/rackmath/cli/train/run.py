"""``train MODEL``: what a run takes in memory, days and dollars, and the layout that takes least."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click
import numpy as np

from rackmath import catalogue, constants_file
from rackmath.cli import render
from rackmath.cli.quantities import NUMBER, SECONDS, Whole
from rackmath.constants_file import FRAMEWORKS, NOW
from rackmath.engine import Layout, parse_layout
from rackmath.engine.timer import engine_timer
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.formats import weight_format
from rackmath.models.requantise import requantise
from rackmath.training.activations import RECOMPUTE, repeated
from rackmath.training.run import (
    SHARDED,
    Options,
    Recipe,
    TrainingMemory,
    all_options,
    divisible,
    model_flops,
    options_of,
    reliability,
    step_times,
    training_memory,
)
from rackmath.units import parse, show

_DAY = 86_400.0
_PRECISIONS = {"bf16": "bf16", "fp8": "fp8", "fp4": "nvfp4"}
"""What products run at, and the format behind it."""
_PARTS = ("weights", "gradients", "optimizer", "activations", "logits")


@click.command(
    "run", epilog="Example: rackmath train llama-3.1-405b --on h100-sxm --gpus 16384 --tokens 15.6T --length 8192"
)
@click.argument("model")
@click.option("--on", "on", required=True, metavar="SYSTEM", help="Catalogue name, or path of a TOML file.")
@click.option("--gpus", type=Whole(1, 1_000_000), required=True, help="Accelerators.")
@click.option("--tokens", required=True, help="Tokens of the run, as 15.6T.")
@click.option("--batch-tokens", default="16M", show_default=True, help="Tokens of a step.")
@click.option("--length", type=NUMBER, default=8192.0, show_default=True, help="Tokens of a sequence.")
@click.option("--layout", help="As in tp8,pp16,dp128 (default: the best).")
@click.option("--context-parallel", type=Whole(1), help="Ranks that share a sequence (default: the best).")
@click.option("--microbatch", type=NUMBER, help="Sequences of a pass (default: the best).")
@click.option("--chunks", type=Whole(), help="Stages per rank (default: the best).")
@click.option("--recompute", type=click.Choice(RECOMPUTE), help="Default: the best without reversible layers.")
@click.option("--sharded", type=click.Choice(SHARDED), help="What data-parallel ranks share (default: the best).")
@click.option("--precision", type=click.Choice(list(_PRECISIONS)), default="bf16", show_default=True)
@click.option("--checkpoint-time", type=SECONDS, default=10.0, show_default=True, help="Pause of a checkpoint, in s.")
@click.option("--restart-time", type=SECONDS, default=600.0, show_default=True, help="Lost by a failure, in s.")
@click.option("--framework", type=click.Choice(FRAMEWORKS), default="megatron", show_default=True)
@click.option("--year", type=NUMBER, default=NOW, show_default=True, help="When the software is from.")
@click.option("--usd-per-gpu-hour", type=NUMBER, help="Price of one accelerator, if not the catalogue's.")
@click.option("--ideal", is_flag=True, help="The pure bound, without an engine's losses.")
@click.option("--explain", is_flag=True, help="Show the equations with their numbers.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def run_command(
    model: str,
    on: str,
    gpus: int,
    tokens: str,
    batch_tokens: str,
    length: float,
    layout: str | None,
    context_parallel: int | None,
    microbatch: float | None,
    chunks: int | None,
    recompute: str | None,
    sharded: str | None,
    precision: str,
    checkpoint_time: float,
    restart_time: float,
    framework: str,
    year: float,
    usd_per_gpu_hour: float | None,
    ideal: bool,
    explain: bool,
    as_json: bool,
) -> None:
    """Days, dollars, MFU and memory of a training run, in the layout that is quickest of those that fit.

    MODEL is a catalogue name, a path to a config.json, or a folder that holds one. Subcommands: budget, pipeline.
    """
    architecture = requantise(catalogue.model(model), weights=weight_format(_PRECISIONS[precision]))
    system = catalogue.system(on)
    if system.chip.runs_at(precision) != precision:
        raise InputError("--precision", precision, f"{system.chip.name} runs it at {system.chip.runs_at(precision)}")
    total, step = parse(tokens, "1", "--tokens"), parse(batch_tokens, "1", "--batch-tokens")
    for field, value, low in (("--tokens", total, 1.0), ("--length", length, 2.0), ("--batch-tokens", step, length)):
        if not low <= value <= 1e18:
            raise InputError(field, value, f"write a number from {low:g} to 1e18")
    recipe = Recipe(
        sequences=divisible(step / length),
        length=length,
        recompute=(recompute,) if recompute else Recipe.__dataclass_fields__["recompute"].default,
        sharded=(sharded,) if sharded else Recipe.__dataclass_fields__["sharded"].default,
    )
    system.require_network(gpus)
    options = _options(architecture, system, gpus, recipe, layout, (context_parallel, microbatch, chunks))
    facts = _facts(architecture, system, options, recipe, total, None if ideal else (framework, year))
    lost = reliability(gpus, checkpoint_time, restart_time)
    facts.update(_bill(facts, system, gpus, lost.useful, catalogue.price_of(system, usd_per_gpu_hour)))
    facts["checkpoint_interval"] = lost.interval
    facts["useful"] = lost.useful
    facts["assumptions"] = [
        *catalogue.price_note(system, usd_per_gpu_hour),
        f"{precision} products, weights at 16 bit, gradients and optimizer at 32; sequence parallelism beside tensor's",
        "the bound, without losses"
        if ideal
        else f"framework: {framework}, of {year:g}; range: rows left out, docs/accuracy.md",
        f"steps of {recipe.sequences:,.0f} sequences, {recipe.sequences * length / 1e6:.3g} M tokens",
        f"failures as in Llama 3's run; a checkpoint takes {checkpoint_time:g} s, a failure {restart_time:g} s",
    ]
    if as_json:
        render.show_json(facts)
        return
    _show(facts, gpus, explain)


def _options(
    architecture: Architecture,
    system: System,
    gpus: int,
    recipe: Recipe,
    layout: str | None,
    fixed: tuple[int | None, float | None, int | None],
) -> Options:
    """All ways to spread the run, or those of one layout."""
    context, microbatch, chunks = fixed
    if layout is None:
        options = all_options(architecture, system, gpus, recipe)
    else:
        shared = context or 1
        if gpus % shared or recipe.length < shared:
            raise InputError("--context-parallel", shared, f"divides neither {gpus} accelerators nor a sequence")
        options = options_of(architecture, [(parse_layout(layout, gpus // shared, architecture), shared)], recipe)
    keep = np.ones(len(options), dtype=bool)
    if context is not None:
        keep &= options.context == context
    if microbatch is not None:
        keep &= options.microbatch == microbatch
    if chunks is not None:
        keep &= options.chunks == chunks
    if not keep.any():
        ways = "change --batch-tokens, --layout, --context-parallel, --microbatch or --chunks (1, 2, 4, 8)"
        raise InputError("--batch-tokens", recipe.sequences, f"sequences do not divide so: {ways}")
    return _taken(options, np.flatnonzero(keep))


def _taken(options: Options, at: Any) -> Options:
    return replace(
        options,
        layouts=[options.layouts[i] for i in at],
        context=options.context[at],
        microbatch=options.microbatch[at],
        chunks=options.chunks[at],
        recompute=[options.recompute[i] for i in at],
        sharded=[options.sharded[i] for i in at],
    )


def _facts(
    architecture: Architecture,
    system: System,
    options: Options,
    recipe: Recipe,
    tokens: float,
    software: tuple[str, float] | None,
) -> dict[str, Any]:
    """The quickest option that fits; where none does, the one that needs least memory."""
    held = training_memory(architecture, system, options, recipe)
    losses, exposed, low, high = None, 0.0, 1.0, 1.0
    if software is not None:
        engine = constants_file.engine_of(system, *software)
        losses = constants_file.losses_of(system, engine, "training")
        exposed = constants_file.constants().value("exposed", engine)
        low, high = constants_file.range_of(system, engine, "training")
    timer = engine_timer(architecture, system, losses, two_batch=1.0)
    fits = np.broadcast_to(held.fits, (len(options),))
    tried = _taken(options, np.flatnonzero(fits)) if fits.any() else options
    times = step_times(architecture, system, tried, recipe, timer, exposed)
    best = int(times.argmin()) if fits.any() else int(held.total.argmin())
    at = int(np.flatnonzero(fits)[best]) if fits.any() else best
    step = float(times[best])
    flops = model_flops(architecture, recipe.length)
    layout: Layout = options.layouts[at]
    rate = recipe.sequences * recipe.length / step
    again = repeated(architecture, options.recompute[at], recipe.length)
    peak = system.chip.rate(system.chip.runs_at(architecture.format.compute))
    used = float(layout.gpus) * float(options.context[at])
    return {
        "model": architecture.name,
        "system": system.name,
        "fits": bool(fits.any()),
        "layout": layout.text(),
        "context_parallel": float(options.context[at]),
        "microbatch": float(options.microbatch[at]),
        "chunks": float(options.chunks[at]),
        "recompute": options.recompute[at],
        "sharded": options.sharded[at],
        "options": len(options),
        "step_time": step,
        "tokens_per_second": rate,
        "flops_per_token": flops,
        "tflops_per_gpu": rate * flops / used / 1e12,
        "mfu": rate * flops / used / peak,
        "hfu": rate * flops * (1 + again / 3) / used / peak,
        "seconds": tokens / rate,
        "range": [low, high],
        **_memory(held, at),
    }


def _memory(held: TrainingMemory, at: int) -> dict[str, Any]:
    parts = {name: float(np.broadcast_to(getattr(held, name), held.total.shape)[at]) for name in _PARTS}
    return {"memory_per_gpu": sum(parts.values()), "memory": parts, "capacity": held.capacity}


def _bill(facts: dict[str, Any], system: System, gpus: int, useful: float, price: float | None) -> dict[str, Any]:
    """Days, dollars and energy, failures included; the range is that of the step."""
    if not facts["fits"]:
        return dict.fromkeys(("days", "days_range", "gpu_hours", "usd", "energy_mwh"))
    seconds = facts["seconds"] / useful
    low, high = facts["range"]
    return {
        "days": seconds / _DAY,
        "days_range": [seconds * low / _DAY, seconds * high / _DAY],
        "gpu_hours": seconds * gpus / 3600,
        "usd": None if price is None else seconds * gpus * price,
        "energy_mwh": None if system.chip.power is None else seconds * gpus * system.chip.power / 3.6e9,
    }


def _show(facts: dict[str, Any], gpus: int, explain: bool) -> None:
    if not facts["fits"]:
        held = f"{facts['memory_per_gpu'] / 1e9:.1f} of {facts['capacity'] / 1e9:.1f} GB each"
        least = [("fits", f"no, so no days and no dollars: {held} in the layout that needs least, {facts['layout']}")]
        render.show_pairs(f"{facts['model']} on {gpus:,} x {facts['system']}", least)
        render.show_bars("memory of an accelerator", facts["memory"], lambda value: show(value, "B"))
        render.show_lines("assumed", facts["assumptions"])
        return
    low, high = facts["days_range"]
    dollars = "no price is known" if facts["usd"] is None else f"{facts['usd']:,.0f} $"
    energy = "" if facts["energy_mwh"] is None else f", {facts['energy_mwh']:,.0f} MWh by the accelerators' rated power"
    shared = f", {facts['context_parallel']:g} ranks to a sequence" if facts["context_parallel"] > 1 else ""
    render.show_pairs(
        f"{facts['model']} on {gpus:,} x {facts['system']}",
        [
            ("time", f"{facts['days']:.3g} days, 90 % range {low:.3g} to {high:.3g}"),
            ("cost", f"{facts['gpu_hours']:,.0f} accelerator hours, {dollars}{energy}"),
            ("step", f"{show(facts['step_time'], 's')}, {facts['tokens_per_second']:,.0f} tokens/s"),
            ("MFU", f"{facts['mfu']:.1%}, HFU {facts['hfu']:.1%}; {facts['tflops_per_gpu']:,.0f} TFLOP/s each"),
            ("layout", f"{facts['layout']}{shared}, micro-batch {facts['microbatch']:g}, chunks {facts['chunks']:g}"),
            ("", f"recompute {facts['recompute']}, shared over data-parallel ranks: {facts['sharded']}"),
            (
                "checkpoints",
                f"every {show(facts['checkpoint_interval'], 's')}; {facts['useful']:.1%} of the time is left",
            ),
            ("memory", f"{facts['memory_per_gpu'] / 1e9:.1f} of {facts['capacity'] / 1e9:.1f} GB each, fits"),
        ],
    )
    render.show_bars("memory of an accelerator", facts["memory"], lambda value: show(value, "B"))
    if explain:
        render.show_lines(
            "equations",
            (
                f"MFU = tokens/s x FLOP per token / (accelerators x peak) = {facts['tokens_per_second']:,.0f} x"
                f" {facts['flops_per_token']:.4g} / ... = {facts['mfu']:.3f}; three forward passes, causal attention",
                "HFU counts what is computed again as well",
                "step = (3 + r) F / p (m + (p - 1) / v) + exchange that is not hidden + update",
                "checkpoints every sqrt(2 x pause x time between failures)",
            ),
        )
    render.show_lines("assumed", facts["assumptions"])
