"""``plan``: the best deployment of a model on a budget of accelerators, and the frontier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rackmath.api.plan import run_plan
from rackmath.api.plan_question import PlanRequest
from rackmath.cli import render
from rackmath.cli.options import request_options
from rackmath.cli.plan_text import show_plan, show_verification
from rackmath.cli.quantities import WholeNumber
from rackmath.errors import InputError
from rackmath.figures.pictures import frontier_figure
from rackmath.figures.write import check_picture, write_figure


@click.command(
    epilog="Example: rackmath plan deepseek-v3 --on h200-sxm --gpus 32 --input 4000 --output 1000 --ttft 2 --tpot 0.05"
)
@request_options(PlanRequest)
@click.option(
    "--simulate", "traffic", metavar="RATE|TRACE", help="Rank the best points on such traffic, event by event."
)
@click.option("--workers", type=WholeNumber(1, 4096), help="Processes for --simulate (default: cores).")
@click.option("--on-cluster", metavar="ADDRESS", help="Simulate on Ray: ray://host:10001, or auto.")
@click.option("--checkpoint", type=click.Path(path_type=Path), metavar="FOLDER", help="Keep simulated runs here.")
@click.option(
    "--at",
    "percentile",
    type=click.Choice(["p50", "p90", "p95", "p99"]),
    default="p99",
    show_default=True,
    help="Percentile by which --simulate ranks under the limits.",
)
@click.option("--explain", is_flag=True, help="Show where accelerator time goes and the equations.")
@click.option("--verify", is_flag=True, help="Add the benchmarks that check the best, and what to expect of them.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Write the best as files: scripts, Compose, Kubernetes, llm-d, Dynamo.",
)
@click.option("--plot", metavar="FILE", help="Draw the frontier: FILE.html, FILE.png or FILE.svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan(
    request: PlanRequest,
    traffic: str | None,
    percentile: str,
    workers: int | None,
    on_cluster: str | None,
    checkpoint: Path | None,
    explain: bool,
    verify: bool,
    out: Path | None,
    plot: str | None,
    as_json: bool,
) -> None:
    """Search every sensible deployment: the frontier, the best under limits, launch commands.

    MODEL is a catalogue name, a path to a config.json, or a folder that holds one. With --rate and limits on
    percentiles, as --ttft-p99 1s, the fewest accelerators in whole boxes are searched, event by event.
    """
    picture = check_picture(plot)
    if request.asks_for_size:
        if traffic is not None or verify or explain or out is not None:
            raise InputError(
                "--rate", request.rate, "with limits on percentiles leave out --simulate, --verify, --explain, --out"
            )
        _size(request, picture, as_json)
        return
    result = run_plan(request)
    facts: dict[str, Any] = result.to_dict()
    if verify:
        facts["verify"] = result.verification()
    if traffic is not None:
        from rackmath.cli.plan_simulate import resimulated
        from rackmath.sweeps.replay_runs import RunLocation

        where = RunLocation(workers=workers, cluster=on_cluster, folder=checkpoint)
        facts["simulated"] = resimulated(result, traffic, percentile, where)
    if picture is not None:
        write_figure(frontier_figure(facts), picture)
    if out is not None:
        render.show_progress(f"plan: {out} holds {', '.join(result.write(out))}")
    if as_json:
        render.show_json(facts)
        return
    show_plan(facts, explain)
    if verify:
        show_verification(facts["verify"])
    if traffic is not None:
        from rackmath.cli.plan_simulate import show_resimulated

        show_resimulated(facts["simulated"], traffic, percentile)


def _size(request: PlanRequest, picture: Path | None, as_json: bool) -> None:
    """The fewest accelerators that keep limits on percentiles."""
    from rackmath.api.size import run_size
    from rackmath.cli.size_text import show_size

    result = run_size(request, render.show_progress)
    if picture is not None:
        write_figure(result.picture(), picture)
    if as_json:
        render.show_json(result.facts)
        return
    show_size(result.facts)
