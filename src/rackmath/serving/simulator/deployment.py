"""From a model on a system to what the simulator needs: layouts, memory, step times; one pool or two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rackmath.engine import Layout
from rackmath.engine.timer import Timer
from rackmath.engine.transfer import transfer_time
from rackmath.errors import DoesNotFit
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.cache import cache_bytes
from rackmath.serving.engines import deals_layers, engine_layouts, micro_batch_tokens
from rackmath.serving.prompts import images_time, turns_of
from rackmath.serving.simulator.code import Code
from rackmath.serving.simulator.kinds import ReplicaKind
from rackmath.serving.simulator.run import Keep, Outcome, Progress, simulate
from rackmath.serving.simulator.settings import Batching, Fleet, PrefixCache
from rackmath.serving.simulator.snapshots import Snapshot
from rackmath.serving.simulator.times import StepTimes, step_times
from rackmath.serving.simulator.workload import Arrivals
from rackmath.serving.startup.held import sequences_held
from rackmath.serving.startup.memory import EngineStart

F = NDArray[np.float64]

_ROOMY = 8
"""Sequences of mean length that a layout should hold to be worth repeating."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimulatedLayout:
    """One layout as the simulator sees it: replicas of each other, each a data-parallel group's turn in the pipeline.

    Every stage of a pipeline works on a micro-batch of its own: as many as there are stages go round, each taking the
    time of a whole pass for a step. An engine that sends one batch on in pieces has one in all.
    """

    layout: Layout
    groups: int
    """Per copy of the layout: data-parallel groups times micro-batches that take turns."""
    memory: int
    """Tokens of cache of one group. [tokens]"""
    times: StepTimes
    kv_bytes: float
    """Of one token at the mean context. [B/token]"""

    def slowed(self, factor: float) -> SimulatedLayout:
        """All steps so many times as long."""
        t = self.times
        return replace(
            self,
            times=replace(
                t,
                base=t.base * factor,
                slope=t.slope * factor,
                prompt=t.prompt * factor,
                pair=t.pair * factor,
                images=t.images * factor,
            ),
        )


def smallest_layout(
    architecture: Architecture, system: System, gpus: int, context: float, server: EngineStart
) -> Layout:
    """The fewest accelerators that hold the model and some sequences; as many copies as fit are made.

    They are tensor-parallel, or hold whole layers where the engine deals these.

    Errors: :class:`DoesNotFit` where no number up to ``gpus`` holds it.
    """
    for least in (_ROOMY, 1):
        for count in range(1, gpus + 1):
            if gpus % count:
                continue
            for layout in engine_layouts(architecture, count, server.family):
                plain = layout.data == 1 and layout.pipeline == (count if deals_layers(server.family) else 1)
                if plain and sequences_held(architecture, system, layout, server, context) >= least:
                    return layout
    raise DoesNotFit(f"{architecture.name} on {gpus} x {system.chip.name}", "use more --gpus, or --weights fp8")


def deploy(
    architecture: Architecture,
    system: System,
    layout: Layout,
    timer: Timer,
    batching: Batching,
    work: Arrivals,
    server: EngineStart,
) -> SimulatedLayout:
    """Fill the tables of a layout for a workload; ``server`` is how its engine is started, of no family for the bound.

    Errors: :class:`DoesNotFit` where the layout holds no sequence of mean length.
    """
    whole = work.prompt.astype(float) + work.output
    mean, longest = float(whole.mean()), float(np.quantile(whole, 0.95))
    sequences = sequences_held(architecture, system, layout, server, mean)
    piece = micro_batch_tokens(server.family)
    turns = float(turns_of(layout.pipeline, piece))
    groups = int(layout.data * turns)
    if sequences < groups:
        raise DoesNotFit(f"{architecture.name} in {layout.text()}", f"requests of {mean:,.0f} tokens need more memory")
    times = step_times(
        layout,
        timer,
        max_num_seqs=batching.max_num_seqs,
        max_num_batched_tokens=batching.max_num_batched_tokens,
        draft_tokens=float(batching.draft_tokens),
        shortest=float(np.quantile(work.prompt, 0.05)),
        longest=longest,
        turns=turns,
        piece=piece,
        images=float(images_time(architecture, layout, timer)),
    )
    return SimulatedLayout(
        layout=layout,
        groups=groups,
        memory=int(sequences / groups * mean),
        times=times,
        kv_bytes=float(cache_bytes(architecture, mean)) / mean,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoolResults:
    """Results of a prefill pool and a decode pool, both in the order of the workload."""

    prefill: Outcome
    decode: Outcome


def two_pools(
    work: Arrivals,
    readers: ReplicaKind,
    writers: ReplicaKind,
    *,
    cache: PrefixCache,
    fleets: tuple[Fleet, Fleet],
    transfer: Callable[[F], F],
    progress: Progress = lambda done, of: None,
    keep: Keep = lambda snapshot: None,
    resume: Snapshot | None = None,
    code: Code | None = None,
) -> PoolResults:
    """Prompts are read by one pool, answers written by another, caches sent between.

    Parameters
    ----------
    transfer : callable
        Tokens of prompts -> seconds to send their caches.
    keep, resume, code
        As of :func:`simulate`.

    Users who wait for answers are served by :func:`.pools_in_loop.in_loop`.
    """
    assert work.graph is None, "requests that wait for others have no times"
    at_end: list[Snapshot] = []
    prefill = simulate(
        replace(work, output=np.ones_like(work.output)),
        readers.times,
        batching=readers.batching,
        cache=cache,
        fleet=fleets[0],
        kv_bytes=readers.kv_bytes,
        progress=progress,
        keep=lambda snapshot: keep(lambda: _named("read", snapshot())),
        resume=None if resume is None else _part("read", resume),
        on_snapshot=at_end.append,
        code=code,
    )
    ready = prefill.requests["first"] + transfer(work.prompt.astype(float))
    order = np.argsort(ready, kind="stable")
    later = Arrivals(arrival=ready[order], prompt=work.prompt[order], output=work.output[order], rank=work.rank[order])
    checkpoint = None if resume is None else _part("write", resume)
    decode = simulate(
        later,
        writers.times,
        batching=writers.batching,
        fleet=fleets[1],
        kv_bytes=writers.kv_bytes,
        ready=ready[order],
        progress=progress,
        keep=lambda snapshot: keep(lambda: _named("read", at_end[0]) | _named("write", snapshot())),
        resume=checkpoint or None,
        code=code,
    )
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    requests = decode.requests[back]
    requests["first"] = prefill.requests["first"]
    return PoolResults(prefill=prefill, decode=replace(decode, requests=requests))


def _named(pool: str, snapshot: Snapshot) -> Snapshot:
    return {f"{pool}/{name}": values for name, values in snapshot.items()}


def _part(pool: str, snapshot: Snapshot) -> Snapshot:
    return {name.removeprefix(f"{pool}/"): values for name, values in snapshot.items() if name.startswith(f"{pool}/")}


def transfer_of(
    architecture: Architecture, systems: tuple[System, System], readers: Layout, writers: Layout, gpus: int
) -> Callable[[F], F]:
    """Tokens of prompts -> seconds to send their caches between the pools.

    Unlike systems meet in the networks between domains, and the slower of both counts.
    Errors: :class:`DoesNotFit` for unlike systems without such a network.
    """
    if systems[0] == systems[1]:
        return lambda tokens: np.asarray(transfer_time(architecture, systems[0], readers, writers, tokens, float(gpus)))
    for system in systems:
        if system.scale_out is None:
            raise DoesNotFit(f"caches from {systems[0].name} to {systems[1].name}", f"{system.name} has no network out")

    def slower(tokens: F) -> F:
        far = (transfer_time(architecture, first, readers, writers, tokens, 2.0 * first.domain) for first in systems)
        first, second = (np.asarray(time, dtype=float) for time in far)
        return np.maximum(first, second)

    return slower
