"""``train rl``: a loop of reinforcement learning, its rollouts beside its training."""

from __future__ import annotations

from typing import Any

import click

from rackmath.api.rl import RlRequest, run_rl
from rackmath.api.study_summaries import rl_summary
from rackmath.cli import render
from rackmath.cli.estimate_text import run_energy_text
from rackmath.cli.options import request_options
from rackmath.training.rollouts import LoopCost
from rackmath.units import short_count, show


@click.command("rl", epilog="Example: rackmath train rl llama-3.1-70b --on h100-sxm --gpus 256 --steps 1000 --lag 1")
@request_options(RlRequest)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def rl_command(request: RlRequest, as_json: bool) -> None:
    """Tokens, days and dollars of reinforcement learning, and what its rollouts cost beside its training.

    Answers are written one token after the other, so that a step takes at least its longest answer's time; the
    batch is what one server has of a step's rollouts. With --lag 0 all accelerators write and then train; with
    --lag 1 some write the next step's answers while the others train.

    MODEL is a catalogue name, a path to a config.json, or a folder that holds one.
    """
    result = run_rl(request)
    if as_json:
        render.show_json(result.facts)
        return
    _show(result.facts, result.details, request.gpus)


def _show(facts: dict[str, Any], cost: LoopCost, gpus: int) -> None:
    title = f"reinforcement learning of {facts['model']} on {gpus:,} x {facts['system']}"
    render.show_lines(title, rl_summary(facts, gpus))
    early, late = facts["days_range"]
    dollars = "no price is known" if facts["usd"] is None else f"{facts['usd']:,.0f} $"
    lines = [
        ("time", f"{facts['days']:.3g} days, {early:.3g} to {late:.3g} if all errors point the same way"),
        ("step", show(cost.time, "s")),
        ("cost", f"{facts['gpu_hours']:,.0f} accelerator hours, {dollars}"),
        *([("energy", run_energy_text(facts["energy"]))] if facts["energy"] else []),
        (
            "tokens",
            f"{short_count(facts['tokens_written'])} written, {short_count(facts['tokens_trained'])} trained on, "
            "prompts included",
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
    render.show_pairs("in numbers", lines)
    parts = {
        "reading prompts": cost.reading_time,
        "writing answers": cost.writing_time,
        "training": cost.training_time,
        "new weights": cost.refresh_time,
    }
    render.show_bars("time of a step's parts", parts, lambda value: show(value, "s"))
    render.show_lines("assumed", facts["assumptions"])
