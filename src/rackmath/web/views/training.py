"""Training: a run on accelerators, budgets of a model's life, and schedules of pipelines side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from rackmath.api.budget import BudgetRequest
from rackmath.api.pipeline import PipelineRequest
from rackmath.api.summary import training_summary
from rackmath.api.train_request import PRECISIONS, TrainRequest
from rackmath.cli.train.gantt import COLOURS, NAMES
from rackmath.errors import InputError
from rackmath.io.constants_file import FRAMEWORKS
from rackmath.training.activations import RECOMPUTE
from rackmath.training.pipelines import Timeline
from rackmath.training.pipelines.schedules import SCHEDULES
from rackmath.training.scaling_laws import LAWS
from rackmath.units import show
from rackmath.web.inputs import (
    Inputs,
    Model,
    OtherEngineInputs,
    System,
    asking,
    choice,
    named,
    number,
    slider,
    text,
    ticked,
    values_of,
)
from rackmath.web.shown import PageContent, Table, View, answered, drawn

_LAWS, _SCHEDULES, _PRECISIONS = tuple(LAWS), tuple(SCHEDULES), tuple(PRECISIONS)
_MOST = 6000
"""Operations of a chart that a browser still draws at once."""


@asking(TrainRequest)
class TrainInputs(OtherEngineInputs):
    """One training run."""

    model: Model = named("llama-3.1-70b", "model", "model")
    on: System = named("h100-sxm", "system", "system")
    gpus: float = slider(512, 1, 100_000, "accelerators", whole=True)
    tokens: float = slider(2.0, 0.001, 100, "tokens", unit="T", suffix="T")
    batch_tokens: float = slider(16e6, 8192, 1e9, "tokens of a step")
    length: float = slider(8192, 512, 1e6, "tokens of a sequence", whole=True)
    layout: str = text("", "layout, or the quickest that fits", hint="tp8,pp4")
    precision: Literal[_PRECISIONS] = choice("bf16", "precision of products")  # type: ignore[valid-type]
    recompute: Literal[("", *RECOMPUTE)] = choice("", "recomputed activations, or the best")  # type: ignore[valid-type]
    lora_rank: float | None = number(None, 1, 1024, "rank of adapters, or the model itself")
    framework: Literal[FRAMEWORKS] = choice("megatron", "framework")  # type: ignore[valid-type]
    grid: float | None = number(None, 0, 2000, "CO2 of the grid", unit="g/kWh")


def train(i: TrainInputs) -> PageContent:
    """Days, dollars, and what an accelerator's memory holds."""
    answer = answered("train run", TrainRequest(**values_of(i, *TrainInputs.__annotations__)))
    f = answer.facts
    return PageContent(
        figures=drawn(answer.result.picture()),
        pairs=_of_run(f) if f["fits"] else [("run", " ".join(training_summary(f)))],
        facts=f,
        command=answer.command,
        python=answer.python,
        notes=f["assumptions"],
    )


def _of_run(f: Mapping[str, Any]) -> list[tuple[str, str]]:
    low, high = f["days_range"]
    energy = [] if f["energy_mwh"] is None else [("energy", f"{f['energy_mwh']:,.3g} MWh of accelerators")]
    co2 = [] if f["kg_co2"] is None else [("CO2", f"{f['kg_co2'] / 1000:,.3g} t")]
    return [
        ("days", f"{f['days']:,.3g}, {low:,.3g} to {high:,.3g}"),
        ("cost", "no price is known" if f["usd"] is None else f"{f['usd']:,.0f} $"),
        ("step", f"{show(f['step_time'], 's')}, MFU {f['mfu']:.1%}"),
        ("layout", f"{f['layout']}, micro-batch {f['microbatch']:g}, recompute {f['recompute']}"),
        ("memory", f"{f['memory_per_gpu'] / 1e9:.1f} of {f['capacity'] / 1e9:.1f} GB each"),
        *energy,
        *co2,
    ]


@asking(BudgetRequest, aliases={"size": "params", "written": "inference_tokens", "read": "prompt_tokens"})
class BudgetInputs(Inputs):
    """A loss to reach, and the tokens that the model will serve."""

    law: Literal[_LAWS] = choice("besiroglu", "law")  # type: ignore[valid-type]
    size: float = slider(70.0, 0.1, 2000, "a model whose loss is to be reached: parameters", unit="B", suffix="B")
    tokens: float = slider(15.0, 0.01, 200, "and its tokens", unit="T", suffix="T")
    written: float = slider(10.0, 0, 10_000, "tokens that it writes in its life", unit="T", log=False, suffix="T")
    read: float = slider(0.0, 0, 10_000, "tokens that it reads", unit="T", log=False, suffix="T")
    rl_share: float = slider(0.0, 0, 3, "reinforcement learning over pre-training", log=False)
    success: float = slider(1.0, 0.01, 1, "chance that it is served", log=False)
    decode_efficiency: float = slider(0.3, 0.02, 1, "utilisation of writing over training", log=False)


def budget(i: BudgetInputs) -> PageContent:
    """Least cost over a life, beside equal costs and the compute optimum."""
    answer = answered("train budget", BudgetRequest(**values_of(i, *BudgetInputs.__annotations__)))
    f = answer.facts
    columns = (
        ("least cost", f),
        ("equal costs", f["heuristic"]),
        ("compute optimum", f["compute_optimal"]),
        ("given", f["given"]),
    )
    rows = [
        (
            name,
            f"{item['params'] / 1e9:,.3g} B",
            f"{item['tokens'] / 1e12:,.3g} T",
            f"{item['overtraining']:.3g}",
            *(f"{item[key]:.3g}" for key in ("cost_pretrain", "cost_rl", "cost_inference", "total")),
        )
        for name, item in columns
        if item is not None
    ]
    return PageContent(
        figures=drawn(answer.result.picture()),
        pairs=[
            ("over-training at least cost", f"{f['overtraining']:.3g} times the compute optimum"),
            ("inference over pre-training there", f"{f['inference_over_pretrain']:.3g}"),
            ("equal costs are the optimum at", f"{f['equal_cost_overtraining']:.3g} times"),
        ],
        tables=[
            Table(
                title="ways to the same loss, in FLOP",
                columns=["", ">size", ">tokens", ">over-training", ">training", ">RL", ">serving", ">all"],
                rows=rows,
            )
        ],
        facts=f,
        command=answer.command,
        python=answer.python,
        notes=f.get("notes", []),
    )


@asking(PipelineRequest, aliases={"beside": "schedule"}, own_fields=("together",))
class PipelineInputs(Inputs):
    """One schedule or two of the same work."""

    schedule: Literal[_SCHEDULES] = choice("1f1b", "schedule")  # type: ignore[valid-type]
    beside: Literal[("", *_SCHEDULES)] = choice("zb-h1", "beside it")  # type: ignore[valid-type]
    stages: float = slider(8, 2, 32, "stages", log=False, whole=True)
    microbatches: float = slider(24, 1, 128, "micro-batches", whole=True)
    forward: float = slider(1.0, 0.1, 10, "forward")
    backward_input: float = slider(1.0, 0.1, 10, "gradient of inputs")
    backward_weight: float = slider(1.0, 0.1, 10, "gradient of weights")
    send: float = slider(0.0, 0, 2, "from stage to stage", log=False)
    together: bool = ticked(True, "charts on the same scale")


def pipeline(i: PipelineInputs) -> PageContent:
    """Gantt charts, bubbles and peak activations."""
    common = values_of(i, "stages", "microbatches", "forward", "backward_input", "backward_weight", "send")
    timelines: list[tuple[str, dict[str, Any], Timeline]] = []
    lines = []
    for name in dict.fromkeys(schedule for schedule in (i.schedule, i.beside) if schedule):
        answer = answered("train pipeline", PipelineRequest(schedule=name, **common))
        timelines.append((name, answer.facts, answer.result.details))
        lines.append(answer.command)
    longest = max(f["makespan"] for _, f, _ in timelines)
    rows = [
        (
            name,
            f"{f['makespan']:.4g}",
            f"{f['bubble_makespan']:.2%}",
            f"{f['bubble_longest_span']:.2%}",
            f"{max(f['peak_activations']):.4g}",
            f"{min(f['peak_activations']):.4g}",
        )
        for name, f, _ in timelines
    ]
    return PageContent(
        figures=[_gantt(name, timeline, longest if i.together else f["makespan"]) for name, f, timeline in timelines],
        tables=[
            Table(
                title="schedules",
                columns=[
                    "",
                    ">makespan",
                    ">bubble of it",
                    ">bubble of the longest stage",
                    ">most activations",
                    ">least",
                ],
                rows=rows,
            )
        ],
        facts={name: f for name, f, _ in timelines},
        command="\n".join(lines),
        notes=["peak activations count whole micro-batches on a whole stage"],
    )


def _gantt(name: str, timeline: Timeline, until: float) -> dict[str, Any]:
    """Bars of one colour per kind of work, stages downwards."""
    bars: dict[int, tuple[list[float], list[float], list[int], list[str]]] = {}
    count = 0
    for rank, operations in enumerate(timeline.order.operations):
        for (kind, *rest), start, end in zip(operations, timeline.start[rank], timeline.end[rank], strict=True):
            base, length, row, text = bars.setdefault(kind, ([], [], [], []))
            base.append(start)
            length.append(end - start)
            row.append(rank)
            text.append(f"micro-batch {rest[-1]}" if rest else "")
            count += 1
    if count > _MOST:
        raise InputError("microbatches", count, f"operations are more than a page draws, {_MOST:,}: take fewer")
    return {
        "title": name,
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "name": NAMES[kind],
                "base": base,
                "x": length,
                "y": row,
                "hovertext": text,
                "marker": {"color": COLOURS[kind], "line": {"width": 0.5, "color": "#ffffff"}},
            }
            for kind, (base, length, row, text) in sorted(bars.items())
        ],
        "layout": {
            "barmode": "overlay",
            "bargap": 0.15,
            "xaxis": {"title": {"text": "time"}, "range": [0, until * 1.01]},
            "yaxis": {"title": {"text": "stage"}, "autorange": "reversed", "dtick": 1},
        },
    }


def views() -> list[View]:
    """A run, budgets, pipelines."""
    return [
        View(
            name="train",
            title="A training run",
            about="Days, dollars and memory, in the layout that is quickest of those that fit.",
            inputs=TrainInputs,
            answer=train,
            uploads="config",
        ),
        View(
            name="budget",
            title="A budget",
            about="Size and tokens of least cost over a model's life.",
            inputs=BudgetInputs,
            answer=budget,
        ),
        View(
            name="pipeline",
            title="Pipelines side by side",
            about="Schedules, event by event.",
            inputs=PipelineInputs,
            answer=pipeline,
        ),
    ]
