"""``split``: a model on unlike accelerators of one machine."""

from __future__ import annotations

from typing import Any

import click

from rackmath.api.split import SplitRequest, run_split
from rackmath.cli import render
from rackmath.cli.options import request_options
from rackmath.units import show


@click.command(epilog="Example: rackmath split llama-3.1-70b --card rtx-4090 --card rtx-3090:2 --context 8k")
@request_options(SplitRequest)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def split(request: SplitRequest, as_json: bool) -> None:
    """Deal a model's layers to unlike accelerators, by their memory and by their speed, and time both.

    MODEL is a catalogue name, a path to a config.json, or a folder that holds one. Without --tensor-split llama.cpp
    deals by memory; by speed the fastest accelerators get as much as they hold.
    """
    result = run_split(request)
    if as_json:
        render.show_json(result.facts)
        return
    _show(result.facts)


def _show(f: dict[str, Any]) -> None:
    render.show_lines(f"{f['model']} on {', '.join(f['cards'])}", _sentences(f))
    for way in f["ways"]:
        rows = [
            (card, str(layers), show(size, "B"), show(time, "s"))
            for card, layers, size, time in zip(f["cards"], way["layers"], way["bytes"], way["card_times"], strict=True)
        ]
        render.show_table(
            f"layers by {way['by']}", ["accelerator", ">layers", ">memory", ">time per token"], rows, _note(way)
        )
    render.show_lines("assumed", f["assumptions"])


def _sentences(f: dict[str, Any]) -> list[str]:
    speeds = {way["by"]: way["tokens_per_second"] for way in f["ways"]}
    best = f["ways"][-1]
    low, high = (f["batch"] / time for time in reversed(best["time_range"]))
    lines = [
        f"{show(f['bytes'], 'B')} with the cache of {f['batch']:g} x {f['context']:,.0f} tokens; dealt by speed "
        f"{speeds['speed']:.3g} tokens/s ({low:.3g} to {high:.3g})."
    ]
    if speeds["memory"] is None:
        return [*lines, "Dealt by memory it does not fit."]
    return [*lines, f"Dealt by memory, as llama.cpp does without --tensor-split, {speeds['memory']:.3g} tokens/s."]


def _note(way: dict[str, Any]) -> str:
    if not way["fits"]:
        return f"does not fit; {way['flags']}"
    return f"{way['prompt_tokens_per_second']:,.0f} tokens/s of prompts; {way['flags']}"
