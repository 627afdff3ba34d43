"""What the engine says of a pass on this machine."""

from __future__ import annotations

from math import inf

from rackmath.engine import Layout, Losses, estimate
from rackmath.engine.kernel_curves import KernelCurve, Kernels
from rackmath.engine.kernels import pass_kernels
from rackmath.engine.roofline import local_pass, spent, timed_operators
from rackmath.hardware import Chip, System
from rackmath.lab.ceilings import Ceilings
from rackmath.models.architecture import Architecture, Experts


def system_of(ceilings: Ceilings, working_set: float | None = None, rows: float | None = None) -> System:
    """The machine as the engine knows one.

    Parameters
    ----------
    working_set : float, optional
        Bytes that a pass reads again and again: memory is then as fast as a stream of that size was, caches
        included. By default the largest stream that was measured. [B]
    rows : float, optional
        Tokens that meet one matrix: products are then as fast as those of so many rows were. By default the best of all
        shapes. [tokens]
    """
    bandwidth = ceilings.streams[-1].bandwidth if working_set is None else ceilings.bandwidth(working_set)
    chip = Chip(
        name=ceilings.machine.name,
        vendor="",
        year=0,
        status="measured",
        memory_capacity=ceilings.machine.memory,
        memory_bandwidth=bandwidth,
        rates=tuple(
            (name, ceilings.rate(name) if rows is None else ceilings.rate_at(name, rows))
            for name in ceilings.precisions
        ),
    )
    return System(name="this machine", chip=chip, domain=1, fabric="none", default_gpus=1)


def pass_time(
    ceilings: Ceilings, architecture: Architecture, *, phase: str, batch: float, context: float, operations: int
) -> float:
    """Time of one pass: the engine's roofline at the ceilings, and one latency for each operation. [s]

    Parameters
    ----------
    operations : int
        That the program runs in a pass; 0 where a graph launches them all at once.
    """
    arguments = {"batch": batch, "context": context, "phase": phase}
    memory_use = estimate(architecture, system_of(ceilings), Layout(), **arguments).memory
    working_set = float(memory_use.weights) + float(memory_use.cache)
    tokens = batch * (1.0 if phase == "decode" else context)
    system = system_of(ceilings, working_set, tokens * _met(architecture))
    attention = KernelCurve(stream=min(ceilings.attention / system.chip.memory_bandwidth, 1.0))
    losses = Losses(
        kernels=Kernels(curves={f"{kind}.decode": attention for kind in ("attention", "latent")}),
        launch=ceilings.latency.median * operations / pass_kernels(architecture),
    )
    return float(estimate(architecture, system, Layout(), **arguments, losses=losses).time)


def _met(architecture: Architecture) -> float:
    """Part of a pass's tokens that meet one matrix: in a mixture those of one expert in the mean. [1]"""
    blocks = [f for layer in architecture.layers for f in layer.feed_forwards if isinstance(f, Experts)]
    return blocks[0].active / blocks[0].experts if blocks else 1.0


def balance_batch(ceilings: Ceilings, architecture: Architecture, context: float) -> float:
    """Batch at which a decode pass computes as long as it reads: the knee. [sequences]

    Infinite where reading the cache of one sequence takes longer than computing it. Of a mixture, whose reads grow with
    the experts that are met, the batch at which a dense model of its active size would balance.
    """
    system = system_of(ceilings)
    single, two = (
        spent(
            timed_operators(architecture, local_pass("decode", batch, context, 0.0, Layout(), None), Layout(), system)
        )
        for batch in (1.0, 2.0)
    )
    compute, traffic = float(two.compute - single.compute), float(two.traffic - single.traffic)
    return float(single.traffic - traffic) / (compute - traffic) if compute > traffic else inf
