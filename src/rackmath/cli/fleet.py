"""``fleet``: what the world's tokens take."""

from __future__ import annotations

from typing import Any

import click

from rackmath.api.fleet import FleetRequest, run_fleet
from rackmath.api.study_summaries import fleet_summary
from rackmath.cli import render
from rackmath.cli.estimate_text import energy_text
from rackmath.cli.options import request_options
from rackmath.units import short_count

_BARS = 40


@click.command(
    epilog="Example: rackmath lecture fleet deepseek-v3 --on gb200-nvl72 --gpus 16 --input 4000 --output 1000 --ttft 2 "
    "--tpot 0.05 --one-pool --tokens-per-second 1e8"
)
@request_options(FleetRequest)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def fleet(request: FleetRequest, as_json: bool) -> None:
    """Size a fleet for a load: replicas, racks, megawatts, capital, dollars per million tokens.

    One unit is the best deployment of `rackmath plan` under the limits on up to --gpus
    accelerators; the fleet repeats it. Rent is paid for the whole fleet all day.
    """
    result = run_fleet(request)
    if as_json:
        render.show_json(result.facts)
        return
    _show_fleet(result.facts, result.details)


def _show_fleet(facts: dict[str, Any], load: float) -> None:
    def ranged(name: str, form: str) -> str:
        f = facts[name]
        if f["value"] is None:
            return "unknown"
        return f"{f['value']:{form}} ({f['low']:{form}} to {f['high']:{form}})"

    capital, memory = facts["capital"], facts["memory_capital"]
    render.show_lines("in short", fleet_summary(facts, load))
    render.show_pairs(
        f"{facts['model']} on {facts['system']} for {load:,.0f} output tokens per second",
        [
            (
                "unit",
                f"{facts['unit']}, {facts['unit_gpus']:.0f} GPUs, {facts['unit_tokens_per_second']:,.0f} tokens/s",
            ),
            ("replicas", ranged("replicas", ",.0f")),
            ("accelerators", ranged("gpus", ",.0f")),
            ("racks", ranged("racks", ",.1f")),
            ("megawatts at full load", ranged("megawatts", ",.3g")),
            ("utilisation", f"{facts['utilisation']:.0%} over the day"),
            *([("energy, idle hours included", energy_text(facts["energy"]))] if facts["energy"] else []),
            ("$ per million tokens", ranged("usd_per_million", ".3g")),
            ("capital", "unknown" if capital is None else f"{short_count(capital[0])} to {short_count(capital[1])} $"),
            (
                "of which memory",
                "unknown" if memory is None else f"{short_count(memory[0])} to {short_count(memory[1])} $",
            ),
            ("memory price implied", _per_gigabyte(facts["memory_price"])),
        ],
    )
    render.show_lines(
        "load over capacity by hour",
        [f"{hour:02d}:00  {share:4.0%}  {'#' * round(_BARS * share)}" for hour, share in enumerate(facts["hours"])],
    )
    render.show_lines("assumed", facts["assumptions"])


def _per_gigabyte(price: tuple[float, float] | None) -> str:
    return (
        "unknown" if price is None else f"{price[0] * 1e9:.2g} to {price[1] * 1e9:.2g} $ per GB, HBM and host together"
    )
