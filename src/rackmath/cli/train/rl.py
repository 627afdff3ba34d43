"""``train rl``: rollouts through the serving engine, training through the training one."""

from __future__ import annotations

from typing import Any

import click

from rackmath import catalogue
from rackmath.cli import render
from rackmath.cli.train.rates import served
from rackmath.cli.train.rates import trained as training_rate
from rackmath.constants_file import DEFAULT_ENGINE, FAMILIES, FRAMEWORKS, NOW
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.counts import total_params
from rackmath.models.formats import BF16
from rackmath.training.rollouts import Loop, LoopCost, loop_cost
from rackmath.training.run import Recipe, divisible, model_flops
from rackmath.units import show


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
@click.option("--engine", type=click.Choice(FAMILIES), default=DEFAULT_ENGINE, show_default=True)
@click.option("--framework", type=click.Choice(FRAMEWORKS), default="megatron", show_default=True)
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
    framework: str,
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
    rates = served(architecture, system, rollout_gpus, prompt=prompt, answer=answer, engine=engine, year=year)
    recipe = Recipe(sequences=divisible(rollouts * trained), length=prompt + answer)
    train = training_rate(architecture, system, gpus, recipe, framework=framework, year=year)
    refresh = _refresh(architecture, system, gpus, rollout_gpus)
    flops = model_flops(architecture, prompt + answer)
    found, quick, late = (
        loop_cost(loop, gpus, read=r, write=w, train=t, refresh=refresh, flops_read=flops / 3, flops_train=flops)
        for r, w, t in zip(rates.read, rates.write, train, strict=True)
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
            f"training by {framework} in the quickest layout of all accelerators that fits, at 16 bit",
            f"new weights reach the servers in {show(refresh, 's')} per step, at the network's bandwidth",
            f"rollouts are {lag} steps old at most" if lag else f"a step waits for answers {straggle:g} times the mean",
        ],
    }
    if as_json:
        render.show_json(facts)
        return
    _show(facts, found, gpus)


def _refresh(architecture: Architecture, system: System, gpus: int, rollout_gpus: int) -> float:
    """Time in which every accelerator of a server takes its part of new weights, all servers at once. [s]

    Servers pass weights on, so that no sender is the bottleneck; beyond a domain they take the scale-out network.
    """
    link = system.scale_up if gpus <= system.domain else system.scale_out
    if link is None:
        return 0.0
    return total_params(architecture) * BF16.bits / 8 / rollout_gpus / link.bandwidth + link.latency


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
    parts = {
        "reading prompts": found.reading,
        "writing": found.writing,
        "training": found.training,
        "waiting for weights": found.refreshing,
    }
    render.show_bars("accelerator time of a step", parts, lambda value: show(value, "s"))
    render.show_lines("assumed", facts["assumptions"])
