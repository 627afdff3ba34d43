"""``plan --simulate``: the frontier's best points on real traffic, ranked by what their slowest users see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rackmath.api.deployment import deployment_of
from rackmath.api.plan import PlanResult
from rackmath.api.simulation.request import SimulateRequest
from rackmath.cli import render
from rackmath.sweeps.replay_runs import RunLocation, replays
from rackmath.units import show

MOST = 8
"""Points that are simulated."""


def resimulated(result: PlanResult, traffic: str, percentile: str, where: RunLocation) -> list[dict[str, Any]]:
    """Simulate the best points of a plan, one of each deployment and format; best first by percentile limits.

    Parameters
    ----------
    traffic : str
        Requests per second of Poisson arrivals, or the path of a trace.

    A point keeps its limits where the percentile does. Of those that do the cheapest stands first, of the others the
    one that serves most requests in time.
    """
    rows: list[dict[str, Any]] = []
    request = result.question.request
    arrivals: dict[str, Any] = {"poisson" if traffic.replace(".", "", 1).isdigit() else "trace": traffic}
    candidates = _chosen(result)
    requests = [SimulateRequest(**(deployment_of(request, point, {}).simulated | arrivals)) for point in candidates]
    limits = {"time_to_first_token": request.ttft, "time_per_output_token": request.tpot}
    for point, facts in zip(candidates, replays(requests, where, render.show_progress), strict=True):
        if "error" in facts:
            rows.append(
                {"layout": point["layout"], "weights": point["weights"], "kv": point["kv"], "error": facts["error"]}
            )
            continue
        results = {key: facts[key][percentile] for key in limits if facts[key] is not None}
        meets_limits = all(limits[key] is None or value <= (limits[key] or 0.0) for key, value in results.items())
        rows.append(
            {
                "layout": point["layout"],
                "weights": point["weights"],
                "kv": point["kv"],
                "batch": point["batch"],
                "draft_tokens": point["draft_tokens"],
                "keeps_limits": meets_limits,
                "planned": {key: point[key] for key in limits},
                **{key: facts[key] for key in limits},
                "goodput": facts["goodput"],
                "good_share": facts["good_share"],
                "usd_per_million_tokens": facts["usd_per_million_tokens"],
            }
        )
    return sorted(rows, key=_rank)


def show_resimulated(rows: Sequence[Mapping[str, Any]], traffic: str, percentile: str) -> None:
    """Print the ranking."""
    render.show_table(
        f"simulated on {traffic}{' requests/s' if traffic.replace('.', '').isdigit() else ''}, by {percentile}",
        ["layout", "weights", "kv", ">batch", f">TTFT {percentile}", f">TPOT {percentile}", ">in time", ">$ per M", ""],
        [_row(row, percentile) for row in rows],
    )


def _chosen(result: PlanResult) -> list[Mapping[str, Any]]:
    """The point of most throughput of each deployment and format, of those that keep the limit on average."""
    limit, best_point = result.question.request.tpot, result.best
    points: list[Mapping[str, Any]] = [*result.points, *([best_point.planned] if best_point else [])]
    fast_points = [point for point in points if limit is None or point["time_per_output_token"] <= limit]
    best: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for point in sorted(fast_points or points, key=lambda p: -p["tokens_per_second_per_gpu"]):
        best.setdefault(_deployment(point), point)
    if best_point:
        # The plan's own choice is always among them, at its own batch.
        own_points = {_deployment(best_point.planned): best_point.planned}
        best = own_points | best | own_points
    return list(best.values())[:MOST]


def _deployment(point: Mapping[str, Any]) -> tuple[str, ...]:
    return (point["layout"], point["weights"], point["kv"], str(point["draft_tokens"]), str(point.get("encoders")))


def _rank(row: Mapping[str, Any]) -> tuple[float, ...]:
    if "error" in row:
        return (2.0, 0.0)
    cost = row["usd_per_million_tokens"]
    if row["keeps_limits"]:
        return (0.0, 0.0 if cost is None else cost)
    return (1.0, -row["good_share"])


def _row(row: Mapping[str, Any], percentile: str) -> tuple[str, ...]:
    if "error" in row:
        return (row["layout"], row["weights"], row["kv"], *[""] * 5, row["error"])
    first, per_token, cost = row["time_to_first_token"], row["time_per_output_token"], row["usd_per_million_tokens"]
    return (
        row["layout"],
        row["weights"],
        row["kv"],
        f"{row['batch']:.0f}",
        show(first[percentile], "s"),
        "" if per_token is None else show(per_token[percentile], "s"),
        f"{row['good_share']:.1%}",
        "" if cost is None else f"{cost:.3g}",
        "keeps its limits" if row["keeps_limits"] else "",
    )
