"""How a simulated fleet is run: what its fields mean for a group of replicas."""

from __future__ import annotations

from math import inf

from rackmath.api.simulation.fleet_fields import FleetFields
from rackmath.api.simulation.groups import ReplicaGroup
from rackmath.api.simulation.tiers import store_rate
from rackmath.errors import InputError
from rackmath.serving.simulator.scaling import CONCURRENCY_PART, QUEUE_TARGET
from rackmath.serving.simulator.settings import Failures, Fleet, Scaling, Upgrade
from rackmath.serving.startup.loading import loading_time


def fleet_of(r: FleetFields, group: ReplicaGroup, tokens: float, limit: float | None, seed: int) -> Fleet:
    """How the fleet of a group is run.

    Parameters
    ----------
    tokens : float
        Of a mean request, prompt and answer. [tokens]
    limit : float, optional
        Of the time per token, which an autoscaler may plan for. [s]

    Errors: :class:`InputError` for an autoscaler's target that nobody says.
    """
    start = r.startup + loading(r, group)
    return Fleet(
        replicas=group.replicas,
        router=r.router,
        failures=Failures(between=r.mtbf or float("inf"), repair=r.repair_time),
        scaling=None
        if r.scale_to is None
        else Scaling(
            least=group.replicas,
            most=r.scale_to,
            metric=r.scale_on,
            target=_target(r, group, tokens),
            limit=limit or inf,
            startup=start,
            interval=r.scale_interval,
            window=r.scale_down_after,
        ),
        upgrade=None
        if r.upgrade_at is None
        else Upgrade(begin=r.upgrade_at, at_a_time=r.max_unavailable, restart=start),
        seed=seed,
    )


def loading(r: FleetFields, group: ReplicaGroup) -> float:
    """Time in which a starting replica loads its weights; 0 without ``--weights-from``. [s]"""
    if r.weights_from is None:
        return 0.0
    return loading_time(group.architecture, group.system, group.deployment.layout, store_rate(r.weights_from))


def _target(r: FleetFields, group: ReplicaGroup, tokens: float) -> float:
    """Of the autoscaler's metric, for each replica."""
    if r.scale_on == "slo":
        if r.scale_target is not None:
            raise InputError("--scale-target", r.scale_target, "leave it out: --scale-on slo plans for --tpot")
        return 1.0
    if r.scale_target is not None:
        return r.scale_target
    if r.scale_on == "queue":
        return QUEUE_TARGET
    if r.scale_on == "rate":
        raise InputError("--scale-target", None, "say how many requests per second a replica serves (--capacity)")
    return CONCURRENCY_PART * max(min(float(group.batching.max_num_seqs), group.batching.memory / tokens), 1.0)
