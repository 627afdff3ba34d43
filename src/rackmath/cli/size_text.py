"""``plan`` with a rate and limits on percentiles: the fewest accelerators as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackmath.cli import render
from rackmath.units import show


def show_size(f: Mapping[str, Any]) -> None:
    """Print the answer, the next smaller and larger, and what would change it."""
    render.show_lines(_headline(f), _sentences(f))
    sizes = [part for part in (f["smaller"], f["chosen"], f["larger"]) if part is not None]
    render.show_table(
        "simulated",
        [
            ">accelerators",
            *(f">{_name(row)}" for row in f["chosen"]["limits"]),
            ">busy",
            ">$ per M",
            "",
        ],
        [_line(size, f["accelerators"]) for size in sizes],
    )
    render.show_lines("what would change it", _changes(f))
    render.show_table(
        "deployments tried",
        ["layout", "weights", "kv", ">batch", ">copies", ">accelerators"],
        [
            (
                f"{row['units']:.0f} x ({row['layout']})" if row["units"] > 1 else row["layout"],
                row["weights"],
                row["kv"],
                f"{row['batch']:.0f}",
                f"{row['copies']}" if row["copies"] else "-",
                f"{row['accelerators']:,}" if row["copies"] else "not fewer",
            )
            for row in f["tried"]
        ],
    )
    name = next(name for name in ("vllm", "llama.cpp") if name in f["launch"])
    render.show_script(f"one copy, {name}", f["launch"][name])
    render.show_lines("assumed", f["assumptions"])


def _headline(f: Mapping[str, Any]) -> str:
    cost = "" if f["usd_per_hour"] is None else f", {f['usd_per_hour']:,.4g} $/h"
    power = f["chosen"]["kilowatts"]
    cost += "" if power is None else f", {power:.3g} kW"
    boxes = "" if f["boxes"] == f["accelerators"] else f" in {f['boxes']:,} box{'es' if f['boxes'] > 1 else ''}"
    return f"{f['model']} at {f['rate']:g} requests/s: {f['accelerators']:,} of {f['system']}{boxes}{cost}"


def _sentences(f: Mapping[str, Any]) -> list[str]:
    d = f["deployment"]
    limits_text = ", ".join(f"{_name(row)} {show(row['value'], 's')}" for row in f["chosen"]["limits"])
    low, high = f["accelerators_range"]
    wide = (
        "if steps take the upper end of their range, more copies of this deployment do not keep the limits"
        if high is None
        else f"{high:,} if steps take the upper end of their range"
    )
    return [
        f"{f['copies'] * d['units']:.0f} x ({d['layout']}), {d['weights']} weights, {d['kv']} cache: {limits_text}.",
        f"{low:,} if steps take the lower end of their range; {wide}.",
    ]


def _name(row: Mapping[str, Any]) -> str:
    short = {"time_to_first_token": "TTFT", "time_per_output_token": "TPOT"}[row["quantity"]]
    return f"{short} {row['percentile']}"


def _line(size: Mapping[str, Any], choice: int) -> list[str]:
    cost = size["usd_per_million_tokens"]
    meets_limits = all(row["kept"] for row in size["limits"])
    words = "chosen" if size["accelerators"] == choice else "" if meets_limits else "does not keep them"
    return [
        f"{size['accelerators']:,}",
        *(
            f"{show(row['value'], 's')} ({show(row['range'][0], 's')} to {show(row['range'][1], 's')})"
            for row in size["limits"]
        ),
        f"{size['utilisation']:.0%}",
        "-" if cost is None else f"{cost:.3g}",
        words,
    ]


def _changes(f: Mapping[str, Any]) -> list[str]:
    return [
        f"{row['change']}: {row['accelerators']:,} accelerators"
        if row["accelerators"] != f["accelerators"]
        else f"{row['change']}: as many"
        for row in f["changes"]
    ]
