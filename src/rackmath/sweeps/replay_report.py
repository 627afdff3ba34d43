"""What a run of the simulator says: the JSON of its command, the ends of its range, what was assumed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from rackmath import catalogue, constants_file
from rackmath.errors import RackmathError
from rackmath.serving.simulator.deployment import scaled_times
from rackmath.serving.simulator.outcome import Times, good, request_times, spread
from rackmath.serving.simulator.run import Outcome
from rackmath.sweeps.replays import KEPT, Job, job_of, run

_RANGED = 200_000
"""Requests up to which the ends of the range are simulated as well."""


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
        *([f"{KEPT:.0%} of the cache keeps prefixes; --tiers says otherwise"]
          if given["tiers"] is None and len(job.work.start) else []),
        *(["the traffic names no prefix blocks: prefix caches stay empty"]
          if given["tiers"] and not len(job.work.start) else []),
        *(["a replica that fails loses its caches; what it held is read again elsewhere, nothing is lost"]
          if given["mtbf"] else []),
    ]  # fmt: skip
