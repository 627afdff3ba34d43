"""``train rl``: rollouts through the serving engine, training through the training one."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from rackmath import catalogue, constants_file
from rackmath.cli import render
from rackmath.constants_file import FAMILIES, NOW
from rackmath.engine.layout import candidate_layouts
from rackmath.engine.timer import engine_timer
from rackmath.errors import DoesNotFit
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.formats import BF16
from rackmath.models.requantise import requantise
from rackmath.serving.contexts import cost_against_context
from rackmath.serving.token_costs import reading
from rackmath.training.rollouts import Loop, LoopCost, loop_cost
from rackmath.training.run import Recipe, all_options, divisible, model_flops, step_times, training_memory
from rackmath.units import show

_SLOWEST = 10.0
"""Time per token that a rollout may take. [s]"""
_Span = tuple[float, float, float]
"""A time and the ends of its 90 % range."""
_BATCHES = np.unique(np.round(2 ** (np.arange(0, 56) / 2)))


@click.command("rl", epilog="Example: rackmath train rl llama-3.1-70b --on h100-sxm --gpus 256 --steps 1000 --lag 1")
@click.argument("model")
@click.option("--on", "on", required=True, metavar="SYSTEM", help="Catalogue name, or path of a TOML file.")
@click.option("--gpus", type=click.IntRange(1, 1_000_000), required=True, help="Accelerators.")
@click.option("--steps", type=click.IntRange(1, 10**9), default=1000, show_default=True, help="Of the optimizer.")
@click.option("--rollouts", type=float, default=4096.0, show_default=True, help="Answers written for a step.")
@click.option("--prompt", type=float, default=512.0, show_default=True, help="Mean tokens of a prompt.")
@click.option("--answer", type=float, default=8000.0, show_default=True, help="Mean tokens of an answer.")
@click.option("--trained", type=float, default=1.0, show_default=True, help="Part of rollouts that is trained on.")
@click.option("--lag", type=int, default=0, show_default=True, help="Steps that rollouts may be old; 0 alternates.")
@click.option("--straggle", type=float, default=2.0, show_default=True, help="Longest answer of a step over the mean.")
@click.option("--rollout-gpus", type=click.IntRange(1, 100_000), default=8, show_default=True, help="Of one server.")
@click.option("--engine", type=click.Choice(FAMILIES), default="vllm", show_default=True)
@click.option("--year", type=float, default=NOW, show_default=True, help="When the software is from.")
@click.option("--usd-per-gpu-hour", type=float, help="Price of one accelerator, if not the catalogue's.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def rl_command(
    model: str,
    on: str,
    gpus: int,
    steps: int,
    rollouts: float,
    prompt: float,
    answer: float,
    trained: float,
    lag: int,
    straggle: float,
    rollout_gpus: int,
    engine: str,
    year: float,
    usd_per_gpu_hour: float | None,
    as_json: bool,
) -> None:
    """Tokens, days and dollars of reinforcement learning, and what its rollouts cost beside its training.

    MODEL is a catalogue name, a path to a config.json, or a folder that holds one.
    """
    loop = Loop(rollouts=rollouts, answer=answer, prompt=prompt, trained=trained, lag=lag, straggle=straggle)
    architecture, system = catalogue.model(model), catalogue.system(on)
    system.require_network(gpus)
    read, write = _served(architecture, system, rollout_gpus, loop, engine, year)
    train = _trained(architecture, system, gpus, loop, year)
    flops = model_flops(architecture, prompt + answer)
    found, quick, late = (
        loop_cost(loop, gpus, read=r, write=w, train=t, flops_read=flops / 3, flops_train=flops)
        for r, w, t in zip(read, write, train, strict=True)
    )
    price = catalogue.price_of(system, usd_per_gpu_hour)
    facts = {
        "model": architecture.name,
        "system": system.name,
        "step_time": found.time,
        "days": steps * found.time / 86_400,
        "days_range": [steps * one.time / 86_400 for one in (quick, late)],
        "gpu_hours": steps * found.time * gpus / 3600,
        "usd": None if price is None else steps * found.time * gpus * price,
        "tokens_written": steps * rollouts * answer,
        "tokens_trained": steps * rollouts * trained * (prompt + answer),
        "cost": found,
        "assumptions": [
            *catalogue.price_note(system, usd_per_gpu_hour),
            f"rollouts on servers of {rollout_gpus} by {engine} of {year:g}, cheapest layout and batch",
            "training by megatron in the quickest layout of all accelerators that fits, at 16 bit",
            "weights reach the servers between steps; that time is left out",
            f"rollouts are {lag} steps old at most" if lag else f"a step waits for answers {straggle:g} times the mean",
        ],
    }
    if as_json:
        render.show_json(facts)
        return
    _show(facts, found, gpus)


def _served(
    architecture: Architecture, system: System, gpus: int, loop: Loop, engine: str, year: float
) -> tuple[_Span, _Span]:
    """Accelerator time of a token that is read and of one that is written, with their ranges."""
    version = constants_file.engine_of(system, engine, year)
    written = cost_against_context(
        architecture,
        system,
        gpus,
        np.array([loop.prompt + loop.answer / 2]),
        slowest=_SLOWEST,
        batches=_BATCHES,
        losses=constants_file.losses_of(system, version, "time per token"),
    )
    read = reading(
        architecture,
        system,
        list(candidate_layouts(architecture, gpus)),
        np.array([loop.prompt]),
        np.ones(1),
        losses=constants_file.losses_of(system, version, "prompt pass"),
    )
    return (
        (float(read.seconds[0]), float(read.low[0]), float(read.high[0])),
        (float(written.gpu_seconds[0]), float(written.low[0]), float(written.high[0])),
    )


def _trained(architecture: Architecture, system: System, gpus: int, loop: Loop, year: float) -> _Span:
    """Accelerator time of a token that is trained on, in the quickest layout that fits, with its range."""
    recipe = Recipe(sequences=divisible(loop.rollouts * loop.trained), length=loop.prompt + loop.answer)
    plain = requantise(architecture, weights=BF16)
    options = all_options(plain, system, gpus, recipe)
    fits = np.broadcast_to(training_memory(plain, system, options, recipe).fits, (len(options),))
    if not fits.any():
        raise DoesNotFit(f"training {architecture.name} on {gpus} x {system.chip.name}", "use more --gpus")
    engine = constants_file.engine_of(system, "megatron", year)
    timer = engine_timer(plain, system, constants_file.losses_of(system, engine, "training"), 1.0)
    exposed = constants_file.constants().value("exposed", engine)
    times = np.where(fits, step_times(plain, system, options, recipe, timer, exposed), np.inf)
    each = float(times.min()) * gpus / (recipe.sequences * recipe.length)
    low, high = constants_file.constants().range("training", system.chip.name)
    return each, each * low, each * high


def _show(facts: dict[str, Any], found: LoopCost, gpus: int) -> None:
    early, late = facts["days_range"]
    dollars = "no price is known" if facts["usd"] is None else f"{facts['usd']:,.0f} $"
    lines = [
        (
            "time",
            f"{facts['days']:.3g} days, {early:.3g} to {late:.3g} if all errs one way; step {show(found.time, 's')}",
        ),
        ("cost", f"{facts['gpu_hours']:,.0f} accelerator hours, {dollars}"),
        (
            "tokens",
            f"{show(facts['tokens_written'])} written, {show(facts['tokens_trained'])} trained on, prompts included",
        ),
        ("rollouts", f"{found.writing_share:.0%} of the accelerator time"),
        ("decode efficiency", f"{found.decode_efficiency:.2f}: FLOP/s of writing over training's"),
    ]
    if found.writers < 1:
        lines.append(("division", f"{found.writers:.0%} of the accelerators write, the others train"))
    render.show_pairs(f"reinforcement learning of {facts['model']} on {gpus:,} x {facts['system']}", lines)
    parts = {"reading prompts": found.reading, "writing": found.writing, "training": found.training}
    render.show_bars("accelerator time of a step", parts, lambda value: show(value, "s"))
    render.show_lines("assumed", facts["assumptions"])
