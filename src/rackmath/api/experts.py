"""A mixture's experts on the accelerators of a rack, with copies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from rackmath.api import kinds, options
from rackmath.api.fields import Option, read_fields
from rackmath.api.result import Result
from rackmath.api.routing import INTERVAL_OPTION, LOAD, SKEW, routing_of
from rackmath.api.subjects import load_model, system_of
from rackmath.engine.collectives import all_to_all
from rackmath.engine.expert_load import fullest_rank, redundant_experts
from rackmath.errors import InputError
from rackmath.figures import Figure, Panel, Series
from rackmath.hardware import System
from rackmath.models.architecture import Architecture, Experts
from rackmath.models.counts import weight_bytes
from rackmath.models.formats import weight_format
from rackmath.models.requantise import requantise
from rackmath.models.routing import INTERVAL, Routing
from rackmath.serving.launch_redundancy import redundancy_flags
from rackmath.serving.placement import Placement, place, place_by_load


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertsRequest:
    """A mixture, and the width of its expert parallelism."""

    model: Annotated[str | Architecture, options.MODEL]
    on: Annotated[str | System, options.SYSTEM]
    ranks: Annotated[
        int | None,
        Option(help="Width of expert parallelism (default: one scale-up domain).", kind=kinds.whole(1, 100000)),
    ] = None
    redundant: Annotated[
        int | None,
        Option(
            help="Copies of experts beyond one of each (default: the fewest that divide).", kind=kinds.whole(0, 10**6)
        ),
    ] = None
    expert_skew: Annotated[float | None, SKEW] = None
    expert_load: Annotated[str | None, LOAD] = None
    eplb_step_interval: Annotated[int, INTERVAL_OPTION] = INTERVAL
    weights: Annotated[str | None, options.WEIGHTS] = None

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)


def run_experts(r: ExpertsRequest) -> Result:
    """Lay the routed experts of a mixture out on accelerators, with copies where their number does not divide.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range.
    """
    a = load_model(r.model)
    if r.weights:
        a = requantise(a, weight_format(r.weights))
    system = system_of(r.on)
    count, layers, active = _experts_of(a)
    ranks = system.domain if r.ranks is None else r.ranks
    routing = routing_of(r.expert_skew, r.expert_load)
    if routing is None and r.eplb_step_interval != INTERVAL:
        raise InputError("--eplb-step-interval", r.eplb_step_interval, "give --expert-skew or --expert-load as well")
    size = weight_bytes(a)["experts"] / count
    if routing is None:
        placement = place(count, ranks, r.redundant)
    else:
        placement = place_by_load(routing.chances(count, active).mean(axis=0), ranks, r.redundant)
    interval = None if routing is None else r.eplb_step_interval
    facts = _facts(a, system.name, placement, layers, size, system.chip.memory_capacity, interval)
    facts["placements"] = [] if routing is None else _placements(placement, routing, active)
    facts["rebalancing"] = None if ranks == 1 else float(all_to_all(facts["bytes_per_rank"], ranks, system))
    facts["rebalanced_every"] = interval
    return Result(request=r, facts=facts, draw=lambda: _figure(facts, placement), details=placement)


def _placements(placement: Placement, routing: Routing, active: float) -> list[dict[str, Any]]:
    """Tokens of the fullest rank over the mean under ways to place experts: in order, by load, with copies."""
    ranks, experts = len(placement.held), len(placement.copies)
    ways: list[tuple[str, int | None]] = [("in order", None)]
    ways += [("by load", spare) for spare in sorted({0, placement.redundant, ranks, 2 * ranks})]
    return [
        {
            "placed": name,
            "redundant": 0 if spare is None else redundant_experts(experts, ranks, spare),
            "heaviest_load": fullest_rank(replace(routing, redundant=spare), experts, active, ranks) * ranks,
        }
        for name, spare in ways
    ]


def _experts_of(a: Architecture) -> tuple[int, int, float]:
    """Routed experts of a layer, layers that have them, and experts that a token meets."""
    mixtures = [part for layer in a.layers for part in layer.feed_forwards if isinstance(part, Experts)]
    counts = [part.experts for part in mixtures]
    if not counts:
        raise InputError("MODEL", a.name, "has no experts: name a mixture, such as deepseek-v3")
    if len(set(counts)) > 1:
        raise InputError(
            "MODEL",
            a.name,
            f"has layers of {', '.join(map(str, sorted(set(counts))))} experts: no one layout is theirs",
        )
    return counts[0], len(counts), mixtures[0].expected_active


def _facts(
    a: Architecture,
    system: str,
    placement: Placement,
    layers: int,
    size: float,
    memory: float,
    interval: int | None,
) -> dict[str, Any]:
    places = placement.held.shape[1]
    return {
        "model": a.name,
        "system": system,
        "experts": len(placement.copies),
        "layers": layers,
        "ranks": len(placement.held),
        "experts_per_rank": places,
        "redundant": placement.redundant,
        "bytes_per_rank": places * size,
        "redundant_bytes": placement.redundant * size,
        "memory_share": places * size / memory,
        "heaviest_load": float(placement.load.max()),
        "held": placement.held,
        "copies": placement.copies,
        "flags": redundancy_flags(placement.redundant, interval),
    }


def _figure(f: dict[str, Any], placement: Placement) -> Figure:
    """Experts across, accelerators up; copied ones in a colour of their own."""
    rank = np.repeat(np.arange(len(placement.held)), placement.held.shape[1])
    expert = placement.held.ravel()
    has_copies = placement.copies[expert] > 1
    series = [
        Series(
            name=name,
            x=[float(e) for e in expert[selection]],
            y=[float(r) for r in rank[selection]],
            kind="points",
            labels=[f"expert {e} on accelerator {r}" for e, r in zip(expert[selection], rank[selection], strict=True)],
        )
        for name, selection in (("on one accelerator", ~has_copies), ("copied", has_copies))
        if selection.any()
    ]
    return Figure(
        title=f"{f['experts']} experts of {f['model']} on {f['ranks']} accelerators of {f['system']}",
        panels=[Panel(across="expert", up="accelerator", series=series)],
        note=f"{f['experts_per_rank']} experts of each of {f['layers']} layers on each; {f['redundant']} copies",
    )
