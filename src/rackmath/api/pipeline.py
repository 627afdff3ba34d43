"""A schedule of pipeline stages, executed event by event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from rackmath.api import kinds
from rackmath.api.fields import Option, read_fields, refuse_without
from rackmath.api.result import Result
from rackmath.errors import InputError
from rackmath.training.pipelines import NAMES, StageTimes, Timeline, execute, round_robin, run

_ROUND_ROBIN = "round-robin"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRequest:
    """A schedule of pipeline stages, and how long its operations take."""

    schedule: Annotated[str, Option(help=f"One of {', '.join((*NAMES, _ROUND_ROBIN))}.")]
    stages: Annotated[int, Option(help="Ranks of the pipeline.", kind=kinds.whole())]
    microbatches: Annotated[
        int, Option(help="Micro-batches of one iteration; of round-robin, in flight.", kind=kinds.whole())
    ]
    chunks: Annotated[
        int | None, Option(help="Stages per rank, of schedules that choose (default: 2).", kind=kinds.whole())
    ] = None
    forward: Annotated[
        str, Option(help="Time of the forward pass of a whole rank's layers; or one per stage.", kind=kinds.NUMBERS)
    ] = "1"
    backward_input: Annotated[str, Option(help="Time of the gradient of inputs.", kind=kinds.NUMBERS)] = "1"
    backward_weight: Annotated[str, Option(help="Time of the gradient of weights.", kind=kinds.NUMBERS)] = "1"
    send_time: Annotated[
        float,
        Option(
            help="Time of a message from rank to rank, which overlaps computation.",
            kind=kinds.SECONDS,
            names=("--send-time", "--send"),
        ),
    ] = 0.0
    overlap_time: Annotated[
        float | None,
        Option(
            help="Time of a forward pass beside a whole backward one (default: their sum).",
            kind=kinds.SECONDS,
            names=("--overlap-time", "--overlapped"),
        ),
    ] = None
    weight_share: Annotated[
        float,
        Option(
            help="Part of the activations that gradients of weights need.",
            kind=kinds.NUMBER,
            names=("--weight-share", "--kept"),
        ),
    ] = 1.0
    passes: Annotated[int, Option(help="Tokens of round-robin.", kind=kinds.whole())] = 8

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)


def run_pipeline(r: PipelineRequest) -> Result:
    """Makespan, bubbles by both definitions, and peak activations of a pipeline schedule; its Gantt chart.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range.
    """
    times = StageTimes(
        forward=_times(r.forward, "--forward"),
        backward_input=_times(r.backward_input, "--backward-input"),
        backward_weight=_times(r.backward_weight, "--backward-weight"),
        send_time=r.send_time,
        overlap_time=r.overlap_time,
    )
    if r.schedule == _ROUND_ROBIN:
        timeline = execute(round_robin(r.stages, r.microbatches, r.passes), times)
    else:
        refuse_without(r, f"--schedule {_ROUND_ROBIN}", "passes")
        timeline = run(r.schedule, r.stages, r.microbatches, times, r.chunks, r.weight_share)
    return Result(request=r, facts=_facts(timeline, r.microbatches), details=timeline)


def _facts(timeline: Timeline, microbatches: int) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "schedule": timeline.order.name,
        "makespan": timeline.makespan,
        "longest_span": timeline.longest_span,
        "bubble_makespan": timeline.bubble_makespan,
        "bubble_longest_span": timeline.bubble_longest_span,
        "peak_activations": list(timeline.peak_activations),
        "work": timeline.work,
    }
    if timeline.order.returns:
        # Between the last token of the first micro-batch and the one before, on the last stage.
        ends = timeline.end[-1]
        last = len(ends) - microbatches
        facts["time_per_token"] = ends[last] - ends[last - microbatches] if last >= microbatches else ends[last]
        facts["peak_activations"] = [0.0] * len(timeline.peak_activations)
    return facts


_LONGEST = 1e12
"""Longest time of a pass, in whatever unit. [1]"""


def _times(text: str, field: str) -> float | list[float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(field, text, "write one number, or one per stage with commas between") from error
    if not all(0 <= value <= _LONGEST for value in values):
        raise InputError(field, text, f"write times from 0 to {_LONGEST:g}")
    return values[0] if len(values) == 1 else values
