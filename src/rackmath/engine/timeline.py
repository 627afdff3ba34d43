"""One pass in parts: kernels, collectives, and gaps in which the accelerator waits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from rackmath.engine.adapters import adapter_loads
from rackmath.engine.encoding import encoded, encoding
from rackmath.engine.gather import gathered
from rackmath.engine.layout import Layout, widths
from rackmath.engine.losses import CORRECTION, Losses, host_time, launch_time
from rackmath.engine.pass_work import PassWork, collectives_time, shown_time
from rackmath.engine.step import estimate
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.models.architecture import Architecture

KINDS = ("kernels", "collectives", "gaps")
"""What a part of a pass is: the accelerator computes, sends, or waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPart:
    """Seconds of a pass that belong together, of all layers."""

    name: str
    kind: str
    """One of :data:`KINDS`."""
    time: float
    """[s]"""
    ideal: float
    """Of the time, what the bound takes. [s]"""
    launches: float = 0.0
    """Kernels that are started for it. [kernels]"""


def step_parts(
    architecture: Architecture, system: System, layout: Layout, settings: Mapping[str, Any]
) -> list[StepPart]:
    """Parts of one pass on the busiest accelerator; they add up to :func:`~rackmath.engine.encoding.timed_pass`.

    Operators stand as the model lists them, each with all of its layers.

    Parameters
    ----------
    settings : mapping
        Other arguments of :func:`rackmath.engine.estimate`, numbers instead of arrays.

    Work that runs beside other work (half-batches, collectives under products) is told as what it adds.
    Errors: :class:`InputError` where attention and experts work side by side.
    """
    if layout.ffn:
        raise InputError("picture", "step", "pools work side by side under ffn: use roofline, batch or memory")
    phase, losses = settings.get("phase", "decode"), settings.get("losses")
    names = ("batch", "context", "cached_tokens", "draft_tokens", "two_batch")
    point = {name: settings.get(name, 0) for name in names} | {"piece": settings.get("piece", inf)} | widths(layout)
    work = gathered(architecture, system, phase, point, settings.get("absorbed"))
    pass_parts = _bound(work.work) if losses is None else _parts(work.work, losses)
    images = encoding(architecture, system, layout, max(settings["batch"] / layout.data, 1.0), losses)
    loads = float(adapter_loads(architecture, system, phase, work)) if losses is not None else 0.0
    scale = float(work.passes)
    parts = [replace(p, time=scale * p.time, ideal=scale * p.ideal, launches=scale * p.launches) for p in pass_parts]
    parts.append(StepPart(name="loading adapters", kind="gaps", time=loads, ideal=0.0))
    if phase == "prefill":
        parts.insert(
            0, StepPart(name=encoded(architecture), kind="kernels", time=float(images.time), ideal=float(images.ideal))
        )
    drafting, has_correction = settings.get("draft") is not None, losses is not None and phase in losses.correction
    if not drafting and not has_correction:
        return [part for part in parts if part.time != 0.0]
    alone: dict[str, Any] = {**settings, "draft": None}
    step = estimate(architecture, system, layout, **alone)
    if has_correction:
        # What measurements correct is no one part's.
        parts.append(StepPart(name="measurements", kind="gaps", time=float(step.lost[CORRECTION]), ideal=0.0))
    if drafting:
        whole_step = estimate(architecture, system, layout, **settings)
        draft_time, ideal = float(whole_step.time - step.time), float(whole_step.time_ideal - step.time_ideal)
        parts.append(StepPart(name="draft model", kind="kernels", time=draft_time, ideal=ideal))
    return [part for part in parts if part.time != 0.0]


def _bound(work: PassWork) -> Iterator[StepPart]:
    for op in work.operators:
        time = float(op.time)
        yield StepPart(name=op.operator.name, kind="kernels", time=time, ideal=time, launches=float(op.launches))
    exchange = float(work.exchange)
    yield StepPart(name="collectives", kind="collectives", time=exchange, ideal=exchange)


def _parts(work: PassWork, k: Losses) -> Iterator[StepPart]:
    busy = 0.0
    for op in work.operators:
        time, ideal = float(work.kernels_time(op, k.kernels, k.factors)), float(op.time)
        busy += time
        yield StepPart(name=op.operator.name, kind="kernels", time=time, ideal=ideal, launches=float(op.launches))
    network = float(shown_time(work, collectives_time(work, k.kernels), k, busy))
    yield StepPart(name="collectives", kind="collectives", time=network, ideal=min(float(work.exchange), network))
    launches = float(launch_time(work.kernels, work.gaps, work.routed, work.routed_experts, busy + network, k))
    yield StepPart(name="launches", kind="gaps", time=launches, ideal=0.0)
    host = float(host_time(work.sequences, work.several, busy + network + launches, k))
    yield StepPart(name="host", kind="gaps", time=host, ideal=0.0)
    software = (busy + network + launches + host) * (float(k.whole) - 1)
    yield StepPart(name="software", kind="gaps", time=software, ideal=0.0)
