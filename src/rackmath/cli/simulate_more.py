"""``simulate --what-if`` and ``--capacity``: many runs on the same traffic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rackmath.api.fields import field_named, keys_of
from rackmath.api.simulation.request import SimulateRequest
from rackmath.cli import render
from rackmath.cli.simulate_text import QUANTITIES
from rackmath.errors import InputError, RackmathError
from rackmath.figures import Figure, Panel, Series
from rackmath.figures.write import write_figure
from rackmath.serving.simulator.paired import COMPARED
from rackmath.sweeps.capacity import highest_rate
from rackmath.sweeps.differences import differences
from rackmath.sweeps.replay_runs import RunLocation, replays, whole_of_windows
from rackmath.units import counted, show


def compared(request: SimulateRequest, what_if: str, where: RunLocation, picture: Path | None, as_json: bool) -> None:
    """Run once for each value and print what changes; values that cannot be run say why."""
    name, values = _option_values(what_if)
    field = field_named(SimulateRequest, name)
    assert field is not None, "its name was looked up"
    settings = [value if not field.option.kind.multiple else (value,) for value in values]
    requests: list[SimulateRequest] = [replace(request, **{field.name: value}) for value in settings]
    results = replays(requests, where, render.show_progress)
    rows = [{"value": value} | facts for value, facts in zip(values, results, strict=True)]
    for row in rows[1:]:
        row["difference"] = differences(rows[0], row)
    for row in rows:
        row.pop("stretches", None)
    if picture is not None:
        write_figure(_figure(name, [row for row in rows if "error" not in row], request.seed), picture)
    if as_json:
        render.show_json({"option": name, "runs": rows})
        return
    _show(str(request.model), name, rows)


def largest_rate(request: SimulateRequest, percentile: str, where: RunLocation, as_json: bool) -> None:
    """Search the highest rate at which a percentile keeps both limits, always on the same draws."""
    if request.ttft is None and request.tpot is None:
        raise InputError("--capacity", percentile, "give a limit: --ttft or --tpot")
    rate = highest_rate(request, percentile, where, render.show_progress)
    if as_json:
        render.show_json(rate)
        return
    facts = rate["facts"]
    render.show_pairs(
        f"highest rate for {facts['model']} on {facts['system']} that keeps its limits at {percentile}",
        [
            ("rate", f"{rate['rate']:.4g} requests/s, {rate['low']:.4g} kept and {rate['high']:.4g} not"),
            *([("range", _capacity_range(rate))] if any(rate["rate_range"]) else []),
            ("times the traffic given", f"{rate['scale']:.4g}"),
            *((name, f"{show(value, 's')} of {show(limit, 's')}") for name, value, limit in rate["at"]),
            ("throughput", f"{facts['throughput']:,.0f} tokens/s"),
            ("runs", f"{rate['runs']}, on the same draws"),
        ],
    )


def long_run(request: SimulateRequest, windows: int, where: RunLocation, as_json: bool) -> None:
    """A long run from windows of its time."""
    facts = whole_of_windows(request, windows, where, render.show_progress)
    if as_json:
        render.show_json(facts)
        return
    rows = [(name, facts[key]) for key, name in QUANTITIES if facts.get(key) is not None]
    render.show_table(
        f"{facts['requests']:,} requests to {facts['model']} on {facts['system']}, in {facts['windows']:,} windows",
        ["", ">mean", ">p50", ">p90", ">p99", ">p99, 95 % interval"],
        [
            (name, *(show(of[p], "s") for p in ("mean", "p50", "p90", "p99")), _interval(of["confidence"]["p99"]))
            for name, of in rows
        ],
    )
    dollars, joules = facts["usd_per_million_tokens"], facts["joules_per_token"]
    render.show_pairs(
        "what it took",
        [
            ("load", f"{facts['requests_per_second']:.4g} requests/s over {show(facts['span'], 's')}"),
            ("throughput", f"{facts['throughput']:,.0f} tokens/s"),
            ("in time", f"{facts['good_share']:.2%} of the requests within the limits"),
            ("replicas", f"busy {facts['utilisation']:.0%} of their time"),
            *([("refused", f"{facts['refused']:,} requests for a full queue")] if facts["refused"] else []),
            ("preempted", counted(facts["preempted"], "request")),
            ("failures of replicas", f"{facts['failures']:,}"),
            *([] if dollars is None else [("cost", f"{dollars:.3g} $ per million tokens written")]),
            *([] if joules is None else [("energy", f"{show(joules, 'J')} per written token")]),
            *_lead_in(facts["lead_in"]),
            ("simulated", f"{facts['simulated']:,} requests, lead-ins included"),
        ],
    )  # fmt: skip


def _lead_in(check: Mapping[str, float | None]) -> list[tuple[str, str]]:
    """Whether windows begin as loaded as they go on; nothing where nothing could be compared."""
    if check["ratio"] is None:
        return []
    error = "" if check["error"] is None else f", standard error {check['error']:.1%}"
    return [
        (
            "lead-in",
            f"mean latency in the first tenth of the windows is {check['ratio']:.3f} of that in the rest{error}",
        ),
        ("", "(1 where lead-ins are long enough, less where queues are older than they are)"),
    ]


def _interval(ends: tuple[float, float]) -> str:
    return f"{show(ends[0], 's')} to {show(ends[1], 's')}"


def _capacity_range(rate: Mapping[str, Any]) -> str:
    """The rate where every step takes an end of the engine's range."""
    low, high = ("none known" if end is None else f"{end:.4g}" for end in rate["rate_range"])
    return f"{low} to {high} requests/s, where every step takes an end of the engine's 90 % range"


def _option_values(text: str) -> tuple[str, list[str]]:
    name, _, rest = text.partition("=")
    values = [part for part in rest.split("|" if "|" in rest else ",") if part]
    if not values or field_named(SimulateRequest, name) is None:
        keys = ", ".join(sorted(keys_of(SimulateRequest)))
        raise InputError("--what-if", text, f"write option=v1,v2 (values with commas: v1|v2), of {keys}")
    return name.strip("-"), values


def _show(model: str, name: str, rows: list[dict[str, Any]]) -> None:
    tasks = any("tasks" in row for row in rows)
    render.show_table(
        f"{model}: what if {name} were",
        [name, ">TTFT p50", ">TTFT p99", ">TPOT p50", ">TPOT p99", ">tokens/s", ">goodput", ">hits", ">$ per M"]
        + ([">task p50", ">task p99", ">$ per task"] if tasks else []),
        [(*_row(row), *(_task_cells(row) if tasks else ())) for row in rows],
    )
    differing_rows = [row for row in rows[1:] if row.get("difference")]
    if differing_rows:
        render.show_table(
            f"difference from {rows[0]['value']} on the same draws, with its 95 % interval",
            [name, *(f">{label} {p}" for label, _ in _compared(differing_rows[0]["difference"]) for p in COMPARED)],
            [(str(row["value"]), *_changes(row["difference"])) for row in differing_rows],
        )


def _row(row: Mapping[str, Any]) -> tuple[str, ...]:
    if "error" in row:
        return (str(row["value"]), row["error"], *[""] * 7)
    first, per_token = row["time_to_first_token"], row["time_per_output_token"]
    dollars = row["usd_per_million_tokens"]
    return (
        str(row["value"]),
        show(first["p50"], "s"),
        show(first["p99"], "s"),
        "" if per_token is None else show(per_token["p50"], "s"),
        "" if per_token is None else show(per_token["p99"], "s"),
        f"{row['throughput']:,.0f}",
        f"{row['good_share']:.1%}",
        f"{sum(row['hit_rate'].values()):.1%}" if row["blocks_asked"] else "",
        "" if dollars is None else f"{dollars:.3g}",
    )


def _task_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    tasks = row.get("tasks")
    if tasks is None:
        return "", "", ""
    dollars = "" if tasks["usd"] is None else f"{tasks['usd']:.3g}"
    return show(tasks["time"]["p50"], "s"), show(tasks["time"]["p99"], "s"), dollars


def _compared(difference: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Times whose differences are told: of tasks where there are any, as wide as a screen."""
    second = ("task", "task_time") if "task_time" in difference else ("TPOT", "time_per_output_token")
    return (("TTFT", "time_to_first_token"), second)


def _changes(difference: Mapping[str, Any]) -> list[str]:
    cells: list[str] = []
    for _, key in _compared(difference):
        for p in COMPARED:
            change = difference[key]
            cells.append("" if change is None else _signed(change[p]))
    return cells


def _signed(change: Mapping[str, float | None]) -> str:
    """A difference and its interval, in one unit."""
    value, half = change["value"] or 0.0, change["half_width"]
    scale, unit = (1e3, "ms") if abs(value) < 1 else (1.0, "s")
    text = f"{scale * value:+.3g} {unit}"
    return text if half is None else f"{text} ± {scale * half:.2g}"


def _figure(name: str, rows: list[dict[str, Any]], seed: int) -> Figure:
    if not rows:
        raise RackmathError("no value could be run, there is nothing to draw")
    across = [str(row["value"]) for row in rows]

    def line(label: str, values: list[float]) -> Series:
        return Series(name=label, x=across, y=values, kind="points")

    panels = [
        Panel(
            title=wait.replace("_", " "),
            across=name,
            up="s",
            series=[line(p, [row[wait][p] for row in rows]) for p in ("p50", "p90", "p99")],
            log_up=True,
        )
        for wait in ("time_to_first_token", "time_per_output_token")
        if all(row[wait] for row in rows)
    ]
    if all(row["blocks_asked"] for row in rows):
        shares = [line(tier, [row["hit_rate"].get(tier, 0.0) for row in rows]) for tier in rows[-1]["hit_rate"]]
        panels.append(Panel(title="prefix blocks found", across=name, up="share", series=shares))
    else:
        rate = [line("tokens/s", [row["throughput"] for row in rows])]
        panels.append(Panel(title="throughput", across=name, up="tokens/s", series=rate))
    if all(row["usd_per_million_tokens"] is not None for row in rows):
        cost = [line("cost", [row["usd_per_million_tokens"] for row in rows])]
        panels.append(Panel(title="cost", across=name, up="$ per M tokens", series=cost))
    return Figure(title=f"{rows[0]['model']} on {rows[0]['system']}: what if", panels=panels, note=f"seed {seed}")
