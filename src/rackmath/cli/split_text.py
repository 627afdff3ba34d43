"""A model on unlike accelerators as text: the layers of each, by memory and by speed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackmath.cli import render
from rackmath.units import show


def show_split(f: Mapping[str, Any]) -> None:
    """Print both ways to deal the layers."""
    render.show_lines(f"{f['model']} on {', '.join(f['cards'])}", _sentences(f))
    for way in f["ways"]:
        rows = [
            (card, str(layers), show(size, "B"), show(time, "s"))
            for card, layers, size, time in zip(f["cards"], way["layers"], way["bytes"], way["card_times"], strict=True)
        ]
        render.show_table(
            f"layers by {way['by']}", ["accelerator", ">layers", ">memory", ">time per token"], rows, _note(way)
        )


def _sentences(f: Mapping[str, Any]) -> list[str]:
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


def _note(way: Mapping[str, Any]) -> str:
    if not way["fits"]:
        return f"does not fit; {way['flags']}"
    return f"{way['prompt_tokens_per_second']:,.0f} tokens/s of prompts; {way['flags']}"
