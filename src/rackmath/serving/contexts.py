"""Cost of a token against the context it sees, and where a model stops being servable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rackmath.engine import Layout, Losses, estimate
from rackmath.engine.layout import context_widths, stack_layouts
from rackmath.errors import DoesNotFit, InputError
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.serving.engines import engine_layouts
from rackmath.serving.points import Array

_BATCHES = np.unique(np.round(2 ** (np.arange(0, 29) / 2)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContextCost:
    """Cheapest decode at each context. Arrays of (contexts,)."""

    contexts: Array
    gpu_seconds: Array
    """Accelerator time per token; not a number where it is not servable. [s]"""
    low: Array
    high: Array
    batch: Array
    layout: tuple[str, ...]
    time: Array
    """Per token of a user. [s]"""
    memory_time: Array
    compute_time: Array
    """Accelerator time per token that memory traffic and multiplications take at the peaks. [s]"""
    servable_to: float
    """Longest context that fits and keeps the limit on time, between grid points; infinite beyond the grid. [tokens]"""
    stopped_by: str
    """memory, or time per token; empty where the grid ends first."""


def cost_against_context(
    architecture: Architecture,
    system: System,
    gpus: int,
    contexts: Array,
    *,
    slowest: float,
    layouts: Sequence[Layout] | None = None,
    batches: Array = _BATCHES,
    two_batch: float = 0.0,
    losses: Losses | None = None,
    family: str = "",
) -> ContextCost:
    """Cheapest accelerator time per token at every context, over layouts and batches.

    Parameters
    ----------
    gpus : int
        Accelerators that hold one copy, or several data-parallel ones.
    contexts : array
        Tokens that each new token sees, ascending. (contexts,)
    slowest : float
        Time per token that is still served. [s]
    layouts : sequence of Layout, optional
        By default all sensible ones of that many accelerators that an engine of ``family`` has.
    batches : array
        Sequences of the whole deployment to choose from. (batches,)
    two_batch : float
        1 where two half-batches overlap computation and expert exchange, else 0.

    Errors: :class:`DoesNotFit` where not even the shortest context is servable.
    """
    if not slowest > 0:
        raise InputError("slowest", slowest, "write a positive time")
    if layouts is None:
        layouts = [
            replace(layout, context_parallel=context_parallel)
            for layout in engine_layouts(architecture, gpus, family)
            for context_parallel in context_widths(layout, architecture)
        ]
    if not layouts:
        raise DoesNotFit(f"no layout of {gpus} accelerators divides {architecture.name}", "use another --gpus")
    system.require_network(gpus)
    shape = (len(layouts), len(contexts), len(batches))
    wide = stack_layouts(layouts, 3)
    cost = estimate(
        architecture,
        system,
        wide,
        batch=batches[None, None, :],
        context=contexts[None, :, None],
        two_batch=two_batch,
        losses=losses,
    )
    time = np.broadcast_to(np.asarray(cost.time), shape)
    fits = np.broadcast_to(np.asarray(cost.memory.fits), shape)
    good = fits & (time <= slowest)
    gpu_seconds = np.where(good, time * gpus / batches, np.inf)
    flat = np.moveaxis(gpu_seconds, 1, 0).reshape(len(contexts), -1)
    place = flat.argmin(axis=1)
    servable = np.isfinite(flat[np.arange(len(contexts)), place])
    if not servable[0]:
        least = None if fits[:, 0, :].any() else float(np.min(cost.memory.total)) * gpus
        raise _refusal(architecture, system, gpus, float(contexts[0]), slowest, least)
    at_layout, at_batch = np.divmod(place, len(batches))
    cheapest_place = (at_layout, np.arange(len(contexts)), at_batch)
    end = len(contexts) if servable.all() else int(np.argmin(servable))
    stopped_by = "" if end == len(contexts) else ("time per token" if fits[:, end, :].any() else "memory")
    edge = float("inf")
    if stopped_by:
        between = float(contexts[end - 1]), float(contexts[end])
        edge = _edge(architecture, system, layouts, between, slowest, losses, float(batches.min()))
    times = (cost.time_low, cost.time_high, cost.memory_time, cost.compute_time)
    low, high, memory_time, compute_time = (np.broadcast_to(np.asarray(t) * gpus / batches, shape) for t in times)
    return ContextCost(
        contexts=contexts,
        gpu_seconds=np.where(servable, gpu_seconds[cheapest_place], np.nan),
        low=np.where(servable, low[cheapest_place], np.nan),
        high=np.where(servable, high[cheapest_place], np.nan),
        batch=np.where(servable, batches[at_batch], np.nan),
        layout=tuple(
            layouts[int(i)].text() if ok else "" for i, ok in zip(at_layout.tolist(), servable.tolist(), strict=True)
        ),
        time=np.where(servable, time[cheapest_place], np.nan),
        memory_time=np.where(servable, memory_time[cheapest_place], np.nan),
        compute_time=np.where(servable, compute_time[cheapest_place], np.nan),
        servable_to=edge,
        stopped_by=stopped_by,
    )


def _refusal(
    architecture: Architecture, system: System, gpus: int, context: float, slowest: float, least: float | None
) -> DoesNotFit:
    """Why not even the shortest context is servable: ``least`` bytes are missing, or it is too slow."""
    where = f"{architecture.name} on {gpus} x {system.chip.name}"
    if least is not None:
        room = gpus * system.chip.usable_memory
        return DoesNotFit(
            f"{where}: needs {least / 1e9:,.0f} GB, there are {room / 1e9:,.0f}",
            "use more --gpus or a system with more memory",
        )
    return DoesNotFit(
        f"{where}: no layout writes a token at {context:g} tokens of context within {slowest:g} s",
        "use more accelerators, or let a token take longer",
    )


def _edge(
    architecture: Architecture,
    system: System,
    layouts: Sequence[Layout],
    between: tuple[float, float],
    slowest: float,
    losses: Losses | None,
    batch: float,
) -> float:
    """Longest context that the smallest batch may have, between two grid points, by bisection. [tokens]"""
    low, high = between
    wide = stack_layouts(layouts)
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        single = estimate(architecture, system, wide, batch=batch, context=middle, losses=losses)
        if bool(np.any(np.asarray(single.memory.fits) & (np.asarray(single.time) <= slowest))):
            low = middle
        else:
            high = middle
    return low
