"""What a run of the simulator says: the JSON of its command, the ends of its range, what was assumed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rackmath import catalogue, constants_file
from rackmath.caching.tiers import LIFETIME
from rackmath.errors import RackmathError
from rackmath.serving.simulator.balance import Balance, balance, leaves_limit
from rackmath.serving.simulator.outcome import Times, good, request_times, spread
from rackmath.serving.simulator.run import Outcome
from rackmath.sweeps.members import Member
from rackmath.sweeps.replays import Job, job_of, run, slowed

_RANGED = 200_000
"""Requests up to which the ends of the range are simulated as well."""

F = NDArray[np.float64]


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
    return request_times(found[-1], job.members[0].batching.outside, job.work.output, arrival)


def facts_of(job: Job, found: tuple[Outcome, ...]) -> dict[str, Any]:
    """The JSON of contract.md and more."""
    times, first, last = seen(job, found), found[0], found[-1]
    given, members = job.given, job.members
    span = max(last.end - float(first.requests["arrival"].min()), 1e-9)
    written = float(job.work.output.sum())
    kept = good(times, given["ttft"] or np.inf, given["tpot"] or np.inf)
    arrival = first.requests["arrival"]
    rates = balance(arrival, last.requests["first"], last.requests["finish"], job.work.output)
    own, writers = last.replicas.own, job.pools[-1]
    work = float(own["busy"].sum())
    blocks = _each(writers, last, [one.batching.memory // one.batching.block for one in writers])
    pools = list(zip(found, job.pools, strict=True))
    spent = [_gpu_seconds(one, pool, one.replica_seconds) for one, pool in pools]
    busy = sum(float(_gpu_seconds(one, pool, one.replicas.own["busy"]).sum()) for one, pool in pools)
    paid = np.concatenate(spent)
    held, rent = _held(job, first), _rent(job, first, span)
    return {
        "model": members[0].architecture.name,
        "system": members[0].system.name,
        "layout": [one.deployment.layout.text() for one in members],
        "replicas": [one.replicas for one in members],
        "requests": len(job.work),
        "time_to_first_token": _spread(times.first),
        "time_per_output_token": _spread(times.per_token),
        "latency": _spread(times.whole),
        "queueing": _spread(times.queueing if len(found) == 1 else request_times(first, 0.0, job.work.output).queueing),
        "offered_rate": rates.offered,
        "served_rate": rates.served,
        "steady": rates.steady,
        "queue_growth": rates.growth,
        "leaves_limit_after": _leaves(given, rates, arrival, times),
        "throughput": rates.tokens,
        "requests_per_second": rates.served,
        "goodput": float((kept & rates.inside(last.requests["finish"])).sum()) / (rates.stop - rates.start),
        "good_share": float(kept.mean()),
        "hit_rate": first.hits,
        "blocks_asked": first.blocks_asked,
        "hit_tokens": float(first.requests["hit"].sum()) / float(job.work.prompt.sum()),
        "utilisation": busy / max(float(paid.sum()), 1e-9),
        "mean_batch": float(own["batch"].sum()) / max(work, 1e-9),
        "memory_in_use": float(own["kept"].sum()) / max(float((own["busy"] * blocks).sum()), 1e-9),
        "preempted": int((last.requests["dropped"] > 0).sum()),
        "failures": sum(one.failures for one in found),
        "most_replicas": max(one.most_replicas for one in found),
        "span": span,
        "energy_kwh": _energy(members, paid),
        "tier_bytes": held,
        "usd_tiers": rent,
        "usd_per_million_tokens": _dollars(members, paid, written, rent),
        "table_error": max(one.deployment.times.error for one in members),
        "services": _services(job, times, kept, paid) if len(job.pools[0]) > 1 else [],
    }


def _leaves(given: Mapping[str, Any], rates: Balance, arrival: F, times: Times) -> float | None:
    """When the mean time to the first token leaves its limit, where a load that is not steady has one. [s]"""
    if given["ttft"] is None or rates.steady is not False:
        return None
    return leaves_limit(arrival, times.first, given["ttft"])


def _each(pool: tuple[Member, ...], outcome: Outcome, values: list[float]) -> F:
    """A value of each kind, for every replica. (replicas,)"""
    return np.array(values, dtype=float)[outcome.replicas.own["kind"]]


def _gpu_seconds(outcome: Outcome, pool: tuple[Member, ...], seconds: F) -> F:
    """Accelerator seconds by kind. (kinds,) [s]"""
    each = seconds * _each(pool, outcome, [one.gpus_each for one in pool])
    return np.array([float(each[outcome.replicas.own["kind"] == k].sum()) for k in range(len(pool))])


def _held(job: Job, outcome: Outcome) -> dict[str, float]:
    """Bytes of prefixes in each tier, on average over the run, of all replicas together. [B]"""
    size = job.work.block * job.members[0].deployment.kv_bytes
    return {name: blocks * size for name, blocks in outcome.kept.items()}


def _rent(job: Job, outcome: Outcome, span: float) -> float:
    """What devices of tiers cost over the run: all that is bought, of one without end what it holds. [USD]

    As in :mod:`rackmath.caching.tiers`: the price over the life of a device.
    """
    held = _held(job, outcome)
    replicas = len(outcome.replicas.own)
    total = 0.0
    for tier in job.cache.tiers:
        bought = tier.capacity * (1 if tier.common else replicas)
        total += tier.price * (bought if isfinite(bought) else held.get(tier.name, 0.0))
    return total * span / LIFETIME


def _dollars(members: tuple[Member, ...], seconds: F, tokens: float, more: float = 0.0) -> float | None:
    if any(one.price is None for one in members):
        return None
    spent = sum(float(t) * (one.price or 0.0) for one, t in zip(members, seconds, strict=True))
    return (spent + more) / max(tokens, 1e-9) * 1e6


def _energy(members: tuple[Member, ...], seconds: F) -> float | None:
    if any(one.system.chip.power is None for one in members):
        return None
    return sum(float(t) * (one.system.chip.power or 0.0) for one, t in zip(members, seconds, strict=True)) / 3.6e6


def _services(job: Job, times: Times, kept: NDArray[np.bool_], seconds: F) -> list[dict[str, Any]]:
    """What each service's users saw, and what its replicas cost."""
    of = np.zeros(len(job.work), np.int32) if job.work.service is None else job.work.service
    found = []
    for service in sorted({one.service for one in job.members}):
        mine = of == service
        which = [k for k, one in enumerate(job.members) if one.service == service]
        members = tuple(job.members[k] for k in which)
        found.append(
            {
                "replicas": [f"{one.replicas} x {one.text}" for one in members],
                "requests": int(mine.sum()),
                "time_to_first_token": _spread(times.first[mine]),
                "time_per_output_token": _spread(times.per_token[mine]),
                "latency": _spread(times.whole[mine]),
                "good_share": float(kept[mine].mean()) if mine.any() else None,
                "usd_per_million_tokens": _dollars(members, seconds[which], float(job.work.output[mine].sum())),
            }
        )
    return found


def _spread(values: Any) -> dict[str, Any] | None:
    found = spread(values)
    return None if found is None else asdict(found)


def ends(job: Job) -> dict[str, Any] | None:
    """Percentiles where every step takes the low or the high end of its 90 % range."""
    if job.members[0].software is None or len(job.work) > _RANGED:
        return None
    spans = {
        one.system.chip.name: constants_file.range_of(one.system, one.software, "time per token")
        for one in job.members
        if one.software is not None
    }
    found: dict[str, Any] = {"steps": list(spans[job.members[0].system.chip.name])}
    for end, name in enumerate(("low", "high")):
        other = slowed(job, {chip: span[end] for chip, span in spans.items()})
        facts = facts_of(other, run(other))
        found[name] = {
            key: {p: facts[key][p] for p in ("mean", "p50", "p90", "p99")}
            for key in ("time_to_first_token", "time_per_output_token", "latency")
            if facts[key] is not None
        } | {"throughput": facts["throughput"], "goodput": facts["goodput"]}
    return found


def assumptions(job: Job) -> list[str]:
    """What a report has to say of its numbers."""
    given, last = job.given, job.members[-1]
    priced = {one.system.name: one.system for one in job.members}
    layouts = [one.deployment.layout for one in job.members]
    shared = bool(job.cache.tiers) and job.cache.tiers[0].shared
    return [
        *job.notes,
        *(note for system in priced.values() for note in catalogue.price_note(system, given["usd_per_gpu_hour"])),
        "the bound, without losses" if last.software is None
        else f"step times of {given['engine']} of {given['year']:g}",
        *dict.fromkeys(note for one in job.members if one.software is not None
                       for note in constants_file.unseen_notes(one.system, one.software, "time per token")),
        f"tables within {max(d.deployment.times.error for d in job.members):.1%} of the engine where they were checked",
        *(f"a replica of {one.deployment.layout.text()} holds {one.batching.memory:,} tokens of cache in blocks of "
          f"{one.batching.block}, {one.batching.seats} seats" for one in job.members),
        f"{last.batching.policy}, {last.batching.preemption}, {given['router']}; seed {given['seed']}",
        *(["each of a layout's data-parallel groups is a replica; the others are taken to be as busy"]
          if any(int(layout.data) > 1 for layout in layouts) else []),
        *(["each micro-batch of a pipeline is a replica whose step passes all stages; the others are as busy"]
          if any(int(layout.pipeline) > 1 for layout in layouts) else []),
        *(["prefixes stay in the memory that running requests leave; --tiers says otherwise"]
          if shared and given["tiers"] is None else []),
        *([f"devices of tiers at catalogue prices over {LIFETIME / (365.25 * 86_400):g} years"]
          if any(tier.price for tier in job.cache.tiers) else []),
        *(["the traffic names no prefix blocks: prefix caches stay empty"]
          if given["tiers"] and not len(job.work.start) else []),
        *(["a replica that fails loses its caches; what it held is read again elsewhere, nothing is lost"]
          if given["mtbf"] else []),
    ]  # fmt: skip
