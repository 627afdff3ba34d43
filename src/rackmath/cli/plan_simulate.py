"""``plan --simulate``: the frontier's best points on real traffic, ranked by what their slowest users see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from rackmath.cli import render
from rackmath.sweeps.replay_runs import Case, Where, replays
from rackmath.units import show

MOST = 8
"""Points that are simulated."""
_QUANTITIES = (("time_to_first_token", "ttft"), ("time_per_output_token", "tpot"))


def resimulated(
    model: str,
    on: str,
    shown: Mapping[str, Any],
    given: Mapping[str, Any],
    traffic: str,
    percentile: str,
    where: Where,
) -> list[dict[str, Any]]:
    """Simulate the best points of a plan, one of each deployment and format; best first by percentile limits.

    Parameters
    ----------
    traffic : str
        Requests per second of Poisson arrivals, or the path of a trace.

    A point keeps its limits where the percentile does. Of those that do the cheapest stands first, of the others the
    one that serves most requests in time.
    """
    rows: list[dict[str, Any]] = []
    chosen = _chosen(shown, given["tpot"])
    cases = [Case(model=model, on=on, given=_given(_arguments(model, on, one, given, traffic))) for one in chosen]
    for point, facts in zip(chosen, replays(cases, where, render.show_progress), strict=True):
        if "error" in facts:
            rows.append(
                {"layout": point["layout"], "weights": point["weights"], "kv": point["kv"], "error": facts["error"]}
            )
            continue
        limits = {key: given[option] for key, option in _QUANTITIES}
        reached = {key: facts[key][percentile] for key in limits if facts[key] is not None}
        kept = all(limits[key] is None or value <= limits[key] for key, value in reached.items())
        rows.append(
            {
                "layout": point["layout"],
                "weights": point["weights"],
                "kv": point["kv"],
                "batch": point["batch"],
                "drafted": point["drafted"],
                "keeps_limits": kept,
                "planned": {key: point[key] for key, _ in _QUANTITIES},
                **{key: facts[key] for key, _ in _QUANTITIES},
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


def _chosen(shown: Mapping[str, Any], limit: float | None) -> list[Mapping[str, Any]]:
    """The point of most throughput of each deployment and format, of those that keep the limit on average."""
    points = [*shown["frontier"], *([shown["best"]] if shown["best"] else [])]
    kept = [one for one in points if limit is None or one["time_per_output_token"] <= limit]
    best: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for one in sorted(kept or points, key=lambda p: -p["tokens_per_second_per_gpu"]):
        best.setdefault(_deployment(one), one)
    if shown["best"]:
        # The plan's own choice is always among them, at its own batch.
        best = {_deployment(shown["best"]): shown["best"]} | best | {_deployment(shown["best"]): shown["best"]}
    return list(best.values())[:MOST]


def _deployment(point: Mapping[str, Any]) -> tuple[str, ...]:
    return (point["layout"], point["weights"], point["kv"], str(point["drafted"]))


def _arguments(model: str, on: str, point: Mapping[str, Any], given: Mapping[str, Any], traffic: str) -> list[str]:
    pools = point["pools"]
    layout = pools["write"] if pools else point["layout"]
    seats = max(ceil(point["batch"] / point["groups"]), 1)
    drafted = int(point["drafted"])
    made = traffic.replace(".", "", 1).isdigit()
    reading = [f"--prefill-gpus={pools['reading_gpus']:.0f}", f"--prefill-layout={pools['read']}"] if pools else []
    return [
        model,
        f"--on={on}",
        f"--gpus={int(point['gpus'])}",
        f"--layout={layout}",
        *reading,
        f"--seats={seats}",
        f"--budget={max(int(point['chunk']), seats * (1 + drafted))}",
        f"--weights={point['weights']}",
        f"--kv={point['kv']}",
        *([f"--drafted={drafted}", "--preemption=reserve"] if drafted else []),
        *(f"--{key.replace('_', '-')}={given[key]}" for key in ("acceptance", "draft_model") if drafted and given[key]),
        *([f"--poisson={traffic}"] if made else [f"--trace={traffic}"]),
        f"--input={given['input_']}",
        f"--output={given['output']}",
        "--spread=0",
        *([f"--cached-prefix={given['cached_prefix']}"] if given["cached_prefix"] else []),
        *([f"--usd-per-gpu-hour={given['usd_per_gpu_hour']}"] if given["usd_per_gpu_hour"] is not None else []),
        f"--engine={given['engine']}",
        f"--year={given['year']}",
        *(f"--{name}={given[name]}" for name in ("ttft", "tpot") if given[name] is not None),
        *(["--ideal"] if given["as_ideal"] else []),
    ]


def _given(arguments: list[str]) -> dict[str, Any]:
    """Options of ``simulate`` as its own parser reads them."""
    from rackmath.cli.simulate import simulate_command

    found = dict(simulate_command.make_context("simulate", arguments).params)
    return {key: value for key, value in found.items() if key not in ("model", "on")}


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
    first, each, cost = row["time_to_first_token"], row["time_per_output_token"], row["usd_per_million_tokens"]
    return (
        row["layout"],
        row["weights"],
        row["kv"],
        f"{row['batch']:.0f}",
        show(first[percentile], "s"),
        "" if each is None else show(each[percentile], "s"),
        f"{row['good_share']:.1%}",
        "" if cost is None else f"{cost:.3g}",
        "keeps its limits" if row["keeps_limits"] else "",
    )
