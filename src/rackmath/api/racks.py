"""What fits in which scale-up domain, at what latency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from rackmath.api import kinds
from rackmath.api.fields import Option, read_fields
from rackmath.api.lists import numbers
from rackmath.api.result import Result
from rackmath.errors import InputError
from rackmath.figures import Figure, Panel, Series
from rackmath.hardware import System
from rackmath.io import catalogue
from rackmath.models.formats import weight_format
from rackmath.serving.racks import domain_fits, domain_of, half_memory, largest_model, pipelined, slowdown_over

DOMAINS = "h100-sxm,gb200-nvl72,vr200-nvl72,rubin-ultra-nvl144"
"""Hopper 8, Blackwell 72, Rubin 72, Rubin Ultra 144 packages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RacksRequest:
    """Scale-up domains, and models of several sizes."""

    on: Annotated[str, Option(help="Catalogue names.", metavar="SYSTEM[,SYSTEM...]")] = DOMAINS
    domain: Annotated[str | None, Option(help="Hypothetical domains of the first system, such as 16,256.")] = None
    sizes: Annotated[str, Option(help="Trillions of parameters.")] = "0.1,0.3,1,2,5,10,20"
    sparsity: Annotated[str, Option(help="Total over active parameters.")] = "1,8,32,128"
    weights: Annotated[str, Option(help="Format of the weights.")] = "fp8"
    context: Annotated[float, Option(help="Tokens of a request.", kind=kinds.NUMBER)] = 8192.0
    kv_bytes: Annotated[float, Option(help="Cache bytes per token.", kind=kinds.BYTES)] = 70000.0

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)


def run_racks(r: RacksRequest) -> Result:
    """Say which models fit which scale-up domain, at what latency, and what leaving it costs.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range.
    """
    form = weight_format(r.weights)
    if not 0 < r.context <= 1e9 or not 0 < r.kv_bytes <= 1e9:
        raise InputError("--context", r.context, "write positive numbers of tokens and bytes, at most 1e9")
    systems = [catalogue.system(name) for name in r.on.split(",")]
    systems += [domain_of(systems[0], int(n)) for n in numbers(r.domain, "--domain", 1, 1e6)]
    trillions = [n * 1e12 for n in numbers(r.sizes, "--sizes", 1e-6, 1e6)]
    sparsities = numbers(r.sparsity, "--sparsity", 1, 1e6)
    facts: list[dict[str, Any]] = []
    for system in systems:
        fits = domain_fits(system, trillions, sparsities, form, context=r.context, kv_bytes_per_token=r.kv_bytes)
        facts.append(
            {
                "system": system.name,
                "domain": system.domain,
                "year": system.chip.year,
                "memory": system.domain_capacity,
                "largest_params": largest_model(system, form),
                "drain_time": system.chip.memory_capacity / system.chip.memory_bandwidth,
                "models": fits,
                **_network(system),
                **_halved(system, largest_model(system, form)),
            }
        )
    return Result(request=r, facts=facts, draw=lambda: _rack_figure(systems, facts, form.name), details=form.name)


def _network(system: System) -> dict[str, Any]:
    """Two racks and pipelines, where there are two networks."""
    ratio = system.network_ratio
    if ratio is None:
        return {"network_ratio": None, "two_racks_slowdown": None, "pipeline_ratio": None}
    return {
        "network_ratio": ratio,
        "two_racks_slowdown": float(slowdown_over(2.0, system)),
        # Scale-up over scale-out time of a stage of one layer with 8 active experts.
        "pipeline_ratio": 8 * 2 / ratio,
    }


def _halved(system: System, params: float) -> dict[str, Any]:
    """A model that fills half a domain, on chips with half the memory in two stages."""
    if system.scale_out is None:
        return {"half_memory_time": None, "whole_memory_time": None}
    form = weight_format("fp8")
    whole = pipelined(system, params, params / 32, form, 1.0)
    half = pipelined(half_memory(system), params, params / 32, form, 2.0)
    return {
        "whole_memory_time": float(whole.time),
        "half_memory_time": float(half.time),
        "half_memory_fits": bool(half.memory.fits),
    }


def _sizes(first: float, last: float) -> list[float]:
    return [float(size) for size in np.geomspace(first, last, 60)]


def _rack_figure(systems: list[System], facts: list[dict[str, Any]], form: str) -> Figure:
    """Time per token against size, each line as long as the domain's memory."""
    series: list[Series] = []
    for colour, (system, f) in enumerate(zip(systems, facts, strict=True)):
        most = f["memory"] / weight_format(form).bytes_per_element
        sizes = _sizes(1e11, max(most, 1.1e11))
        fits = domain_fits(system, sizes, [1.0], weight_format(form))
        fitting_models = [m for m in fits if m.fits]
        series.append(
            Series(
                name=f"{f['system']} ({f['year']})",
                x=[m.total_params / 1e12 for m in fitting_models],
                y=[m.alone * 1e3 for m in fitting_models],
                colour=colour,
            )
        )
        if fitting_models:
            last = fitting_models[-1]
            series.append(
                Series(
                    name=f"memory of {f['system']} is full",
                    x=[last.total_params / 1e12],
                    y=[last.alone * 1e3],
                    kind="points",
                    colour=colour,
                    named=False,
                    labels=[f"{last.total_params / 1e12:,.1f} T"],
                )
            )
    return Figure(
        title=f"models stalled until racks grew: reading all weights once ({form})",
        panels=[
            Panel(
                across="trillions of parameters",
                up="time to read them all [ms]",
                series=series,
                log_across=True,
                log_up=True,
                show_labels=True,
            )
        ],
        note="one scale-up domain each; ideal bound; a line ends where the memory of its domain is full",
    )
