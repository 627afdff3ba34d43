"""``train MODEL``: what a run takes in memory, days and dollars, and the layout that takes least."""

from __future__ import annotations

from typing import Any

import click

from rackmath.api.summary import training_summary
from rackmath.api.train import run_training
from rackmath.api.train_request import TrainRequest
from rackmath.cli import render
from rackmath.cli.options import request_options
from rackmath.units import show


@click.command(
    "run", epilog="Example: rackmath train llama-3.1-405b --on h100-sxm --gpus 16384 --tokens 15.6T --length 8192"
)
@request_options(TrainRequest)
@click.option("--explain", is_flag=True, help="Show the equations with their numbers.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def run_command(request: TrainRequest, explain: bool, as_json: bool) -> None:
    """Days, dollars, MFU and memory of a training run, in the layout that is quickest of those that fit.

    MODEL is a catalogue name, a path to a config.json, or a folder that holds one. Subcommands: budget, pipeline.
    """
    facts = run_training(request).to_dict()
    if as_json:
        render.show_json(facts)
        return
    _show(facts, request.gpus, explain)


def _show(facts: dict[str, Any], gpus: int, explain: bool) -> None:
    if not facts["fits"]:
        memory_text = f"{facts['memory_per_gpu'] / 1e9:.1f} of {facts['capacity'] / 1e9:.1f} GB each"
        least = [
            ("fits", f"no, so no days and no dollars: {memory_text} in the layout that needs least, {facts['layout']}")
        ]
        render.show_lines(f"{facts['model']} on {gpus:,} x {facts['system']}", training_summary(facts))
        render.show_pairs("in numbers", least)
        render.show_bars("memory of an accelerator", facts["memory"], lambda value: show(value, "B"))
        render.show_lines("assumed", facts["assumptions"])
        return
    low, high = facts["days_range"]
    dollars = "no price is known" if facts["usd"] is None else f"{_count(facts['usd'])} $"
    energy = [] if facts["energy_mwh"] is None else [("energy", _energy(facts))]
    sharing = f", {facts['context_parallel']:g} ranks to a sequence" if facts["context_parallel"] > 1 else ""
    render.show_lines(f"{facts['model']} on {gpus:,} x {facts['system']}", training_summary(facts))
    render.show_pairs(
        "in numbers",
        [
            ("time", f"{facts['days']:.3g} days, 90 % range {low:.3g} to {high:.3g}"),
            ("cost", f"{_count(facts['gpu_hours'])} accelerator hours, {dollars}"),
            *energy,
            ("step", f"{show(facts['step_time'], 's')}, {facts['tokens_per_second']:,.0f} tokens/s"),
            ("MFU", f"{facts['mfu']:.1%}, HFU {facts['hfu']:.1%}; {facts['tflops_per_gpu']:,.0f} TFLOP/s each"),
            ("layout", f"{facts['layout']}{sharing}, micro-batch {facts['microbatch']:g}, chunks {facts['chunks']:g}"),
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
                "z: products with frozen weights, as part of F",
                "HFU counts what is computed again as well",
                "step = (3 + r - z) F / p (m + (p - 1) / v) + exchange that is not hidden + update",
                "checkpoints every sqrt(2 x pause x time between failures)",
            ),
        )
    render.show_lines("assumed", facts["assumptions"])


def _count(value: float) -> str:
    """Whole units with separators, and three digits of what is less than a hundred."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _energy(facts: dict[str, Any]) -> str:
    """Energy of the accelerators, and emissions where a grid is known."""
    low, high = facts["energy_mwh_range"]
    text = f"{_count(facts['energy_mwh'])} MWh ({_count(low)} to {_count(high)}) of accelerators, "
    text += f"{facts['power_per_gpu']:,.0f} W each"
    return text if facts["kg_co2"] is None else f"{text}, {_count(facts['kg_co2'] / 1000)} t of CO2"
