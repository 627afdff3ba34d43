"""What a run of the simulator says: the JSON of its command, the ends of its range."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rackmath.api.simulation.by_group import class_facts, dollars_per_million, service_facts, spread_facts
from rackmath.api.simulation.energy import energy_of_simulation
from rackmath.api.simulation.groups import ReplicaGroup
from rackmath.api.simulation.refusals import refusals
from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.setup import Setup, run, slowed
from rackmath.api.simulation.tasks import task_facts, task_rates, tasks_of_run
from rackmath.caching.tiers import LIFETIME
from rackmath.serving.simulator.balance import Balance, balance, leaves_limit
from rackmath.serving.simulator.outcome import STATISTICS, RequestTimes, good, request_times
from rackmath.serving.simulator.paired import stretch_statistics
from rackmath.serving.simulator.run import Outcome
from rackmath.serving.simulator.tasks import Tasks
from rackmath.serving.simulator.warm_up import warm_up

QUANTITIES = ("time_to_first_token", "time_per_output_token", "latency")
"""Times that users see, as the JSON calls them."""
RANGED = 200_000
"""Requests up to which the ends of the range are simulated as well."""

F = NDArray[np.float64]


def user_times(setup: Setup, outcomes: tuple[Outcome, ...]) -> RequestTimes:
    """Times of all requests as their users see them."""
    outside = setup.groups[0].batching.outside
    return request_times(outcomes[-1], outside, setup.work.output, _sending(setup, outcomes))


def _sending(setup: Setup, outcomes: tuple[Outcome, ...]) -> F:
    """When users send each request. (requests,) [s]"""
    return outcomes[0].requests["arrival"] if setup.encoders is None else setup.work.arrival


def facts_of(setup: Setup, outcomes: tuple[Outcome, ...]) -> dict[str, Any]:
    """What ``rackmath simulate --json`` prints, without clocks and ranges."""
    tasks = tasks_of_run(setup, outcomes)
    facts = _of_requests(setup, outcomes, tasks) | _upgrade(setup, outcomes)
    usd_per_million = facts["usd_per_million_tokens"]
    dollars = None if usd_per_million is None else usd_per_million * float(setup.work.output.sum()) / 1e6
    return facts | task_facts(setup, outcomes, tasks, dollars)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Users:
    """What users saw of a run."""

    times: RequestTimes
    rates: Balance
    within_limits: NDArray[np.bool_]
    """Whether a request was served within both limits. (requests,)"""
    warm: int | None
    """Requests at the start that percentiles leave out."""
    sample: NDArray[np.intp]
    """Requests that they are of, in their order."""
    goodput: float
    """[requests/s]"""

    def facts(self) -> dict[str, Any]:
        """Times, and rates of what was served."""
        return {
            "time_to_first_token": spread_facts(self.times.first[self.sample]),
            "time_per_output_token": spread_facts(self.times.per_token[self.sample]),
            "latency": spread_facts(self.times.whole[self.sample]),
            "throughput": self.rates.tokens,
            "goodput": self.goodput,
        }


def _users(setup: Setup, outcomes: tuple[Outcome, ...], tasks: Tasks | None) -> _Users:
    last, times = outcomes[-1], user_times(setup, outcomes)
    within_limits = good(times, setup.request.ttft or np.inf, setup.request.tpot or np.inf)
    rates = _rates(setup, outcomes, tasks)
    warm, sample = _counted(setup, last, outcomes[0].requests["arrival"], times, rates)
    send_times, finish = outcomes[0].requests["arrival"], last.requests["finish"]
    served_well = rates.counted(send_times[within_limits], finish[within_limits]).sum()
    return _Users(
        times=times,
        rates=rates,
        within_limits=within_limits,
        warm=warm,
        sample=sample,
        goodput=float(served_well) / (rates.stop - rates.start),
    )


def _of_requests(setup: Setup, outcomes: tuple[Outcome, ...], tasks: Tasks | None) -> dict[str, Any]:
    """What it says of requests and of the fleet."""
    first, last = outcomes[0], outcomes[-1]
    r, members = setup.request, setup.groups
    arrival = first.requests["arrival"]
    span = max(last.end - float(arrival.min()), 1e-9)
    users = _users(setup, outcomes, tasks)
    times, rates, sample = users.times, users.rates, users.sample
    queueing = (times if len(outcomes) == 1 else request_times(first, 0.0, setup.work.output)).queueing
    output_tokens = float(setup.work.output[last.answered].sum())
    replica_facts, writers = last.replicas.own, setup.pools[-1]
    work = float(replica_facts["busy"].sum())
    blocks = _each(writers, last, [group.batching.memory // group.batching.block for group in writers])
    pools = list(zip(outcomes, setup.pools, strict=True))
    pool_seconds = [_gpu_seconds(outcome, pool, outcome.replica_seconds) for outcome, pool in pools]
    busy = [_gpu_seconds(outcome, pool, outcome.replicas.own["busy"]) for outcome, pool in pools]
    paid_seconds = np.concatenate(pool_seconds)
    rent = _rent(setup, first, span)
    cost = rent + _encoders_cost(setup, span)
    return {
        "model": members[0].architecture.name,
        "system": members[0].system.name,
        "layout": [group.deployment.layout.text() for group in members],
        "replicas": [group.replicas for group in members],
        "requests": len(setup.work),
        "warm_up_requests": users.warm,
        **users.facts(),
        "queueing": spread_facts(queueing[sample]),
        "offered_rate": rates.offered,
        "served_rate": rates.served,
        "steady": rates.steady,
        "queue_growth": rates.growth,
        "leaves_limit_after": _leaves(r, rates, arrival, times),
        "requests_per_second": rates.served,
        "limits": {"ttft": r.ttft, "tpot": r.tpot},
        "good_share": float(users.within_limits[sample].mean()),
        "hit_rate": first.hits,
        "blocks_asked": first.blocks_asked,
        "hit_tokens": float(first.requests["hit"].sum()) / float(setup.work.prompt[last.answered].sum()),
        "utilisation": sum(float(b.sum()) for b in busy) / max(float(paid_seconds.sum()), 1e-9),
        "mean_batch": float(replica_facts["batch"].sum()) / max(work, 1e-9),
        "memory_in_use": float(replica_facts["kept"].sum()) / max(float((replica_facts["busy"] * blocks).sum()), 1e-9),
        "preempted": int((last.requests["dropped"] > 0).sum()),
        "failures": sum(group.failures for group in outcomes),
        "most_replicas": max(group.most_replicas for group in outcomes),
        "mean_replicas": float(last.replica_seconds.sum()) / span,
        "span": span,
        **energy_of_simulation(setup, outcomes, pool_seconds, busy),
        "tier_bytes": _held(setup, first),
        "usd_tiers": rent,
        "usd_per_million_tokens": dollars_per_million(members, paid_seconds, output_tokens, cost),
        **_encoders(setup, rates),
        "table_error": max(group.deployment.times.error for group in members),
        "services": service_facts(setup, last, times, users.within_limits, paid_seconds, sample)
        if len(setup.pools[0]) > 1
        else [],
        **class_facts(setup, times, users.within_limits, sample),
        **refusals(r, last, sample),
    }


def _counted(
    setup: Setup, outcome: Outcome, arrival: F, times: RequestTimes, rates: Balance
) -> tuple[int | None, NDArray[np.intp]]:
    """Requests with an answer at the start that percentiles leave out, and the rest of all in their order.

    Percentiles are those of a steady load where there is one.
    """
    order = np.argsort(arrival, kind="stable")
    places = np.flatnonzero(outcome.answered[order])
    warm = 0
    if rates.steady and setup.request.trace is None:
        warm = warm_up(times.whole[order[places]], empty=setup.request.users is None)
    return warm, order[places[warm] if warm else 0 :]


def _rates(setup: Setup, outcomes: tuple[Outcome, ...], tasks: Tasks | None) -> Balance:
    """Rates of requests, and whether they keep up; where there are tasks, whether those do."""
    is_answered = outcomes[-1].answered
    q, send_times = outcomes[-1].requests[is_answered], outcomes[0].requests["arrival"]
    is_closed = setup.request.users is not None
    rates = balance(
        send_times[is_answered], q["first"], q["finish"], setup.work.output[is_answered], is_closed=is_closed
    )
    if rates.offered is not None and not is_answered.all():
        rates = replace(rates, offered=rates.offered * (len(send_times) - 1) / max(len(q) - 1, 1))
    return rates if tasks is None else replace(rates, steady=task_rates(tasks).steady)


def _leaves(r: SimulateRequest, rates: Balance, arrival: F, times: RequestTimes) -> float | None:
    """When the mean time to the first token leaves its limit, where a load that is not steady has one. [s]"""
    if r.ttft is None or rates.steady is not False:
        return None
    is_answered = np.isfinite(times.whole)
    return leaves_limit(arrival[is_answered], times.first[is_answered], r.ttft)


def _each(pool: tuple[ReplicaGroup, ...], outcome: Outcome, values: list[float]) -> F:
    """A value of each kind, for every replica. (replicas,)"""
    return np.array(values, dtype=float)[outcome.replicas.own["kind"]]


def _gpu_seconds(outcome: Outcome, pool: tuple[ReplicaGroup, ...], seconds: F) -> F:
    """Accelerator seconds by kind. (kinds,) [s]"""
    per_replica = seconds * _each(pool, outcome, [group.gpus_each for group in pool])
    return np.array([float(per_replica[outcome.replicas.own["kind"] == k].sum()) for k in range(len(pool))])


def _held(setup: Setup, outcome: Outcome) -> dict[str, float]:
    """Bytes of prefixes in each tier, on average over the run, of all replicas together. [B]"""
    size = setup.work.block * setup.groups[0].deployment.kv_bytes
    return {name: blocks * size for name, blocks in outcome.kept.items()}


def _rent(setup: Setup, outcome: Outcome, span: float) -> float:
    """What devices of tiers cost over the run: all that is bought, of one without end what it holds. [USD]

    As in :mod:`rackmath.caching.tiers`: the price over the life of a device.
    """
    tier_bytes = _held(setup, outcome)
    replicas = len(outcome.replicas.own)
    total = 0.0
    for tier in setup.cache.tiers:
        capacity = tier.capacity * (1 if tier.common else replicas)
        total += tier.price * (capacity if isfinite(capacity) else tier_bytes.get(tier.name, 0.0))
    return total * span / LIFETIME


def _encoders(setup: Setup, rates: Balance) -> dict[str, Any]:
    """Accelerators that only encode images, their utilisation, and the time until images are encoded; empty without."""
    e = setup.encoders
    if e is None:
        return {}
    return {
        "encoders": {
            "gpus": e.gpus,
            "time": e.time,
            "utilisation": None if rates.offered is None else min(rates.offered * e.time / e.gpus, 1.0),
            "time_to_encode": spread_facts(e.ends(setup.work.arrival) - setup.work.arrival),
        }
    }


def _upgrade(setup: Setup, outcomes: tuple[Outcome, ...]) -> dict[str, Any]:
    """Begin and end of a rolling upgrade of all pools, first tokens meanwhile and else; empty without one."""
    upgrades = [outcome.upgrade for outcome in outcomes if outcome.upgrade is not None]
    if not upgrades:
        return {}
    begin, end = upgrades[0].rules.begin, max(upgrade.end for upgrade in upgrades)
    if any(upgrade.busy for upgrade in upgrades):
        end = np.inf
    first, sending = user_times(setup, outcomes).first, _sending(setup, outcomes)
    meanwhile = (sending >= begin) & (sending < end)
    return {
        "upgrade": {
            "begin": begin,
            "end": end if isfinite(end) else None,
            "replicas": sum(upgrade.replicas for upgrade in upgrades),
            "time_to_first_token": spread_facts(first[meanwhile]),
            "time_to_first_token_outside": spread_facts(first[~meanwhile]),
        }
    }


def _encoders_cost(setup: Setup, span: float) -> float:
    """What accelerators that only encode images cost over a run. [USD]"""
    return 0.0 if setup.encoders is None else setup.encoders.gpus * span * (setup.encoders.price or 0.0)


def stretches_of(setup: Setup, outcomes: tuple[Outcome, ...]) -> dict[str, Any]:
    """Statistics of what users see in each stretch of a run, for differences to a run on the same draws."""
    times = user_times(setup, outcomes)
    values = {"time_to_first_token": times.first, "time_per_output_token": times.per_token, "latency": times.whole}
    tasks = tasks_of_run(setup, outcomes)
    if tasks is not None:
        values["task_time"] = tasks.whole
    return {key: stretch_statistics(of) for key, of in values.items()}


def at_end(setup: Setup, end: int) -> Setup:
    """A run with every step at the low (0) or the high (1) end of its 90 % range; of the bound as it is."""
    spans = {g.system.chip.name: (1.0, 1.0) if g.software is None else g.span for g in setup.groups}
    return slowed(setup, {chip: span[end] for chip, span in spans.items()})


def range_ends(setup: Setup) -> dict[str, Any] | None:
    """Percentiles where every step takes the low or the high end of its 90 % range."""
    if setup.groups[0].software is None or len(setup.work) > RANGED:
        return None
    ends_of: dict[str, Any] = {"steps": list(setup.groups[0].span)}
    for end, name in enumerate(("low", "high")):
        setup_at_end = at_end(setup, end)
        outcomes = run(setup_at_end)
        # Tasks have a cost, which takes the whole fleet; else users alone are asked.
        users_only = setup.work.task is None
        facts = _users(setup_at_end, outcomes, None).facts() if users_only else facts_of(setup_at_end, outcomes)
        ends_of[name] = {
            key: {p: facts[key][p] for p in STATISTICS} for key in QUANTITIES if facts[key] is not None
        } | {key: facts[key] for key in ("throughput", "goodput", "tasks") if key in facts}
    return ends_of
