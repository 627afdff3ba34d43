"""What users of each service and of each class saw, and what answers cost."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rackmath.api.simulation.groups import ReplicaGroup
from rackmath.api.simulation.setup import Setup
from rackmath.serving.simulator.outcome import RequestTimes, spread
from rackmath.serving.simulator.run import Outcome

F = NDArray[np.float64]


def dollars_per_million(
    members: tuple[ReplicaGroup, ...], seconds: F, tokens: float, more: float = 0.0
) -> float | None:
    """Cost of written tokens; None where a replica has no price. [USD]

    Parameters
    ----------
    seconds : array
        Accelerator seconds by kind of replica. (kinds,) [s]
    more : float
        Beside what accelerators cost. [USD]
    """
    if any(member.price is None for member in members):
        return None
    dollars = sum(float(t) * (member.price or 0.0) for member, t in zip(members, seconds, strict=True))
    return (dollars + more) / max(tokens, 1e-9) * 1e6


def spread_facts(values: Any) -> dict[str, Any] | None:
    """Mean and percentiles as JSON has them; None where there is nothing to count."""
    percentiles = spread(values)
    return None if percentiles is None else asdict(percentiles)


def service_facts(
    setup: Setup,
    outcome: Outcome,
    times: RequestTimes,
    in_window: NDArray[np.bool_],
    seconds: F,
    counted_requests: NDArray[np.intp],
) -> list[dict[str, Any]]:
    """What each service's users saw, of the requests that count in their order, and what its replicas cost."""
    of = np.zeros(len(setup.work), np.int32) if setup.work.service is None else setup.work.service
    rows: list[dict[str, Any]] = []
    for service in sorted({group.service for group in setup.groups}):
        is_service = of == service
        of_service = counted_requests[is_service[counted_requests]]
        places = [k for k, group in enumerate(setup.groups) if group.service == service]
        members = tuple(setup.groups[k] for k in places)
        rows.append(
            {
                "replicas": [f"{member.replicas} x {member.text}" for member in members],
                "requests": int(is_service.sum()),
                "time_to_first_token": spread_facts(times.first[of_service]),
                "time_per_output_token": spread_facts(times.per_token[of_service]),
                "latency": spread_facts(times.whole[of_service]),
                "good_share": float(in_window[of_service].mean()) if len(of_service) else None,
                "usd_per_million_tokens": dollars_per_million(
                    members, seconds[places], float(setup.work.output[is_service & outcome.answered].sum())
                ),
            }
        )
    return rows


def class_facts(
    setup: Setup, times: RequestTimes, in_window: NDArray[np.bool_], counted_requests: NDArray[np.intp]
) -> dict[str, Any]:
    """What users of each class saw, of the requests that count in their order; empty for one class."""
    rank = setup.work.rank
    if not rank.any():
        return {}
    rows: list[dict[str, Any]] = []
    for k in range(int(rank.max()) + 1):
        of_class = counted_requests[rank[counted_requests] == k]
        rows.append(
            {
                "requests": int((rank == k).sum()),
                "time_to_first_token": spread_facts(times.first[of_class]),
                "time_per_output_token": spread_facts(times.per_token[of_class]),
                "latency": spread_facts(times.whole[of_class]),
                "good_share": float(in_window[of_class].mean()) if len(of_class) else None,
            }
        )
    return {"classes": rows}
