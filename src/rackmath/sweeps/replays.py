"""One run of the simulator from the options of its command: what is simulated, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rackmath import catalogue, constants_file
from rackmath.engine.layout import parse_layout
from rackmath.engine.timer import engine_timer
from rackmath.errors import InputError, RackmathError
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.formats import cache_format, weight_format
from rackmath.models.requantise import requantise
from rackmath.serving.simulator.deployment import (
    Deployment,
    deploy,
    scaled_times,
    smallest_layout,
    transfer_of,
    two_pools,
)
from rackmath.serving.simulator.outcome import Times, good, request_times, spread
from rackmath.serving.simulator.run import Outcome, simulate
from rackmath.serving.simulator.settings import Batching, Failures, Fleet, PrefixCache, Scaling
from rackmath.serving.simulator.workload import Workload
from rackmath.snapshots import Checkpoint
from rackmath.sweeps.replay_options import asked_of, numbers_of, tiers_of
from rackmath.traffic import traffic

Array = NDArray[np.float64]

_RANGED = 200_000
"""Requests up to which the ends of the range are simulated as well."""


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


def replayed(model: str, on: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of one run, without its range: what sweeps and searches ask for."""
    job = job_of(model, on, given)
    return facts_of(job, run(job))


def row(what: Mapping[str, Any]) -> dict[str, str]:
    """A run of a sweep as one cell of JSON; what cannot be run says why."""
    try:
        facts = replayed(what["model"], what["on"], what["given"])
    except RackmathError as error:
        facts = {"error": str(error)}
    return {"facts": json.dumps(facts)}


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


def seen(job: Job, found: tuple[Outcome, ...]) -> Times:
    """Times of all requests as their users see them."""
    arrival = found[0].requests["arrival"]
    return request_times(found[-1], job.batching.outside, job.work.output, arrival)


def facts_of(job: Job, found: tuple[Outcome, ...]) -> dict[str, Any]:
    """The JSON of contract.md and more."""
    times, first, last = seen(job, found), found[0], found[-1]
    system, given = job.system, job.given
    span = max(last.end - float(first.requests["arrival"].min()), 1e-9)
    written = float(job.work.output.sum())
    price = catalogue.price_of(system, given["usd_per_gpu_hour"])
    spent = sum(
        one.replica_seconds * float(d.layout.gpus) / d.groups for one, d in zip(found, job.deployed, strict=True)
    )
    busy = sum(
        float(one.replicas.own["busy"].sum()) * float(d.layout.gpus) / d.groups
        for one, d in zip(found, job.deployed, strict=True)
    )
    kept = good(times, given["ttft"] or np.inf, given["tpot"] or np.inf)
    own = last.replicas.own
    work = float(own["busy"].sum())
    blocks = job.deployed[-1].memory // job.batching.block
    return {
        "model": job.architecture.name,
        "system": system.name,
        "layout": [one.layout.text() for one in job.deployed],
        "replicas": [fleet.replicas for fleet in job.fleets],
        "requests": len(job.work),
        "time_to_first_token": _spread(times.first),
        "time_per_output_token": _spread(times.per_token),
        "latency": _spread(times.whole),
        "queueing": _spread(times.queueing if len(found) == 1 else request_times(first, 0.0, job.work.output).queueing),
        "throughput": written / span,
        "requests_per_second": len(job.work) / span,
        "goodput": float(kept.sum()) / span,
        "good_share": float(kept.mean()),
        "hit_rate": first.hits,
        "blocks_asked": first.blocks_asked,
        "hit_tokens": float(first.requests["hit"].sum()) / float(job.work.prompt.sum()),
        "utilisation": busy / max(spent, 1e-9),
        "mean_batch": float(own["batch"].sum()) / max(work, 1e-9),
        "memory_in_use": float(own["kept"].sum()) / max(work * blocks, 1e-9),
        "preempted": int((last.requests["dropped"] > 0).sum()),
        "failures": sum(one.failures for one in found),
        "most_replicas": max(one.most_replicas for one in found),
        "span": span,
        "energy_kwh": None if system.chip.power is None else spent * system.chip.power / 3.6e6,
        "usd_per_million_tokens": None if price is None else spent * price / written * 1e6,
        "table_error": max(one.times.error for one in job.deployed),
    }


def _spread(values: Any) -> dict[str, Any] | None:
    found = spread(values)
    return None if found is None else asdict(found)


def ends(job: Job) -> dict[str, Any] | None:
    """Percentiles where every step takes the low or the high end of its 90 % range."""
    if job.software is None or len(job.work) > _RANGED:
        return None
    ends = constants_file.constants().range("time per token", job.system.chip.name)
    found: dict[str, Any] = {"steps": list(ends)}
    for name, factor in zip(("low", "high"), ends, strict=True):
        deployed = tuple(replace(one, times=scaled_times(one.times, factor)) for one in job.deployed)
        other = replace(job, deployed=deployed)
        facts = facts_of(other, run(other))
        found[name] = {
            key: {p: facts[key][p] for p in ("mean", "p50", "p90", "p99")}
            for key in ("time_to_first_token", "time_per_output_token", "latency")
            if facts[key] is not None
        } | {"throughput": facts["throughput"], "goodput": facts["goodput"]}
    return found


def assumptions(job: Job) -> list[str]:
    """What a report has to say of its numbers."""
    given, system, software = job.given, job.system, job.software
    one = job.deployed[-1]
    return [
        *job.notes,
        *catalogue.price_note(system, given["usd_per_gpu_hour"]),
        "the bound, without losses" if software is None else f"step times of {given['engine']} of {given['year']:g}",
        f"tables within {max(d.times.error for d in job.deployed):.1%} of the engine where they were checked",
        f"a replica holds {one.memory:,} tokens of cache in blocks of {job.batching.block}, {job.batching.seats} seats",
        f"{job.batching.policy}, {job.batching.preemption}, {given['router']}; seed {given['seed']}",
        *(["each of a layout's data-parallel groups is a replica; the others are taken to be as busy"]
          if one.groups > 1 else []),
        *(["the traffic names no prefix blocks: prefix caches stay empty"]
          if given["tiers"] and not len(job.work.start) else []),
        *(["a replica that fails loses its caches; what it held is read again elsewhere, nothing is lost"]
          if given["mtbf"] else []),
    ]  # fmt: skip
