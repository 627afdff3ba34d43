"""Pipeline stages in real processes: the bubble of GPipe and 1F1B, and decoding with the cache kept per stage."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.lab.budget import TimeLimit
from rackmath.lab.experiment import Experiment, ExperimentCurve
from rackmath.lab.machine import Machine
from rackmath.lab.processes import run
from rackmath.lab.stage_workers import LAYERS, Stage, StageJob, batch_of, decode, train
from rackmath.training.pipelines import StageTimes, execute, round_robin, schedule
from rackmath.training.pipelines.order import BACKWARD, FORWARD

SCHEDULES = ("gpipe", "1f1b")
MICROBATCHES = (2, 4, 8, 16)
_REPEATS = 3
"""Of a schedule, at most."""


def experiment(
    machine: Machine,
    budget: TimeLimit,
    *,
    stages: int = 4,
    microbatches: Sequence[int] = MICROBATCHES,
    pace: float = 0.02,
) -> Experiment:
    """Run schedules, then decode with one, two, ... stages.

    Parameters
    ----------
    stages : int
        Processes; a divisor of the eight layers above 1.
    pace : float
        A stage computes its small layers, then sleeps until its pass has taken so long: stages need not share the
        cores of this machine, as accelerators do not. [s]

    Errors: :class:`InputError` for stages that do not divide the layers.
    """
    start = perf_counter()
    if stages < 2 or LAYERS % stages:
        raise InputError("--stages", stages, f"write a divisor of {LAYERS} above 1")
    if not 0 < pace < 10:
        raise InputError("--pace", pace, "write seconds above 0 and below 10")
    microbatches, repeats = _sizes(microbatches, stages, pace, budget)
    cases = [(name, count) for name in SCHEDULES for count in microbatches]
    jobs = [
        StageJob(operations=schedule(name, stages, count).operations, microbatches=count, pace=pace, repeats=repeats)
        for name, count in cases
    ]
    budget.say(f"{', '.join(SCHEDULES)} on {stages} stages")
    lanes = run(train, stages, jobs)
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in SCHEDULES}
    wrong = 0.0
    for i, (name, count) in enumerate(cases):
        answers = [lane[i] for lane in lanes]
        rows[name].append(measured_row(name, stages, count, answers))
        wrong = max(wrong, _gradient_error(answers[0]["gradient"], jobs[i]))
    budget.say("decoding with the cache kept per stage")
    widths = [n for n in (1, 2, 4, 8) if n <= stages]
    decode_facts = [_decoded(run(decode, n, pace), n, pace) for n in widths]
    curves = [*_bubble_curves(rows, microbatches), *_decode_curves(decode_facts, widths)]
    facts = {
        "stages": stages,
        "bubbles": {name: [row["bubble"] for row in bubble] for name, bubble in rows.items()},
        "bubbles_predicted": {name: [row["predicted"] for row in bubble] for name, bubble in rows.items()},
        "makespans": {name: [row["makespan"] for row in bubble] for name, bubble in rows.items()},
        "makespans_predicted": {name: [row["makespan_predicted"] for row in bubble] for name, bubble in rows.items()},
        "peak_activations": {name: [row["peak"] for row in bubble] for name, bubble in rows.items()},
        "peak_activations_predicted": {
            name: [row["peak_predicted"] for row in bubble] for name, bubble in rows.items()
        },
        "gradient_error": wrong,
        "cache_per_process": [row["cache"] for row in decode_facts],
        "weights_per_process": [row["weights"] for row in decode_facts],
        "resident_growth": [row["resident"] for row in decode_facts],
    }
    return Experiment(
        name="pipeline",
        title="pipeline stages in processes",
        machine=machine,
        curves=curves,
        facts=facts,
        findings=[*_findings(rows, microbatches, decode_facts, widths, wrong), *budget.notes()],
        seconds=perf_counter() - start,
    )


def _sizes(microbatches: Sequence[int], stages: int, pace: float, budget: TimeLimit) -> tuple[list[int], int]:
    """Micro-batches and repeats whose passes fill half of the time; the fewest micro-batches stay in any case."""
    sorted_counts = sorted(microbatches)
    # A forward and a backward pass take three paces, and the pipeline fills and drains once.
    lasting = [len(SCHEDULES) * 3 * pace * (count + stages - 1) for count in sorted_counts]
    room = budget.left / 2
    selection = budget.fitting(sorted_counts, lasting, room / 2, "micro-batches")
    # One more than the repeats, to warm up.
    return selection, int(np.clip(room / sum(lasting[: len(selection)]) - 1, 1, _REPEATS))


def measured_row(name: str, stages: int, count: int, answers: Sequence[dict[str, Any]]) -> dict[str, float]:
    """One schedule measured, and by the scheduler from the passes' own times."""
    bubbles: list[float] = []
    makespans: list[float] = []
    for repeat in range(len(answers[0]["spans"])):
        lanes = [answer["spans"][repeat] for answer in answers]
        makespan = max(end for lane in lanes for _, end in lane) - min(start for lane in lanes for start, _ in lane)
        work = max(sum(end - start for start, end in lane) for lane in lanes)
        makespans.append(makespan)
        bubbles.append(1 - work / makespan)
    order = schedule(name, stages, count)
    lengths: dict[int, list[float]] = {FORWARD: [], BACKWARD: []}
    for rank, answer in enumerate(answers):
        for lane in answer["spans"]:
            for (kind, *_), (start, end) in zip(order.operations[rank], lane, strict=True):
                lengths[kind].append(end - start)
    forward, backward = (float(np.median(lengths[kind])) for kind in (FORWARD, BACKWARD))
    times = StageTimes(
        forward=forward, backward_input=backward / 2, backward_weight=backward / 2, send_time=float(answers[0]["hop"])
    )
    predicted = execute(order, times)
    low, bubble, high = np.quantile(bubbles, (0.1, 0.5, 0.9))
    return {
        "bubble": float(bubble),
        "low": float(low),
        "high": float(high),
        "predicted": predicted.bubble_makespan,
        "makespan": float(np.median(makespans)),
        "makespan_predicted": predicted.makespan,
        "peak": float(max(answer["peak"] for answer in answers)),
        "peak_predicted": max(predicted.peak_activations),
    }


def _gradient_error(gradient: NDArray[np.float32], job: StageJob) -> float:
    """Against the same model in one process. [1]"""
    whole = Stage(0, LAYERS, job.seed)
    for micro in range(job.microbatches):
        whole(batch_of(job.seed, micro)).square().sum().backward()
    expected = whole.weights[0].grad
    assert expected is not None, "the first layer was trained"
    return float(np.linalg.norm(gradient - expected.numpy()) / expected.norm())


def _decoded(answers: Sequence[dict[str, float]], stages: int, pace: float) -> dict[str, float]:
    order = round_robin(stages, stages, 4)
    timeline = execute(order, StageTimes(forward=pace * LAYERS / stages, backward_input=0.0, backward_weight=0.0))
    predicted = timeline.end[-1][-1] - timeline.end[-1][-1 - stages]
    return {
        **{key: max(answer[key] for answer in answers) for key in ("cache", "weights", "resident", "token")},
        "token_predicted": predicted,
    }


def _bubble_curves(rows: dict[str, list[dict[str, float]]], microbatches: Sequence[int]) -> list[ExperimentCurve]:
    return [
        ExperimentCurve(
            panel="bubble: part of the makespan that the busiest stage waits",
            name=name,
            across="micro-batches",
            up="share",
            x=list(microbatches),
            measured=[row["bubble"] for row in bubble],
            low=[row["low"] for row in bubble],
            high=[row["high"] for row in bubble],
            predicted=[row["predicted"] for row in bubble],
            log_up=False,
        )
        for name, bubble in rows.items()
    ] + [
        ExperimentCurve(
            panel="micro-batches that wait on the fullest stage",
            name=name,
            across="micro-batches",
            up="micro-batches",
            x=list(microbatches),
            measured=[row["peak"] for row in bubble],
            predicted=[row["peak_predicted"] for row in bubble],
            log_up=False,
        )
        for name, bubble in rows.items()
    ]


def _decode_curves(decode_facts: Sequence[dict[str, float]], widths: Sequence[int]) -> list[ExperimentCurve]:
    first = decode_facts[0]
    return [
        ExperimentCurve(
            panel="decoding: bytes of a process",
            name=name,
            across="stages",
            up="B",
            x=list(widths),
            measured=[row[key] for row in decode_facts],
            predicted=[first[key] / (n if key == "weights" else 1) for n in widths],
            log_across=False,
        )
        for name, key in (("cache", "cache"), ("weights", "weights"))
    ] + [
        ExperimentCurve(
            panel="decoding: time between two tokens of a sequence",
            name="round robin",
            across="stages",
            up="s",
            x=list(widths),
            measured=[row["token"] for row in decode_facts],
            predicted=[row["token_predicted"] for row in decode_facts],
            log_across=False,
            log_up=False,
        )
    ]


def _findings(
    rows: dict[str, list[dict[str, float]]],
    microbatches: Sequence[int],
    decode_facts: Sequence[dict[str, float]],
    widths: Sequence[int],
    wrong: float,
) -> list[str]:
    sentences = [
        f"{name}: a bubble of {row[-1]['bubble']:.1%} with {microbatches[-1]} micro-batches "
        f"({row[-1]['predicted']:.1%} by the scheduler), {row[-1]['peak']:.0f} of them waiting on the fullest stage."
        for name, row in rows.items()
    ]
    first, last = decode_facts[0], decode_facts[-1]
    return [
        *sentences,
        f"Gradients differ from one process's by {wrong:.0e}.",
        f"From {widths[0]} to {widths[-1]} stages a process's weights shrink {first['weights'] / last['weights']:.1f} "
        f"times, its cache {first['cache'] / last['cache']:.1f} times: as many micro-batches as stages are in flight.",
        f"A token takes {last['token'] * 1e3:.0f} ms on {widths[-1]} stages and {first['token'] * 1e3:.0f} on one: "
        "stages do not make a token faster.",
    ]
