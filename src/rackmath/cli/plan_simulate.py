"""``plan --simulate``: the frontier's best points on real traffic, ranked by what their slowest users see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from rackmath.cli import render
from rackmath.errors import RackmathError
from rackmath.sweeps.replay_report import replayed
from rackmath.units import show

MOST = 8
"""Points that are simulated."""
_QUANTITIES = (("time_to_first_token", "ttft"), ("time_per_output_token", "tpot"))


def resimulated(
    model: str, on: str, shown: Mapping[str, Any], given: Mapping[str, Any], traffic: str, percentile: str
) -> list[dict[str, Any]]:
    """Simulate the best points of a plan, one of each layout and format; best first by percentile limits.

    Parameters
    ----------
    traffic : str
        Requests per second of Poisson arrivals, or the path of a trace.

    A point keeps its limits where the percentile does. Of those that do the cheapest stands first, of the others the
    one that serves most requests in time.
    """
    rows: list[dict[str, Any]] = []
    for point in _chosen(shown):
        arguments = _arguments(model, on, point, given, traffic)
        try:
            facts = replayed(model, on, _given(arguments))
        except RackmathError as error:
            rows.append(
                {"layout": point["layout"], "weights": point["weights"], "kv": point["kv"], "error": str(error)}
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


def _chosen(shown: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The point of most throughput of each single-pool layout and format, best first."""
    points = [*shown["frontier"], *([shown["best"]] if shown["best"] else [])]
    single = [one for one in points if one["layout"].startswith("tp") and "pp1," in one["layout"] + ","]
    best: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for one in sorted(single, key=lambda p: -p["tokens_per_second_per_gpu"]):
        best.setdefault((one["layout"], one["weights"], one["kv"], str(one["drafted"])), one)
    if shown["best"] and shown["best"] in single:
        # The plan's own choice is always among them, at its own batch.
        one = shown["best"]
        best[one["layout"], one["weights"], one["kv"], str(one["drafted"])] = one
    return list(best.values())[:MOST]


def _arguments(model: str, on: str, point: Mapping[str, Any], given: Mapping[str, Any], traffic: str) -> list[str]:
    groups = int(point["layout"].split("dp")[1].split(",")[0])
    seats = max(ceil(point["batch"] / groups), 1)
    drafted = int(point["drafted"])
    made = traffic.replace(".", "", 1).isdigit()
    return [
        model,
        f"--on={on}",
        f"--gpus={int(point['gpus'])}",
        f"--layout={point['layout']}",
        f"--seats={seats}",
        f"--budget={max(int(point['chunk']), seats * (1 + drafted))}",
        f"--weights={point['weights']}",
        f"--kv={point['kv']}",
        *([f"--drafted={drafted}", "--preemption=reserve"] if drafted else []),
        *([f"--poisson={traffic}"] if made else [f"--trace={traffic}"]),
        f"--input={given['input_']}",
        f"--output={given['output']}",
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
