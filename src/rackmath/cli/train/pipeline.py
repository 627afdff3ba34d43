"""``train pipeline``: a schedule of pipeline stages, executed event by event."""

from __future__ import annotations

from typing import Any

import click

from rackmath.cli import render
from rackmath.cli.quantities import NUMBER, SECONDS, Whole
from rackmath.cli.train.gantt import gantt_lines, save_gantt
from rackmath.errors import InputError
from rackmath.figures.write import check_picture
from rackmath.training.pipelines import NAMES, Timeline, Times, execute, round_robin, run
from rackmath.training.pipelines.order import LETTERS

_ROUND_ROBIN = "round-robin"
_WIDEST_SKETCH = 32


@click.command(
    epilog="Example: rackmath train pipeline --schedule zb-h1 --stages 8 --microbatches 24 --backward-weight 0.5"
)
@click.option("--schedule", "name", required=True, help=f"One of {', '.join((*NAMES, _ROUND_ROBIN))}.")
@click.option("--stages", type=Whole(), required=True, help="Ranks of the pipeline.")
@click.option("--microbatches", type=Whole(), required=True, help="Of one iteration; of round-robin, in flight.")
@click.option("--chunks", type=Whole(), help="Stages per rank, of schedules that choose (default: 2).")
@click.option("--forward", default="1", show_default=True, help="Time of a whole rank's layers; or one per stage.")
@click.option("--backward-input", default="1", show_default=True, help="Of the gradient of inputs.")
@click.option("--backward-weight", default="1", show_default=True, help="Of the gradient of weights.")
@click.option("--send", type=SECONDS, default=0.0, show_default=True, help="From rank to rank; hidden where it can be.")
@click.option("--overlapped", type=SECONDS, help="A forward pass beside a whole backward one (default: their sum).")
@click.option("--kept", type=NUMBER, default=1.0, show_default=True, help="Part of activations kept for weights.")
@click.option("--passes", type=Whole(), default=8, show_default=True, help="Tokens of round-robin.")
@click.option("--plot", metavar="FILE", help="Draw the Gantt chart: FILE.html, FILE.png or FILE.svg.")
@click.option("--explain", is_flag=True, help="Show the definitions with their numbers.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def pipeline(
    name: str,
    stages: int,
    microbatches: int,
    chunks: int | None,
    forward: str,
    backward_input: str,
    backward_weight: str,
    send: float,
    overlapped: float | None,
    kept: float,
    passes: int,
    plot: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Makespan, bubbles by both definitions, and peak activations of a pipeline schedule; its Gantt chart.

    Times are in any unit; a list of them, one per stage or rank, is written with commas.
    """
    drawn = check_picture(plot)
    times = Times(
        forward=_times(forward, "--forward"),
        backward_input=_times(backward_input, "--backward-input"),
        backward_weight=_times(backward_weight, "--backward-weight"),
        send=send,
        overlapped=overlapped,
    )
    if name == _ROUND_ROBIN:
        found = execute(round_robin(stages, microbatches, passes), times)
    else:
        found = run(name, stages, microbatches, times, chunks, kept)
    if drawn is not None:
        save_gantt(found, drawn)
    facts = _facts(found, microbatches)
    if as_json:
        render.show_json(facts)
        return
    render.show_pairs(f"{name}: {stages} stages, {microbatches} micro-batches", _lines(facts))
    if stages <= _WIDEST_SKETCH:
        render.show_lines(f"timeline ({_legend()})", gantt_lines(found))
    if explain:
        render.show_lines("definitions", _definitions(found))


def _facts(found: Timeline, microbatches: int) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "schedule": found.order.name,
        "makespan": found.makespan,
        "longest_span": found.longest_span,
        "bubble_makespan": found.bubble_makespan,
        "bubble_longest_span": found.bubble_longest_span,
        "peak_activations": list(found.peak_activations),
        "work": found.work,
    }
    if found.order.returns:
        # Between the last token of the first micro-batch and the one before, on the last stage.
        ends = found.end[-1]
        last = len(ends) - microbatches
        facts["time_per_token"] = ends[last] - ends[last - microbatches] if last >= microbatches else ends[last]
        facts["peak_activations"] = [0.0] * len(found.peak_activations)
    return facts


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


def _definitions(found: Timeline) -> tuple[str, ...]:
    return (
        f"bubble of the makespan     1 - work / makespan = 1 - {found.work:.6g} / {found.makespan:.6g}",
        f"bubble of the longest span 1 - work / longest span = 1 - {found.work:.6g} / {found.longest_span:.6g}",
        "makespan: first start to last end of all ranks, what an optimizer sees that waits for all of them",
        "longest span: of one rank, from its first start to its last end; what counts where iterations may skew",
        "peak activations: in activations of one micro-batch on a whole rank",
    )


def _times(text: str, field: str) -> float | list[float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(field, text, "write one number, or one per stage with commas between") from error
    return values[0] if len(values) == 1 else values


def _legend() -> str:
    words = ("forward", "inputs' gradient", "weights' gradient", "both gradients", "forward beside backward")
    return ", ".join(f"{letter} {word}" for letter, word in zip(LETTERS, words, strict=True))
