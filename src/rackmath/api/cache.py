"""Where keys and values wait between two uses, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Annotated, Any

import numpy as np

from rackmath.api import kinds, options
from rackmath.api.energy import energy_of
from rackmath.api.fields import Option, read_fields
from rackmath.api.lists import names
from rackmath.api.result import Result
from rackmath.api.subjects import load_model, system_of
from rackmath.caching.lifetimes import best_lifetime, pareto, ski_rental
from rackmath.caching.tiers import LIFETIME, RECOMPUTE, TierCost, by_drain_time, cheapest, prompt_cost, tier_costs
from rackmath.engine import parse_layout
from rackmath.errors import InputError
from rackmath.figures import Figure, Panel, Series
from rackmath.hardware import MemoryTier, System
from rackmath.io import catalogue, constants_file
from rackmath.io.constants_file import DEFAULT_ENGINE, NOW
from rackmath.models.architecture import Architecture
from rackmath.models.cache import cache_bytes
from rackmath.serving.long_prompts import read_prompts
from rackmath.serving.variants import as_read
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRequest:
    """A prefix that waits between two uses."""

    model: Annotated[str | Architecture, options.MODEL]
    on: Annotated[str | System, options.SYSTEM]
    layout: Annotated[
        str | None,
        options.LAYOUT.but(help="Layout that reads prompts (default: tp8, or as wide as the scale-up domain)."),
    ] = None
    context: Annotated[float, Option(help="Tokens of the prefix that is kept.", kind=kinds.NUMBER)] = 20000.0
    kv: Annotated[str | None, options.CACHE] = None
    tiers: Annotated[
        str | None, Option(help="Tiers to consider, such as ddr5,nvme-tlc (default: all of the catalogue).")
    ] = None
    remote: Annotated[bool, Option(help="Devices stand behind the scale-out network.", kind=kinds.FLAG)] = False
    waiting: Annotated[
        bool, Option(help="The accelerator waits for the bytes instead of overlapping them.", kind=kinds.FLAG)
    ] = False
    years: Annotated[float, Option(help="Years that devices are written off over.", kind=kinds.NUMBER)] = (
        LIFETIME / _YEAR
    )
    memory_price: Annotated[float, Option(help="Factor on all prices of devices.", kind=kinds.NUMBER)] = 1.0
    reuse: Annotated[float, Option(help="Time within which half of the next uses come, in s.", kind=kinds.SECONDS)] = (
        300.0
    )
    engine: Annotated[str, options.ENGINE] = DEFAULT_ENGINE
    year: Annotated[float, options.YEAR] = NOW
    usd_per_gpu_hour: Annotated[float | None, options.USD_PER_GPU_HOUR] = None
    grid: Annotated[float | None, options.GRID] = None

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)


def run_cache(r: CacheRequest) -> Result:
    """Cost to hold a token's cache in each tier, to bring it back, or to compute it again.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range.
    """
    architecture, notes = as_read(load_model(r.model), r.engine, None, r.kv)
    system = system_of(r.on)
    for field, value in (("--memory-price", r.memory_price), ("--reuse", r.reuse), ("--context", r.context)):
        if not 1e-12 < value < 1e12:
            raise InputError(field, value, "write a number between 1e-12 and 1e12")
    price = catalogue.price_of(system, r.usd_per_gpu_hour)
    if price is None:
        raise InputError("--usd-per-gpu-hour", None, f"no price of {system.name} is known: give one")
    losses = constants_file.losses_of(system, constants_file.engine_of(system, r.engine, r.year), "prompt pass")
    layout = r.layout or f"tp{min(system.domain, _WIDEST)}"
    spread = parse_layout(layout, None, architecture)
    prompt, alone = (
        read_prompts(architecture, system, spread, batch=batch, context=r.context, losses=losses)
        for batch in (spread.data, 1.0)
    )
    group = float(prompt.gpus / spread.data)
    catalogue_tiers = catalogue.tiers()
    tier_names = names(r.tiers, "--tiers") or list(catalogue_tiers)
    for name in tier_names:
        if name not in catalogue_tiers:
            raise InputError("--tiers", name, f"known are {', '.join(catalogue_tiers)}")
    costs = tier_costs(
        system,
        [_dearer(catalogue_tiers[name], r.memory_price) for name in tier_names],
        kv_bytes=float(cache_bytes(architecture, r.context)) / r.context,
        prefill_time=float(prompt.time) * group / r.context,
        price=price,
        prefill_wait=float(alone.time) / r.context,
        link_bytes=float(alone.memory.cache) / r.context,
        group=group,
        overlap=not r.waiting,
        remote=r.remote,
        lifetime=r.years * _YEAR,
    )
    facts = _facts(architecture.name, system.name, costs, r.context, r.reuse)
    facts["prefill_range"] = [float(prompt.time_low / prompt.time), float(prompt.time_high / prompt.time)]
    facts["recompute_energy"] = energy_of(prompt, system.chip, r.grid)
    facts["assumptions"] = [
        *notes,
        *catalogue.price_note(system, r.usd_per_gpu_hour),
        f"prompts of {r.context:g} tokens read by {r.engine} of {r.year:g} in {layout}",
        f"devices written off over {r.years:g} years",
        "retrieval "
        + ("stops the accelerator" if r.waiting else "overlaps other work")
        + ("; devices stand behind the scale-out network" if r.remote else ""),
        _link_note(system),
    ]
    return Result(request=r, facts=facts, draw=lambda: _figure(facts, costs))


def _link_note(system: System) -> str:
    if system.host_link is None:
        return f"no link between host and accelerators of {system.name} is known or needed: devices at their own speed"
    return f"devices reach each accelerator over its link to the host, {show(system.host_link, 'B/s')}"


def _dearer(tier: MemoryTier, factor: float) -> MemoryTier:
    return replace(tier, price=tier.price * factor)


def _facts(model: str, system: str, costs: list[TierCost], context: float, reuse: float) -> dict[str, Any]:
    stays = cheapest(costs)
    again = next(c for c in costs if c.name == RECOMPUTE).retrieve
    tier_facts: dict[str, Any] = {}
    for name, duration in PRODUCTS.items():
        best = min(costs, key=lambda c: c.cost(duration))
        tier_facts[name] = {
            "cheapest": best.name,
            "usd_per_million": best.cost(duration) * 1e6,
            "recompute_usd_per_million": again * 1e6,
            "by_drain_time": by_drain_time(costs, duration),
        }
    # A heavy tail with half of its uses within ``reuse``: shape 1, the border of a finite mean.
    survival = pareto(reuse, 1.0)
    break_evens = {}
    for c in costs:
        if c.hold <= 0 or again <= c.retrieve:
            continue
        time_saved = again - c.retrieve
        best = best_lifetime(c.hold, time_saved, survival, 1e9)
        break_evens[c.name] = {
            "break_even": ski_rental(c.hold, time_saved),
            "best": None if best.keep == inf else best.keep,
        }
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
        "products": tier_facts,
        "rents": {
            name: {c.name: rent / (c.hold * 3600 * 1e6) for c in costs if c.hold > 0} for name, rent in RENTS.items()
        },
        "keep": break_evens,
        "prompt": {
            str(f): prompt_cost(again, again if device is None else device.retrieve, f) * 1e6
            for f in (0.0, 0.5, 0.9, 0.99)
        },
    }


def _figure(facts: dict[str, Any], costs: list[TierCost]) -> Figure:
    durations = np.geomspace(1e-3, 1e7, 200)
    return Figure(
        title=f"{facts['model']} on {facts['system']}: cost of one use against time held",
        panels=[
            Panel(
                across="seconds held",
                up="$ per million tokens",
                log_across=True,
                log_up=True,
                series=[
                    Series(name=c.name, x=list(durations), y=[max(c.cost(float(t)) * 1e6, 1e-9) for t in durations])
                    for c in costs
                ],
            )
        ],
        note="; ".join(facts["assumptions"][:3]),
    )
