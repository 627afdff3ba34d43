"""Chapter 3: memory and bubbles against the number of stages."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from rackmath.api.plain import to_plain
from rackmath.figures import Figure, Panel, Series
from rackmath.lecture.curves import curve
from rackmath.training.pipelines import StageTimes, run
from rackmath.web.inputs import Inputs, choice, slider
from rackmath.web.shown import PageContent, View, drawn


class StagesInputs(Inputs):
    """Chapter 3."""

    total: float = slider(671.0, 1, 20_000, "stored parameters", unit="B")
    stored: float = slider(1.0, 0.25, 4, "bytes per parameter", unit="B", log=False)
    width: float = slider(64, 1, 576, "accelerators of a stage", whole=True)
    sequences: float = slider(2048.0, 1, 100_000, "sequences of a micro-batch", whole=True)
    context: float = slider(8192.0, 128, 1e6, "context", unit="tokens")
    kv: float = slider(35_136.0, 100, 5e6, "cache per token", unit="B")
    stages: float = slider(8, 1, 32, "stages", log=False, whole=True)
    microbatches: float = slider(32, 1, 128, "micro-batches of a training step", whole=True)
    schedule: Literal["gpipe", "1f1b", "zb-h1", "zb-v"] = choice("1f1b", "schedule")


def stages(i: StagesInputs) -> PageContent:
    """Memory and bubbles against the number of stages."""
    count = np.arange(1, 33)
    weights = curve(
        "pipeline-memory",
        N_total=i.total * 1e9,
        w=i.stored,
        E_width=i.width,
        P=count,
        B_micro=0.0,
        L=i.context,
        kv=i.kv,
    )
    sides = curve(
        "pipeline-memory",
        N_total=i.total * 1e9,
        w=i.stored,
        E_width=i.width,
        P=count,
        B_micro=i.sequences,
        L=i.context,
        kv=i.kv,
    )
    cache = sides - weights
    P = round(i.stages)
    drain_batches = np.unique(np.round(np.geomspace(1, 256, 60)))
    bubble = curve("pipeline-bubble", P=P, m=drain_batches)
    return PageContent(
        figures=drawn(_figure(i, count, weights, cache, sides, drain_batches, bubble)),
        pairs=[
            (
                "weights of an accelerator",
                f"{weights[P - 1] / 1e9:.3g} GB at {P} stages, {weights[0] / 1e9:.3g} GB at one",
            ),
            ("cache of an accelerator", f"{cache[P - 1] / 1e9:.3g} GB whatever the stages"),
            ("bubble, all forward then all backward", f"{float(curve('pipeline-bubble', P=P, m=i.microbatches)):.1%}"),
        ],
        facts=to_plain({"weights": weights[P - 1], "cache": cache[P - 1]}),
        command=f"rackmath lecture solve pipeline-bubble --for bubble P={P} m={i.microbatches:g}",
    )


def _figure(
    i: StagesInputs, count: Any, weights: Any, cache: Any, total: Any, drain_batches: Any, bubble: Any
) -> Figure:
    """Memory in serving, bubbles in training."""
    P = round(i.stages)
    return Figure(
        title="",
        panels=[
            Panel(
                title="memory of an accelerator in serving",
                across="stages",
                up="GB",
                log_up=True,
                series=[
                    Series(name="weights", x=count.tolist(), y=list(weights / 1e9)),
                    Series(name="cache, as many micro-batches as stages", x=count.tolist(), y=list(cache / 1e9)),
                    Series(name="both", x=count.tolist(), y=list(total / 1e9)),
                ],
            ),
            Panel(
                title="bubble of a training step",
                across="micro-batches",
                up="idle part",
                log_across=True,
                series=[
                    Series(name="all forward, then all backward", x=list(drain_batches), y=list(bubble)),
                    *_executed(i.schedule, P, round(i.microbatches)),
                ],
            ),
        ],
    )


def _executed(schedule: str, ranks: int, microbatches: int) -> list[Series]:
    if ranks < 2 or microbatches < ranks:
        return []
    timeline = run(schedule, ranks, microbatches, StageTimes(forward=1.0, backward_input=1.0, backward_weight=1.0))
    return [Series(name=f"{schedule}, executed", x=[microbatches], y=[timeline.bubble_makespan], kind="mark")]


def view() -> View:
    """The form and its pictures."""
    return View(
        name="stages",
        title="Stages",
        about="Memory in serving, bubbles in training.",
        inputs=StagesInputs,
        answer=stages,
    )
