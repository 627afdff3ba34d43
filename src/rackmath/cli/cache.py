"""``cache``: where keys and values wait between two uses, and what that costs."""

from __future__ import annotations

from typing import Any

import click

from rackmath.api.cache import CacheRequest, run_cache
from rackmath.api.result import Result
from rackmath.api.study_summaries import cache_summary
from rackmath.cli import render
from rackmath.cli.estimate_text import energy_text
from rackmath.cli.options import request_options
from rackmath.figures.write import check_picture, write_figure
from rackmath.units import show


@click.command(epilog="Example: rackmath lecture cache deepseek-v3 --on h200-sxm --layout ep8,dp8 --context 50000")
@request_options(CacheRequest)
@click.option("--plot", metavar="FILE", help="Draw cost against hold time: FILE.html, FILE.png or FILE.svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def cache(request: CacheRequest, plot: str | None, as_json: bool) -> None:
    """Cost to hold a token's cache in each tier, to bring it back, or to compute it again.

    MODEL is a catalogue name, a path to a config.json, or a folder that holds one.
    """
    picture = check_picture(plot)
    result = run_cache(request)
    if picture is not None:
        write_figure(result.picture(), picture)
    if as_json:
        render.show_json(result.facts)
        return
    _show(result)


def _show(result: Result) -> None:
    facts = result.facts
    render.show_lines("in short", cache_summary(facts))
    render.show_table(
        f"{facts['model']} on {facts['system']}, prefix of {facts['context']:,.0f} tokens; $ per million tokens",
        [
            "tier",
            ">drain time",
            ">hold per hour",
            ">bring back",
            ">user waits",
            ">GPU s",
            ">4.50 $ rent",
            ">1.00 $ rent",
        ],
        [
            (
                t["tier"],
                show(t["drain_time"], "s") if t["drain_time"] else "-",
                f"{t['hold_usd_per_million_hour']:.3g}",
                f"{t['retrieve_usd_per_million']:.3g}",
                show(t["wait"], "s"),
                show(t["accelerator_seconds"], "s"),
                *(
                    f"{facts['rents'][name][t['tier']]:,.0f}" if t["tier"] in facts["rents"][name] else "-"
                    for name in facts["rents"]
                ),
            )
            for t in facts["tiers"]
        ],
        note="rents: published storage prices per million tokens and hour, as a multiple of what holding costs here;"
        " GPU s: accelerator time that a prefix keeps from other work",
    )
    render.show_table(
        "cheapest by hold time",
        ["tier", ">from", ">to"],
        [(s["tier"], show(s["from"], "s"), "-" if s["to"] is None else show(s["to"], "s")) for s in facts["cheapest"]],
    )
    render.show_table(
        "durations that are sold",
        ["duration", "cheapest", ">$/M, once used", ">computed again", "by drain time"],
        [
            (
                name,
                p["cheapest"],
                f"{p['usd_per_million']:.3g}",
                f"{p['recompute_usd_per_million']:.3g}",
                p["by_drain_time"],
            )
            for name, p in facts["products"].items()
        ],
    )
    _show_keeping(facts)
    if facts["recompute_energy"] is not None:
        render.show_lines("energy of computing it again", [energy_text(facts["recompute_energy"])])
    render.show_sketch(result.picture())
    render.show_lines("assumed", facts["assumptions"])


def _show_keeping(facts: dict[str, Any]) -> None:
    render.show_table(
        "how long to keep",
        ["tier", ">knowing nothing", ">heavy tail of uses"],
        [
            (name, show(k["break_even"], "s"), "always" if k["best"] is None else show(k["best"], "s"))
            for name, k in facts["keep"].items()
        ],
    )
    render.show_lines(
        "a prompt whose prefix is cached costs, $ per million tokens",
        ["  ".join(f"{float(f):.0%}: {cost:.3g}" for f, cost in facts["prompt"].items())],
    )
