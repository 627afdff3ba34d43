"""One run of the simulator from the options of its command: what is simulated, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rackmath import catalogue, constants_file
from rackmath.engine.layout import parse_layout
from rackmath.engine.timer import engine_timer
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.formats import cache_format, weight_format
from rackmath.models.requantise import requantise
from rackmath.serving.simulator.deployment import (
    Deployment,
    deploy,
    smallest_layout,
    transfer_of,
    two_pools,
)
from rackmath.serving.simulator.run import Outcome, simulate
from rackmath.serving.simulator.settings import Batching, Failures, Fleet, PrefixCache, Scaling, Tier
from rackmath.serving.simulator.workload import Workload
from rackmath.snapshots import Checkpoint
from rackmath.sweeps.replay_options import asked_of, numbers_of, tiers_of
from rackmath.traffic import traffic

Array = NDArray[np.float64]

KEPT = 0.5
"""Part of a replica's cache that keeps prefixes, where a trace names blocks and nobody says otherwise. [1]"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """Everything that one run of the simulator needs, and what its report says beside."""

    architecture: Architecture
    system: System
    software: constants_file.Engine | None
    """Whose losses steps have; None for the bound."""
    given: Mapping[str, Any]
    """Options of the command."""
    notes: tuple[str, ...]
    work: Workload
    batching: Batching
    cache: PrefixCache
    fleets: tuple[Fleet, ...]
    deployed: tuple[Deployment, ...]
    """One pool, or readers and writers."""
    transfer: Callable[[Array], Array] | None
    """Tokens of prompts -> seconds between two pools."""


def job_of(model: str, on: str, given: Mapping[str, Any]) -> Job:
    """Read the model, the system and the traffic, choose layouts, fill tables.

    Errors: :class:`InputError` and :class:`DoesNotFit` for what cannot be meant.
    """
    system = catalogue.system(on)
    architecture = requantise(
        catalogue.model(model),
        weights=weight_format(given["weights"]) if given["weights"] else None,
        cache=cache_format(given["kv"]) if given["kv"] else None,
    )
    work, notes = traffic(asked_of(given))
    return _prepared(architecture, system, work, given, tuple(notes))


def _prepared(
    architecture: Architecture, system: System, work: Workload, given: Mapping[str, Any], notes: tuple[str, ...]
) -> Job:
    """Deployments, batching and fleets of what was asked."""
    software = None if given["ideal"] else constants_file.engine_of(system, given["engine"], given["year"])
    losses = None if software is None else constants_file.losses_of(system, software, "time per token")
    timer = engine_timer(architecture, system, losses)
    gpus, readers = given["gpus"], given["prefill_gpus"] or 0
    if readers >= gpus:
        raise InputError("--prefill-gpus", readers, f"leave some of the {gpus} accelerators to write")
    system.require_network(gpus)
    scheduling = None if software is None else constants_file.scheduling_of(software)
    drafted = given["drafted"]
    chances = numbers_of(given["acceptance"], "--acceptance")
    if drafted and not chances:
        chances = (float(scheduling.acceptance) if scheduling else 1.0,) * drafted
    context = float((work.prompt + work.output).mean())
    shares = [readers, gpus - readers] if readers else [gpus]
    layouts = [_layout(architecture, system, share, context, given["layout"]) for share in shares]
    groups = int(layouts[-1].data)
    share = 1.0
    if scheduling is not None:
        share = float(scheduling.interruption) * (1 + float(scheduling.lockstep) * (groups - 1))
    batching = Batching(
        policy=given["policy"],
        preemption=given["preemption"],
        budget=given["budget"],
        seats=given["seats"],
        block=given["block"],
        drafted=drafted,
        acceptance=chances,
        share=share,
        outside=0.0 if scheduling is None else float(scheduling.arrival),
        period=given["period"],
    )
    deployed = tuple(deploy(architecture, system, layout, timer, batching, work) for layout in layouts)
    tiers = tiers_of(given["tiers"])
    if given["tiers"] is None and len(work.start):
        # As engines do by default: what requests leave of the cache keeps prefixes; here a fixed part of it.
        deployed = tuple(replace(one, memory=int(one.memory * (1 - KEPT))) for one in deployed)
        size = deployed[0].memory * KEPT / (1 - KEPT) * deployed[0].kv_bytes
        tiers = (Tier(name="hbm", capacity=size),)
    fleets = tuple(_fleet(share, one, given) for share, one in zip(shares, deployed, strict=True))
    return Job(
        architecture=architecture,
        system=system,
        software=software,
        given=given,
        notes=notes,
        work=work,
        batching=batching,
        cache=PrefixCache(
            tiers=tiers,
            eviction=given["eviction"],
            lifetime=given["ttl"],
            through=given["write_through"],
            overlapped=not given["wait_for_loads"],
        ),
        fleets=fleets,
        deployed=deployed,
        transfer=transfer_of(architecture, system, layouts[0], layouts[-1], gpus) if readers else None,
    )


def _layout(architecture: Architecture, system: System, gpus: int, context: float, text: str | None) -> Any:
    if text is None:
        return smallest_layout(architecture, system, gpus, context)
    layout = parse_layout(text, None, architecture)
    if gpus % int(layout.gpus):
        raise InputError("--layout", text, f"{gpus} accelerators do not divide by its {layout.gpus:g}")
    if layout.pipeline > 1:
        raise InputError("--layout", text, "stages are not simulated: leave pp at 1")
    return layout


def _fleet(gpus: int, one: Deployment, given: Mapping[str, Any]) -> Fleet:
    replicas = gpus // int(one.layout.gpus) * one.groups
    most = given["scale_to"]
    return Fleet(
        replicas=replicas,
        router=given["router"],
        failures=Failures(between=given["mtbf"] or float("inf"), repair=given["repair_time"]),
        scaling=None if most is None else Scaling(least=replicas, most=most, startup=given["startup"]),
        seed=given["seed"],
    )


def run(
    job: Job, progress: Callable[[str], None] | None = None, checkpoint: Checkpoint | None = None
) -> tuple[Outcome, ...]:
    """One pool, or readers and writers; a checkpoint is kept of one pool."""

    def say(done: int, of: int) -> None:
        if progress is not None:
            progress(f"{done:,} of {of:,} requests")

    if job.transfer is None:
        one = job.deployed[0]
        return (
            simulate(
                job.work,
                one.times,
                batching=replace(job.batching, memory=one.memory),
                cache=job.cache,
                fleet=job.fleets[0],
                kv_bytes=one.kv_bytes,
                progress=say,
                keep=checkpoint.keep if checkpoint else lambda snapshot: None,
                resume=checkpoint.found if checkpoint else None,
            ),
        )
    if checkpoint is not None:
        raise InputError("--checkpoint", str(checkpoint.path), "two pools keep none: leave it out")
    pools = two_pools(
        job.work,
        *job.deployed,
        batching=job.batching,
        cache=job.cache,
        fleets=(job.fleets[0], job.fleets[1]),
        transfer=job.transfer,
        progress=say,
    )
    return pools.prefill, pools.decode
