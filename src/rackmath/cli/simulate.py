"""``simulate``: a trace, or generated traffic, through a fleet."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import click

from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.result import run_simulation
from rackmath.cli import render
from rackmath.cli.options import request_options
from rackmath.cli.quantities import WholeNumber
from rackmath.cli.simulate_text import show_result
from rackmath.errors import InputError
from rackmath.figures.write import check_picture, write_figure
from rackmath.io.snapshots import Checkpoint
from rackmath.sweeps.replay_runs import RunLocation
from rackmath.units import show


@click.command(
    "simulate",
    epilog="Example: rackmath simulate llama-3.1-8b --on h100-sxm --gpus 2 --poisson 20 --input 1000 --output 200",
)
@request_options(SimulateRequest)
@click.option("--what-if", metavar="OPTION=V1,V2", help="Run for each value of an option and compare.")
@click.option(
    "--capacity", type=click.Choice(["p50", "p90", "p95", "p99"]), help="Search the highest rate that keeps limits."
)
@click.option(
    "--windows",
    type=WholeNumber(1, 1_000_000),
    help="Cut a long run of --poisson into windows of time, simulate each, merge them.",
)
@click.option("--workers", type=WholeNumber(1, 4096), help="Processes for many runs (default: cores).")
@click.option("--on-cluster", metavar="ADDRESS", help="Many runs on Ray: ray://host:10001, or auto.")
@click.option(
    "--checkpoint",
    metavar="FILE.npz|FOLDER",
    help="Keep a long run here, and go on from it; removed at the end. A folder for many runs.",
)
@click.option("--out", metavar="FILE.parquet", help="Write one row per request.")
@click.option("--series", metavar="FILE", help="Write the fleet over time: FILE.csv or FILE.parquet.")
@click.option("--timeline", metavar="FILE.json", help="Write a trace for Perfetto.")
@click.option("--plot", metavar="FILE", help="Draw load, queue and percentiles: FILE.html, FILE.png or FILE.svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def simulate_command(
    request: SimulateRequest,
    what_if: str | None,
    capacity: str | None,
    windows: int | None,
    workers: int | None,
    on_cluster: str | None,
    checkpoint: str | None,
    out: str | None,
    series: str | None,
    timeline: str | None,
    plot: str | None,
    as_json: bool,
) -> None:
    """Replay real traffic, or generated traffic, against a deployment, event by event.

    Step times are the engine's, as in estimate; replicas batch continuously, page their cache, give places up, share
    prefixes. The range is that of all steps at the engine's 90 % range.

    MODEL is a catalogue name, a path to a config.json, or a folder that holds one.
    """
    picture = check_picture(plot)
    files = (
        ("--out", out, (".parquet",)),
        ("--timeline", timeline, (".json",)),
        ("--series", series, (".csv", ".parquet")),
    )
    for name, path, ends_with in files:
        if path and not path.endswith(ends_with):
            raise InputError(name, path, f"end the name with {' or '.join(ends_with)}")
    if what_if or capacity or windows:
        folder = None if checkpoint is None else Path(checkpoint)
        _many_runs(
            request,
            what_if,
            capacity,
            windows,
            RunLocation(workers=workers, cluster=on_cluster, folder=folder),
            picture,
            as_json,
        )
        return
    progress_file = _checkpoint(request, checkpoint)
    result = run_simulation(request, render.show_progress, progress_file)
    if progress_file is not None:
        progress_file.done()
    if out:
        result.write_requests(Path(out), "--out")
    if timeline:
        result.write_timeline(Path(timeline), "--timeline")
    if series:
        result.write_series(Path(series), "--series")
    if picture is not None:
        write_figure(result.picture(), picture)
    if as_json:
        render.show_json(result.to_dict())
        return
    show_result(result.to_dict())
    render.show_note(f"simulate: {len(result.setup.work):,} requests in {show(result.seconds, 's')}")


def _many_runs(
    request: SimulateRequest,
    what_if: str | None,
    capacity: str | None,
    windows: int | None,
    where: RunLocation,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Runs that are compared, searched or joined."""
    # Many runs bring what sweeps need.
    from rackmath.cli import simulate_more

    ways = {"--what-if": what_if, "--capacity": capacity, "--windows": windows}
    first, *rest = [(name, value) for name, value in ways.items() if value]
    if rest:
        raise InputError(*first, f"leave {rest[0][0]} out: one of them at a time")
    if what_if:
        simulate_more.compared(request, what_if, where, picture, as_json)
    elif capacity:
        simulate_more.largest_rate(request, capacity, where, as_json)
    elif windows:
        simulate_more.long_run(request, windows, where, as_json)


def _checkpoint(request: SimulateRequest, path: str | None) -> Checkpoint | None:
    if path is None:
        return None
    if not path.endswith(".npz"):
        raise InputError("--checkpoint", path, "end the name with .npz")
    # Limits only count who kept them.
    settings = {f.name: getattr(request, f.name) for f in fields(request) if f.name not in ("ttft", "tpot")}
    return Checkpoint(Path(path), settings)
