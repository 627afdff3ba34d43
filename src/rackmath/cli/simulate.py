"""``simulate``: a trace, or made-up traffic, through a fleet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import click

from rackmath.cli import render
from rackmath.cli.figures import save
from rackmath.cli.quantities import NUMBER, REQUEST_RATE, SECONDS, TIME_PER_TOKEN, Whole
from rackmath.cli.simulate_text import figure, show_result
from rackmath.constants_file import DEFAULT_ENGINE, FAMILIES, NOW
from rackmath.errors import InputError
from rackmath.figures.write import check_picture
from rackmath.serving.simulator.outcome import series, timeline
from rackmath.serving.simulator.run import Outcome
from rackmath.serving.simulator.settings import EVICTIONS, POLICIES, PREEMPTIONS, ROUTERS
from rackmath.snapshots import Checkpoint
from rackmath.sweeps.replay_options import ASIDE
from rackmath.sweeps.replay_report import assumptions, ends, facts_of, seen
from rackmath.sweeps.replays import Job, job_of, run
from rackmath.tables import write_table, write_text
from rackmath.units import show

_ROWS = 1_000_000
"""Of the table of requests that are written at a time."""


@click.command(
    "simulate",
    epilog="Example: rackmath simulate llama-3.1-8b --on h100-sxm --gpus 2 --poisson 20 --input 1000 --output 200",
)
@click.argument("model", metavar="MODEL")
@click.option("--on", "on", required=True, metavar="SYSTEM", help="Catalogue name, or path of a TOML file.")
@click.option("--gpus", type=Whole(1, 1_000_000), required=True, help="Accelerators of the fleet.")
@click.option("--layout", help="Of one copy, as tp8,ep8,dp1 (default: the fewest accelerators that hold the model).")
@click.option("--prefill-gpus", type=Whole(1), help="Of them, read prompts only: two pools.")
@click.option("--prefill-layout", help="Of one copy that reads (default: as --layout).")
@click.option("--prefill-on", metavar="SYSTEM", help="That reads (default: as --on).")
@click.option(
    "--beside",
    multiple=True,
    metavar="'gpus=8 seats=16 share=0.2'",
    help="Unlike replicas in the same fleet: model, on, gpus, layout, seats, budget, weights, kv; "
    "for a share of the requests alone, or for a model that the trace names (for=NAME).",
)
@click.option("--trace", type=click.Path(path_type=Path), help="CSV, JSONL or Parquet: Azure, Mooncake, BurstGPT, own.")
@click.option("--repair", is_flag=True, help="Mend a trace instead of refusing it, and say how.")
@click.option("--scale", type=NUMBER, default=1.0, show_default=True, help="Times as fast.")
@click.option(
    "--copies", type=NUMBER, default=1.0, show_default=True, help="Times as many requests over the same time."
)
@click.option("--first", type=Whole(1), help="Only so many requests.")
@click.option("--poisson", "rate", type=REQUEST_RATE, help="Requests per second, made up.")
@click.option("--users", type=Whole(1), help="Users instead, each of whom waits for an answer and asks again.")
@click.option("--turns", type=Whole(1), default=1, show_default=True, help="Of a session of growing context.")
@click.option("--grows", type=Whole(0), default=0, help="Tokens that a turn adds beside the answer.")
@click.option("--think", type=SECONDS, default=0.0, show_default=True, help="Mean time of a user between turns, in s.")
@click.option(
    "--burst", type=NUMBER, default=1.0, show_default=True, help="Spread of gaps over their mean; 1 is Poisson."
)
@click.option("--swing", type=NUMBER, default=0.0, show_default=True, help="Of the rate over a day, 0 to 1.")
@click.option("--input", "input_tokens", type=NUMBER, help="Mean tokens of a prompt.")
@click.option("--output", "output_tokens", type=NUMBER, help="Mean tokens of an answer.")
@click.option("--cached-prefix", type=NUMBER, default=0.0, help="Part of a prompt that is always in the cache, 0 to 1.")
@click.option(
    "--spread", type=NUMBER, default=0.5, show_default=True, help="Standard deviation of lengths over their mean."
)
@click.option(
    "--requests", type=Whole(1, 100_000_000), default=10_000, show_default=True, help="Requests that are made up."
)
@click.option("--classes", help="Shares of priority classes, most urgent first, as 0.2,0.8.")
@click.option("--policy", type=click.Choice(list(POLICIES)), default="chunked", show_default=True)
@click.option("--preemption", type=click.Choice(list(PREEMPTIONS)), default="recompute", show_default=True)
@click.option("--budget", type=Whole(), default=8192, show_default=True, help="Tokens of one step.")
@click.option("--seats", type=Whole(), default=256, show_default=True, help="Sequences of a replica at most.")
@click.option("--block", type=Whole(), default=16, show_default=True, help="Tokens of a block of the cache.")
@click.option("--drafted", type=Whole(), default=0, show_default=True, help="Tokens that a step speculates.")
@click.option("--acceptance", help="Chance that a draft is accepted, for all or by position as 0.8,0.6 [as measured].")
@click.option("--draft-model", metavar="MODEL", help="Model that drafts (default: the model's own layers).")
@click.option("--period", type=SECONDS, default=0.02, show_default=True, help="Of the train, in s.")
@click.option("--tiers", help="Prefix cache of a replica, as hbm=shared,ddr5=1TB,all:pool=9TB@50GB/s+1ms; inf; none.")
@click.option("--eviction", type=click.Choice(list(EVICTIONS)), default="lru", show_default=True)
@click.option("--ttl", type=SECONDS, default=300.0, show_default=True, help="Of unused blocks under ttl, in s.")
@click.option("--write-through", is_flag=True, help="Blocks go to all tiers at once, not when they are given up.")
@click.option("--wait-for-loads", is_flag=True, help="Steps wait for blocks from lower tiers.")
@click.option("--prefix-block", type=Whole(), default=512, show_default=True, help="Tokens of a prefix block.")
@click.option("--router", type=click.Choice(list(ROUTERS)), default="least-loaded", show_default=True)
@click.option("--mtbf", type=SECONDS, help="Mean time between failures of a replica, in s.")
@click.option("--repair-time", type=SECONDS, default=600.0, show_default=True, help="Of a replica that failed, in s.")
@click.option(
    "--scale-to", type=Whole(), help="Start with the replicas that --gpus make, go up to so many with the load."
)
@click.option("--startup", type=SECONDS, default=60.0, show_default=True, help="Of a replica, in s.")
@click.option("--ttft", type=SECONDS, help="Limit of the time to the first token, in s, for goodput.")
@click.option("--tpot", type=TIME_PER_TOKEN, help="Limit of the time per token, in s, for goodput.")
@click.option("--what-if", "what_if", metavar="OPTION=V1,V2", help="Run for each value of an option and compare.")
@click.option("--capacity", type=click.Choice(["p50", "p90", "p99"]), help="Search the highest rate that keeps limits.")
@click.option("--workers", type=Whole(1, 4096), help="Processes for many runs (default: cores).")
@click.option("--on-cluster", metavar="ADDRESS", help="Many runs on Ray: ray://host:10001, or auto.")
@click.option("--weights", help="Format of the linear layers (default: the config's).")
@click.option("--kv", help="Format of the cache (default: the config's).")
@click.option("--engine", type=click.Choice(FAMILIES), default=DEFAULT_ENGINE, show_default=True)
@click.option("--year", type=NUMBER, default=NOW, show_default=True, help="When the engine's version is from.")
@click.option("--ideal", is_flag=True, help="The pure bound, without an engine's losses.")
@click.option("--usd-per-gpu-hour", type=NUMBER, help="Price of one accelerator, if not the catalogue's.")
@click.option("--seed", type=Whole(), default=0, show_default=True)
@click.option(
    "--checkpoint",
    metavar="FILE.npz|FOLDER",
    help="Keep a long run here, and go on from it; removed at the end. A folder for many runs.",
)
@click.option("--out", metavar="FILE.parquet", help="Write one row per request.")
@click.option("--series", "series_file", metavar="FILE", help="Write the fleet over time: FILE.csv or FILE.parquet.")
@click.option("--timeline", "timeline_file", metavar="FILE.json", help="Write a trace for Perfetto.")
@click.option("--plot", metavar="FILE", help="Draw load, queue and percentiles: FILE.html, FILE.png or FILE.svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def simulate_command(model: str, on: str, **given: Any) -> None:
    """Replay real traffic, or made-up traffic, against a deployment, event by event.

    Step times are the engine's, as in estimate; replicas batch continuously, page their cache, give places up, share
    prefixes. The range is that of all steps at the engine's 90 % range.

    MODEL is a catalogue name, a path to a config.json, or a folder that holds one.
    """
    drawn = check_picture(given["plot"])
    for name, ends_with in (
        ("out", (".parquet",)),
        ("timeline_file", (".json",)),
        ("series_file", (".csv", ".parquet")),
    ):
        if given[name] and not given[name].endswith(ends_with):
            raise InputError("--" + name.split("_")[0], given[name], f"end the name with {' or '.join(ends_with)}")
    # Many runs bring what sweeps need.
    if given["what_if"]:
        from rackmath.cli.simulate_more import compared

        compared(model, on, given, drawn)
        return
    if given["capacity"]:
        from rackmath.cli.simulate_more import largest_rate

        largest_rate(model, on, given)
        return
    job = job_of(model, on, given)
    kept = _checkpoint(model, on, given)
    started = perf_counter()
    found = run(job, render.show_progress, kept)
    seconds = perf_counter() - started
    if kept is not None:
        kept.done()
    facts = facts_of(job, found)
    facts["seconds"] = seconds
    facts["range"] = ends(job)
    _with_ranges(facts)
    facts["assumptions"] = assumptions(job)
    last = found[-1]
    if given["out"]:
        _write_requests(Path(given["out"]), job, found)
    if given["timeline_file"]:
        text = json.dumps({"traceEvents": timeline(last), "displayTimeUnit": "ms"})
        write_text(Path(given["timeline_file"]), text, "--timeline")
    over = series(last, job.work.output, found[0], job.work.block)
    if given["series_file"]:
        _write_series(Path(given["series_file"]), over)
    if drawn is not None:
        save(figure(facts, over, seen(job, found)), drawn)
    if given["as_json"]:
        render.show_json(facts)
        return
    show_result(facts)
    render.show_note(f"simulate: {len(job.work):,} requests in {show(seconds, 's')}")


def _with_ranges(facts: dict[str, Any]) -> None:
    """Put beside every percentile what it is where all steps take either end of their range."""
    span = facts["range"]
    for key in ("time_to_first_token", "time_per_output_token", "latency"):
        if span is not None and facts[key] is not None and key in span["low"] and key in span["high"]:
            for name in ("mean", "p50", "p90", "p99"):
                facts[key][f"{name}_range"] = [span["low"][key][name], span["high"][key][name]]


def _checkpoint(model: str, on: str, given: dict[str, Any]) -> Checkpoint | None:
    if given["checkpoint"] is None:
        return None
    if not given["checkpoint"].endswith(".npz"):
        raise InputError("--checkpoint", given["checkpoint"], "end the name with .npz")
    # Limits only count who kept them.
    asked = {key: value for key, value in given.items() if key not in (*ASIDE, "ttft", "tpot")}
    return Checkpoint(Path(given["checkpoint"]), {"model": model, "on": on, **asked})


def _write_series(path: Path, over: Mapping[str, Any]) -> None:
    import polars as pl

    write_table(path, pl.DataFrame(dict(over)), "--series")


def _write_requests(path: Path, job: Job, found: tuple[Outcome, ...]) -> None:
    """One row per request, made and written a million at a time."""
    import polars as pl
    from polars.io.plugins import register_io_source

    times, first, last = seen(job, found), found[0].requests, found[-1].requests
    columns: dict[str, tuple[Any, Any]] = {
        "arrival": (first["arrival"], pl.Float64),
        "input": (job.work.prompt, pl.Int32),
        "output": (job.work.output, pl.Int32),
        "priority": (job.work.rank, pl.Int32),
        "replica": (last["place"], pl.Int32),
        "cached_tokens": (first["hit"], pl.Int32),
        "preempted": (last["dropped"], pl.Int32),
        "queueing": (times.queueing, pl.Float64),
        "time_to_first_token": (times.first, pl.Float64),
        "time_per_output_token": (times.per_token, pl.Float64),
        "latency": (times.whole, pl.Float64),
    }

    def pieces(*_: object) -> Iterator[pl.DataFrame]:
        for at in range(0, len(job.work), _ROWS):
            yield pl.DataFrame({name: values[at : at + _ROWS] for name, (values, _) in columns.items()})

    schema = pl.Schema({name: kind for name, (_, kind) in columns.items()})
    write_table(path, register_io_source(pieces, schema=schema), "--out")
