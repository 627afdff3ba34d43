"""``train rl``: rollouts through the serving engine, training through the training one."""

from __future__ import annotations

from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from rackmath.api.training_rates import read_token
from rackmath.api.training_rates import trained as training_rate
from rackmath.cli import render
from rackmath.cli.quantities import NUMBER, Whole
from rackmath.engine.capacity import largest_batch
from rackmath.engine.constants import Engine
from rackmath.engine.layout import Layout, candidate_layouts, stack_layouts
from rackmath.engine.timer import engine_timer
from rackmath.errors import DoesNotFit
from rackmath.hardware import System
from rackmath.io import catalogue, constants_file
from rackmath.io.constants_file import DEFAULT_ENGINE, FAMILIES, FRAMEWORKS, NOW
from rackmath.models.architecture import Architecture
from rackmath.models.counts import total_params
from rackmath.models.formats import BF16
from rackmath.serving.engines import default_seats
from rackmath.serving.load import CHUNK
from rackmath.training.rollouts import Loop, LoopCost, Servers, StepTime, loop_cost
from rackmath.training.run import Recipe, divisible, model_flops
from rackmath.units import show


@click.command("rl", epilog="Example: rackmath train rl llama-3.1-70b --on h100-sxm --gpus 256 --steps 1000 --lag 1")
@click.argument("model")
@click.option("--on", "on", required=True, metavar="SYSTEM", help="Catalogue name, or path of a TOML file.")
@click.option("--gpus", type=Whole(1, 1_000_000), required=True, help="Accelerators.")
@click.option("--steps", type=Whole(1, 10**9), default=1000, show_default=True, help="Steps of the optimizer.")
@click.option("--rollouts", type=NUMBER, default=4096.0, show_default=True, help="Answers written for a step.")
@click.option("--prompt", type=NUMBER, default=512.0, show_default=True, help="Mean tokens of a prompt.")
@click.option("--answer", type=NUMBER, default=8000.0, show_default=True, help="Mean tokens of an answer.")
@click.option("--trained", type=NUMBER, default=1.0, show_default=True, help="Part of rollouts that is trained on.")
@click.option(
    "--lag",
    type=Whole(),
    default=0,
    show_default=True,
    help="Steps that rollouts may be old: 0 alternates writing and training, 1 overlaps them one step off.",
)
@click.option("--straggle", type=NUMBER, default=2.0, show_default=True, help="Longest answer of a step over the mean.")
@click.option(
    "--rollout-gpus",
    type=Whole(1, 100_000),
    default=8,
    show_default=True,
    help="Accelerators of one server that writes answers.",
)
@click.option("--engine", type=click.Choice(FAMILIES), default=DEFAULT_ENGINE, show_default=True)
@click.option("--framework", type=click.Choice(FRAMEWORKS), default="megatron", show_default=True)
@click.option("--year", type=NUMBER, default=NOW, show_default=True, help="When the software is from.")
@click.option("--usd-per-gpu-hour", type=NUMBER, help="Price of one accelerator, if not the catalogue's.")
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
    framework: str,
    year: float,
    usd_per_gpu_hour: float | None,
    as_json: bool,
) -> None:
    """Tokens, days and dollars of reinforcement learning, and what its rollouts cost beside its training.

    Answers are written one token after the other, so that a step takes at least its longest answer's time; the
    batch is what one server has of a step's rollouts. With --lag 0 all accelerators write and then train; with
    --lag 1 some write the next step's answers while the others train.

    MODEL is a catalogue name, a path to a config.json, or a folder that holds one.
    """
    loop = Loop(rollouts=rollouts, answer=answer, prompt=prompt, trained=trained, lag=lag, straggle=straggle)
    architecture, system = catalogue.model(model), catalogue.system(on)
    system.require_network(gpus)
    layouts = list(candidate_layouts(architecture, rollout_gpus))
    version = constants_file.engine_of(system, engine, year)
    read = read_token(architecture, system, rollout_gpus, prompt=prompt, engine=engine, year=year)
    steps_of = constants_file.range_of(system, version, "time per token")
    recipe = Recipe(sequences=divisible(rollouts * trained), length=prompt + answer)
    train = training_rate(architecture, system, gpus, recipe, framework=framework, year=year)
    refresh = _refresh(architecture, system, gpus, rollout_gpus)
    flops = model_flops(architecture, prompt + answer)
    seats = _seats(architecture, system, layouts, loop, engine)
    step = _steps(architecture, system, layouts, version)
    cost, quick, late = (
        loop_cost(
            loop,
            gpus,
            Servers(gpus=rollout_gpus, step=_slower(step, factor), seats=seats, read=r / rollout_gpus),
            train=t,
            refresh=refresh,
            flops_read=flops / 3,
            flops_train=flops,
        )
        for factor, r, t in zip((1.0, *steps_of), read, train, strict=True)
    )
    price = catalogue.price_of(system, usd_per_gpu_hour)
    facts = {
        "model": architecture.name,
        "system": system.name,
        "step_time": cost.time,
        "step_time_range": [quick.time, late.time],
        "generation_time": cost.generation_time,
        "training_time": cost.training_time,
        "refresh_time": cost.refresh_time,
        "days": steps * cost.time / 86_400,
        "days_range": [steps * state.time / 86_400 for state in (quick, late)],
        "gpu_hours": steps * cost.time * gpus / 3600,
        "usd": None if price is None else steps * cost.time * gpus * price,
        "tokens_written": steps * rollouts * answer,
        "tokens_trained": steps * rollouts * trained * (prompt + answer),
        "server_layout": layouts[cost.layout].text(),
        "cost": cost,
        "assumptions": [
            *catalogue.price_note(system, usd_per_gpu_hour),
            f"answers by {engine} of {year:g} on servers of {rollout_gpus} as {layouts[cost.layout].text()}, the"
            f" soonest of {len(layouts)} layouts; lengths spread so that the longest has {straggle:g} times the mean",
            f"training by {framework} in the quickest layout of all accelerators that fits, at 16 bit",
            f"new weights reach the servers in {show(refresh, 's')} per step, at the network's bandwidth",
            _overlap(lag),
        ],
    }
    if as_json:
        render.show_json(facts)
        return
    _show(facts, cost, gpus)


def _overlap(lag: int) -> str:
    if not lag:
        return "writing and training alternate on the same accelerators: no overlap"
    if lag == 1:
        return "one step off: the next step's answers are written while this step's are trained on"
    return f"answers of {lag} steps are in flight together and up to {lag} steps old when they are trained on"


def _seats(
    architecture: Architecture, system: System, layouts: list[Layout], loop: Loop, engine: str
) -> NDArray[np.float64]:
    """Answers that a server runs at once in each layout: what fits, and what its engine takes. (layouts,)"""
    wide = stack_layouts(layouts)
    held = largest_batch(architecture, system, wide, context=loop.prompt + loop.answer, tokens=CHUNK)
    most = default_seats(engine, system.chip) * np.asarray(wide.data)
    longest = largest_batch(architecture, system, wide, context=loop.prompt + loop.answer * loop.straggle, tokens=CHUNK)
    seats = np.where(np.asarray(longest) >= 1, np.minimum(held, most), 0.0)
    if not seats.any():
        raise DoesNotFit(
            f"{architecture.name} and one answer of {loop.answer * loop.straggle:,.0f} tokens on a server of "
            f"{layouts[0].gpus} x {system.chip.name}",
            "use more --rollout-gpus or shorter answers",
        )
    return seats


def _steps(architecture: Architecture, system: System, layouts: list[Layout], version: Engine) -> StepTime:
    """Time of a decode step in every layout of a server."""
    timer = engine_timer(architecture, system, constants_file.losses_of(system, version, "time per token"))
    wide = stack_layouts(layouts, 2)
    return lambda batch, context: np.asarray(timer("decode", wide, batch, context, 0.0))


def _slower(step: StepTime, factor: float) -> StepTime:
    return lambda batch, context: factor * step(batch, context)


def _refresh(architecture: Architecture, system: System, gpus: int, rollout_gpus: int) -> float:
    """Time in which every accelerator of a server takes its part of new weights, all servers at once. [s]

    Servers pass weights on, so that no sender is the bottleneck; beyond a domain they take the scale-out network.
    """
    link = system.scale_up if gpus <= system.domain else system.scale_out
    if link is None:
        return 0.0
    return total_params(architecture) * BF16.bits / 8 / rollout_gpus / link.bandwidth + link.latency


def _show(facts: dict[str, Any], cost: LoopCost, gpus: int) -> None:
    early, late = facts["days_range"]
    dollars = "no price is known" if facts["usd"] is None else f"{facts['usd']:,.0f} $"
    lines = [
        ("time", f"{facts['days']:.3g} days, {early:.3g} to {late:.3g} if all errors point the same way"),
        ("step", show(cost.time, "s")),
        ("cost", f"{facts['gpu_hours']:,.0f} accelerator hours, {dollars}"),
        (
            "tokens",
            f"{show(facts['tokens_written'])} written, {show(facts['tokens_trained'])} trained on, prompts included",
        ),
        (
            "servers",
            f"{cost.servers:,}, each with {cost.rollouts_per_server:,.0f} answers of a step,"
            f" {cost.at_once:,.0f} at once",
        ),
        ("rollouts", f"{cost.writing_share:.0%} of the accelerator time"),
        ("decode efficiency", f"{cost.decode_efficiency:.2f}: FLOP/s of writing over training's"),
    ]
    if cost.trainers < gpus:
        lines.append(("overlap", f"{gpus - cost.trainers:,.0f} accelerators write while {cost.trainers:,.0f} train"))
    render.show_pairs(f"reinforcement learning of {facts['model']} on {gpus:,} x {facts['system']}", lines)
    parts = {
        "reading prompts": cost.reading_time,
        "writing answers": cost.writing_time,
        "training": cost.training_time,
        "new weights": cost.refresh_time,
    }
    render.show_bars("time of a step's parts", parts, lambda value: show(value, "s"))
    render.show_lines("assumed", facts["assumptions"])
