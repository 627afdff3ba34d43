"""``train pipeline``: a schedule of pipeline stages, executed event by event."""

from __future__ import annotations

from typing import Any

import click

from rackmath.api.pipeline import PipelineRequest, run_pipeline
from rackmath.cli import render
from rackmath.cli.options import request_options
from rackmath.cli.train.gantt import gantt_lines, save_gantt
from rackmath.figures.write import check_picture
from rackmath.training.pipelines import Timeline
from rackmath.training.pipelines.order import LETTERS


@click.command(
    epilog="Example: rackmath train pipeline --schedule zb-h1 --stages 8 --microbatches 24 --backward-weight 0.5"
)
@request_options(PipelineRequest)
@click.option("--plot", metavar="FILE", help="Draw the Gantt chart: FILE.html, FILE.png or FILE.svg.")
@click.option("--explain", is_flag=True, help="Show the definitions with their numbers.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def pipeline(request: PipelineRequest, plot: str | None, explain: bool, as_json: bool) -> None:
    """Makespan, bubbles by both definitions, and peak activations of a pipeline schedule; its Gantt chart.

    Times are in any unit; a list of them, one per stage or rank, is written with commas.
    """
    picture = check_picture(plot)
    result = run_pipeline(request)
    if picture is not None:
        save_gantt(result.details, picture)
    if as_json:
        render.show_json(result.facts)
        return
    r = request
    render.show_pairs(f"{r.schedule}: {r.stages} stages, {r.microbatches} micro-batches", _lines(result.facts))
    if r.stages <= _WIDEST_SKETCH:
        render.show_lines(f"timeline ({_legend()})", gantt_lines(result.details))
    if explain:
        render.show_lines("definitions", _definitions(result.details))


_WIDEST_SKETCH = 32


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    lines = [
        ("makespan", f"{facts['makespan']:.6g}; bubble {facts['bubble_makespan']:.2%} of it"),
        ("longest span", f"{facts['longest_span']:.6g}; bubble {facts['bubble_longest_span']:.2%} of it"),
        ("work of a rank", f"{facts['work']:.6g}"),
    ]
    if "time_per_token" in facts:
        lines.append(("time per token", f"{facts['time_per_token']:.6g}"))
    else:
        peaks = facts["peak_activations"]
        lines.append(("peak activations", f"{max(peaks):.4g} at most, {min(peaks):.4g} at least"))
    return lines


def _definitions(timeline: Timeline) -> tuple[str, ...]:
    return (
        f"bubble of the makespan     1 - work / makespan = 1 - {timeline.work:.6g} / {timeline.makespan:.6g}",
        f"bubble of the longest span 1 - work / longest span = 1 - {timeline.work:.6g} / {timeline.longest_span:.6g}",
        "makespan: first start to last end of all ranks, what an optimizer sees that waits for all of them",
        "longest span: of one rank, from its first start to its last end; what counts where iterations may skew",
        "peak activations: in activations of one micro-batch on a whole rank",
    )


def _legend() -> str:
    words = ("forward", "inputs' gradient", "weights' gradient", "both gradients", "forward beside backward")
    return ", ".join(f"{letter} {word}" for letter, word in zip(LETTERS, words, strict=True))
