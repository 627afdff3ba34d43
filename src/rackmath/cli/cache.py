"""``cache``: where keys and values wait between two uses, and what that costs."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import click
import numpy as np

from rackmath import catalogue, constants_file
from rackmath.api.lists import names
from rackmath.caching.lifetimes import best_lifetime, pareto, ski_rental
from rackmath.caching.tiers import LIFETIME, RECOMPUTE, TierCost, by_drain_time, cheapest, prompt_cost, tier_costs
from rackmath.cli import render
from rackmath.cli.figures import save
from rackmath.cli.quantities import NUMBER, SECONDS
from rackmath.constants_file import DEFAULT_ENGINE, FAMILIES, NOW
from rackmath.engine import estimate, parse_layout
from rackmath.errors import InputError
from rackmath.figures import Figure, Panel, Series
from rackmath.figures.write import check_picture
from rackmath.hardware import MemoryTier, System
from rackmath.models.cache import cache_bytes
from rackmath.models.formats import cache_format
from rackmath.models.requantise import requantise
from rackmath.units import show

PRODUCTS = {"5 minutes": 300.0, "30 minutes": 1800.0, "1 hour": 3600.0, "12 hours": 43_200.0}
"""Durations that caches are sold for."""
RENTS = {"high": 4.5, "low": 1.0}
"""Published storage rents. [USD per million tokens and hour]"""
_YEAR = 365.25 * 86_400.0
_PARTS = (0.0, 0.5, 0.9, 0.99)
_WIDEST = 8
"""Accelerators that read a prompt together, unless another layout is asked for."""
_LEAST = 1e-9
"""Smallest cost that a logarithmic picture shows. [USD per million tokens]"""


@click.command(epilog="Example: rackmath cache deepseek-v3 --on h200-sxm --layout ep8,dp8 --context 50000")
@click.argument("model", metavar="MODEL")
@click.option("--on", "on", required=True, metavar="SYSTEM", help="Catalogue name, or path of a TOML file.")
@click.option("--layout", help="Layout that reads prompts (default: tp8, or as wide as the scale-up domain).")
@click.option("--context", type=NUMBER, default=20_000.0, show_default=True, help="Tokens of the prefix that is kept.")
@click.option("--kv", help="Format of the cache (default: the config's).")
@click.option("--tiers", help="Tiers to consider, such as ddr5,nvme-tlc (default: all of the catalogue).")
@click.option("--remote", is_flag=True, help="Devices stand behind the scale-out network.")
@click.option("--waiting", is_flag=True, help="The accelerator waits for the bytes instead of overlapping them.")
@click.option("--years", type=NUMBER, default=LIFETIME / _YEAR, show_default=True, help="Devices are written off over.")
@click.option("--memory-price", type=NUMBER, default=1.0, show_default=True, help="Factor on all prices of devices.")
@click.option(
    "--reuse", type=SECONDS, default=300.0, show_default=True, help="Half of the next uses come within, in s."
)
@click.option("--engine", type=click.Choice(FAMILIES), default=DEFAULT_ENGINE, show_default=True)
@click.option("--year", type=NUMBER, default=NOW, show_default=True, help="When the engine's version is from.")
@click.option("--usd-per-gpu-hour", type=NUMBER, help="Price of one accelerator, if not the catalogue's.")
@click.option("--plot", metavar="FILE", help="Draw cost against hold time: FILE.html, FILE.png or FILE.svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def cache(
    model: str,
    on: str,
    layout: str | None,
    context: float,
    kv: str | None,
    tiers: str | None,
    remote: bool,
    waiting: bool,
    years: float,
    memory_price: float,
    reuse: float,
    engine: str,
    year: float,
    usd_per_gpu_hour: float | None,
    plot: str | None,
    as_json: bool,
) -> None:
    """Cost to hold a token's cache in each tier, to bring it back, or to compute it again.

    MODEL is a catalogue name, a path to a config.json, or a folder that holds one.
    """
    drawn = check_picture(plot)
    architecture = requantise(catalogue.model(model), cache=cache_format(kv) if kv else None)
    system = catalogue.system(on)
    for field, value in (("--memory-price", memory_price), ("--reuse", reuse), ("--context", context)):
        if not 0 < value < 1e12:
            raise InputError(field, value, "write a positive number")
    price = catalogue.price_of(system, usd_per_gpu_hour)
    if price is None:
        raise InputError("--usd-per-gpu-hour", None, f"no price of {system.name} is known: give one")
    losses = constants_file.losses_of(system, constants_file.engine_of(system, engine, year), "prompt pass")
    layout = layout or f"tp{min(system.domain, _WIDEST)}"
    spread = parse_layout(layout, None, architecture)
    prompt = estimate(architecture, system, spread, batch=spread.data, context=context, phase="prefill", losses=losses)
    alone = estimate(architecture, system, spread, batch=1.0, context=context, phase="prefill", losses=losses)
    group = float(prompt.gpus / spread.data)
    known = catalogue.tiers()
    wanted = names(tiers, "--tiers") or list(known)
    for name in wanted:
        if name not in known:
            raise InputError("--tiers", name, f"known are {', '.join(known)}")
    costs = tier_costs(
        system,
        [_dearer(known[name], memory_price) for name in wanted],
        kv_bytes=float(cache_bytes(architecture, context)) / context,
        prefill_time=float(prompt.time) * group / context,
        price=price,
        prefill_wait=float(alone.time) / context,
        link_bytes=float(alone.memory.cache) / context,
        group=group,
        overlapped=not waiting,
        remote=remote,
        lifetime=years * _YEAR,
    )
    facts = _facts(architecture.name, system.name, costs, context, reuse)
    facts["prefill_range"] = [float(prompt.time_low / prompt.time), float(prompt.time_high / prompt.time)]
    facts["assumptions"] = [
        *catalogue.price_note(system, usd_per_gpu_hour),
        f"prompts of {context:g} tokens read by {engine} of {year:g} in {layout}",
        f"devices written off over {years:g} years",
        "retrieval "
        + ("stops the accelerator" if waiting else "overlaps other work")
        + ("; devices stand behind the scale-out network" if remote else ""),
        _link_note(system),
    ]
    if drawn is not None:
        save(_figure(facts, costs), drawn)
    if as_json:
        render.show_json(facts)
        return
    _show(facts, costs)


def _link_note(system: System) -> str:
    if system.host_link is None:
        return f"no link between host and accelerators of {system.name} is known or needed: devices at their own speed"
    return f"devices reach each accelerator over its link to the host, {show(system.host_link, 'B/s')}"


def _dearer(tier: MemoryTier, factor: float) -> MemoryTier:
    return replace(tier, price=tier.price * factor)


def _facts(model: str, system: str, costs: list[TierCost], context: float, reuse: float) -> dict[str, Any]:
    stays = cheapest(costs)
    again = next(c for c in costs if c.name == RECOMPUTE).retrieve
    placed: dict[str, Any] = {}
    for name, held in PRODUCTS.items():
        best = min(costs, key=lambda c: c.cost(held))
        placed[name] = {
            "cheapest": best.name,
            "usd_per_million": best.cost(held) * 1e6,
            "recompute_usd_per_million": again * 1e6,
            "by_drain_time": by_drain_time(costs, held),
        }
    # A heavy tail with half of its uses within ``reuse``: shape 1, the border of a finite mean.
    survival = pareto(reuse, 1.0)
    kept = {}
    for c in costs:
        if c.hold <= 0 or again <= c.retrieve:
            continue
        saved = again - c.retrieve
        best = best_lifetime(c.hold, saved, survival, 1e9)
        kept[c.name] = {"break_even": ski_rental(c.hold, saved), "best": None if best.keep == inf else best.keep}
    device = min((c for c in costs if c.hold > 0 and c.retrieve > 0), key=lambda c: c.cost(3600.0), default=None)
    return {
        "model": model,
        "system": system,
        "context": context,
        "tiers": [
            {
                "tier": c.name,
                "drain_time": c.drain_time,
                "hold_usd_per_million_hour": c.hold * 3600 * 1e6,
                "retrieve_usd_per_million": c.retrieve * 1e6,
                "wait": c.wait * context,
                "accelerator_seconds": c.accelerator_seconds * context,
            }
            for c in costs
        ],
        "cheapest": [{"tier": s.tier, "from": s.start, "to": None if s.stop == inf else s.stop} for s in stays],
        "products": placed,
        "rents": {
            name: {c.name: rent / (c.hold * 3600 * 1e6) for c in costs if c.hold > 0} for name, rent in RENTS.items()
        },
        "keep": kept,
        "prompt": {
            str(f): prompt_cost(again, again if device is None else device.retrieve, f) * 1e6
            for f in (0.0, 0.5, 0.9, 0.99)
        },
    }


def _show(facts: dict[str, Any], costs: list[TierCost]) -> None:
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
                    for name in RENTS
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
    render.show_sketch(_figure(facts, costs))
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


def _figure(facts: dict[str, Any], costs: list[TierCost]) -> Figure:
    held = np.geomspace(1e-3, 1e7, 200)
    return Figure(
        title=f"{facts['model']} on {facts['system']}: cost of one use against time held",
        panels=[
            Panel(
                across="seconds held",
                up="$ per million tokens",
                log_across=True,
                log_up=True,
                series=[
                    Series(name=c.name, x=list(held), y=[max(c.cost(float(t)) * 1e6, 1e-9) for t in held])
                    for c in costs
                ],
            )
        ],
        note="; ".join(facts["assumptions"][:3]),
    )
