"""Fields of requests that run a fleet: routing, failures, autoscaling, rolling upgrades."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rackmath.api import kinds
from rackmath.api.fields import Option, refuse_without
from rackmath.api.images import PromptFields
from rackmath.api.simulation.tiers import store_rate
from rackmath.errors import InputError
from rackmath.serving.simulator.scaling import METRICS
from rackmath.serving.simulator.settings import ROUTERS


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFields(PromptFields):
    """Fields of requests that run a fleet."""

    router: Annotated[str, Option(help="Which replica a request goes to.", kind=kinds.choice(*ROUTERS))] = (
        "least-loaded"
    )
    mtbf: Annotated[float | None, Option(help="Mean time between failures of a replica, in s.", kind=kinds.SECONDS)] = (
        None
    )
    repair_time: Annotated[
        float, Option(help="Time until a replica that failed serves again, in s.", kind=kinds.SECONDS)
    ] = 600.0
    scale_to: Annotated[
        int | None,
        Option(help="Start with the replicas that --gpus make, go up to so many with the load.", kind=kinds.whole()),
    ] = None
    scale_on: Annotated[
        str,
        Option(
            help="Metric of the autoscaler: requests in flight, queued requests, arrivals per second, or replicas that "
            "keep --tpot (slo).",
            kind=kinds.choice(*METRICS),
        ),
    ] = METRICS[0]
    scale_target: Annotated[
        float | None,
        Option(
            help="Target of --scale-on per replica (default: 70% of the requests it holds, 5 queued; none for rate).",
            kind=kinds.NUMBER,
        ),
    ] = None
    scale_interval: Annotated[float, Option(help="Time between decisions, in s.", kind=kinds.SECONDS)] = 15.0
    scale_down_after: Annotated[
        float, Option(help="Time of low load before replicas are stopped, in s.", kind=kinds.SECONDS)
    ] = 300.0
    startup: Annotated[
        float,
        Option(
            help="Time that a replica takes to start, in s; --weights-from adds the loading of weights.",
            kind=kinds.SECONDS,
        ),
    ] = 60.0
    weights_from: Annotated[
        str | None,
        Option(
            help="Where a starting replica loads weights from: host (memory), a device as nvme-tlc, a rate as 5GB/s.",
            kind=kinds.TEXT,
        ),
    ] = None
    upgrade_at: Annotated[
        float | None,
        Option(
            help="Moment at which a rolling upgrade begins, in s: each replica ends its requests and starts again.",
            kind=kinds.SECONDS,
        ),
    ] = None
    max_unavailable: Annotated[
        int, Option(help="Replicas that a rolling upgrade takes out at a time.", kind=kinds.whole(1, 100_000))
    ] = 1


def check_fleet(r: FleetFields) -> None:
    """Refuse what a fleet cannot do.

    Errors: :class:`InputError` for fields that need another one, and that say nothing without it.
    """
    if r.mtbf is None:
        refuse_without(r, "--mtbf", "repair_time")
    if r.scale_to is None:
        refuse_without(r, "--scale-to", "scale_on", "scale_target", "scale_interval", "scale_down_after")
    if r.upgrade_at is None:
        refuse_without(r, "--upgrade-at", "max_unavailable")
    if r.scale_to is None and r.upgrade_at is None:
        refuse_without(r, "--scale-to or --upgrade-at", "startup")
    if r.weights_from is not None and r.scale_to is None and r.upgrade_at is None:
        way_out = "add --scale-to or --upgrade-at, without which no replica starts"
        raise InputError("--weights-from", r.weights_from, way_out)
    if r.weights_from is not None:
        store_rate(r.weights_from)
