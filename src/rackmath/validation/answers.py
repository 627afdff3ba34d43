"""Questions -> numbers: grouped by model and system, each group in one broadcast."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rackmath.engine import Layout, Losses
from rackmath.engine.constants import Constants, EngineVersion
from rackmath.engine.kernel_curves import Kernels
from rackmath.engine.layout import stack_layouts
from rackmath.engine.terms import OF_LOSSES, OF_SCHEDULING
from rackmath.engine.timer import Timer
from rackmath.hardware import System
from rackmath.io import kernel_files
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number
from rackmath.serving import Load, Pool, Scheduling, Steady, at_rate, closed_loop, disaggregated, open_loop
from rackmath.serving.engines import engine_at, fuses_experts, scheduling_rules
from rackmath.serving.waits import started
from rackmath.training import TrainingRun
from rackmath.training.throughput import step_time, tokens_per_second
from rackmath.validation.questions import Question

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

WITHOUT_QUEUES = ("train", "decode", "prefill", "static")
"""Kinds of rows that no requests wait for."""
_PIECE = 512
_PIECES = 4
"""Micro-batch and micro-batches of a batch in llama.cpp (n_ubatch 512, n_batch 2048)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """Questions of one model on one system and of one kind, as arrays."""

    architecture: Architecture
    system: System
    kind: str
    questions: tuple[Question, ...]
    index: NDArray[np.int64]
    """Their places among all questions."""

    def array(self, name: str) -> Array:
        """One number of every question."""
        return np.array([getattr(q, name) for q in self.questions], dtype=float)

    @property
    def kernels(self) -> Kernels:
        """Curves of the system's kernels in the engine of the questions."""
        return kernel_files.kernels(self.system.chip, self.questions[0].row.family)

    @property
    def layout(self) -> Layout:
        """Layouts of the workers that write answers."""
        return stack_layouts([q.deployment.layout for q in self.questions])

    @property
    def workers(self) -> Array:
        """Workers of that layout."""
        return np.array([q.deployment.workers for q in self.questions], dtype=float)

    @property
    def two_batch(self) -> Array:
        """1 where expert exchange overlaps computation: two half-batches, or training; else 0."""
        return np.array([float(q.deployment.two_batch or q.kind == "train") for q in self.questions])

    @property
    def prompts(self) -> Pool:
        """Workers that read prompts, where they stand apart."""
        pools = [(q.deployment.prefill or q.deployment.layout, q.deployment.prefill_workers) for q in self.questions]
        return Pool(layout=stack_layouts([p[0] for p in pools]), workers=np.array([p[1] for p in pools], dtype=float))


def groups(questions: Sequence[Question]) -> list[Group]:
    """Sort questions into groups that one broadcast can answer."""
    members: defaultdict[tuple[int, str, str, str], list[int]] = defaultdict(list)
    for i, q in enumerate(questions):
        members[id(q.architecture), q.system.name, q.kind, q.row.family].append(i)
    return [
        Group(
            architecture=questions[places[0]].architecture,
            system=questions[places[0]].system,
            kind=key[2],
            questions=tuple(questions[i] for i in places),
            index=np.array(places),
        )
        for key, places in members.items()
    ]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuestionConstants:
    """Constants beside the losses of a pass, one per question."""

    serving: Scheduling
    exposed: Number
    """Part of the data-parallel exchange of training that nothing hides."""


T = TypeVar("T", Losses, Scheduling, QuestionConstants)


def answer(
    group: Group, timer: Timer, k: QuestionConstants, held: Array | None, running: Array | None = None
) -> tuple[Array, Array]:
    """Numbers that a group of rows asks for, in the rows' units, and the batches behind them.

    Parameters
    ----------
    timer : Timer
        Times of passes of the group's model on its system.
    k : QuestionConstants
        Constants beside the losses, one per question.
    held : array, optional
        What :func:`~rackmath.validation.held.held_by` says; None where no requests wait.
    running : array, optional
        Batch of the decode step, where it is known already.

    Returns
    -------
    tuple of array
        Values in the rows' own units; batch per worker of the decode step. (questions,)
    """
    scale = group.array("scale")
    if group.kind == "train":
        return _training(group, timer, k.exposed) * scale, group.array("load")
    if group.kind in WITHOUT_QUEUES:
        values, batch = _passes(group, timer, k.serving)
        return values * scale, batch
    steady, workers = _service(group, timer, k.serving, running, held)
    by_quantity = {
        "tpot": steady.mean_of_requests,
        "tpot_median": steady.median_of_requests,
        "itl": steady.time_per_output_token,
        "speed": 1 / steady.time_per_output_token,
        "ttft": steady.time_to_first_token,
        "ttft_median": steady.median_to_first_token,
        "latency": steady.time_to_first_token + np.maximum(group.array("output") - 1, 0) * steady.time_per_output_token,
        "requests": steady.requests_per_second * workers,
        "output": steady.requests_per_second * workers * group.array("output"),
        "total": steady.requests_per_second * workers * (group.array("input") + group.array("output")),
    }
    quantities = [q.quantity for q in group.questions]
    values = np.array([np.broadcast_to(by_quantity[name], len(quantities))[i] for i, name in enumerate(quantities)])
    return values * scale, np.broadcast_to(np.asarray(steady.running, dtype=float), (len(quantities),))


def _service(
    group: Group, timer: Timer, s: Scheduling, running: Array | None, held: Array | None
) -> tuple[Steady, Array]:
    """Steady state of one worker, and how many there are; pools are one."""
    load = Load(
        concurrency=group.array("load"),
        input=group.array("input"),
        output=np.maximum(group.array("output"), 1.0),
        cached=group.array("cached"),
        drafted=group.array("drafted"),
        looks=group.array("looks"),
        seats=group.array("seats"),
        budget=group.array("budget"),
        varied=group.array("varied"),
        held=held,
        wave=group.kind == "wave",
    )
    a, system, layout, workers = group.architecture, group.system, group.layout, group.workers
    if group.kind == "pools":
        decode = Pool(layout=layout, workers=workers)
        state = disaggregated(a, system, group.prompts, decode, load, timer, s, running)
        return state, np.ones(len(group.questions))
    per_worker = replace(load, concurrency=np.maximum(load.concurrency / workers, 1.0), seats=load.seats / workers)
    if group.kind == "open":
        many = np.array([q.row.num_requests or np.inf for q in group.questions])
        per_worker = replace(per_worker, concurrency=np.maximum(many / workers, 1.0))
        return at_rate(a, system, layout, per_worker, group.array("rate") / workers, timer, s, running), workers
    if group.kind == "server":
        limits = [q.limits for q in group.questions]
        first = np.array([limit.time_to_first_token for limit in limits])
        per_token = np.array([limit.time_per_output_token for limit in limits])
        return open_loop(a, system, layout, per_worker, first, per_token, timer, s, running), workers
    return closed_loop(a, system, layout, per_worker, timer, s, running), workers


def _passes(group: Group, timer: Timer, s: Scheduling) -> tuple[Array, Array]:
    """Single passes: tokens per second or seconds of decode, of prompts, or of both in a row."""
    layout, workers = group.layout, group.workers
    batch = np.maximum(group.array("load") / workers, 1.0)
    length, output, context = group.array("input"), group.array("output"), group.array("context")
    latency = np.array([q.quantity == "latency" for q in group.questions])
    if group.kind == "decode":
        step = timer("decode", layout, batch, context, group.array("drafted")) / s.accepted(group.array("drafted"))
        return np.where(latency, step, batch * workers / step), batch
    before = np.maximum(context - length / 2, 0.0) if group.kind == "prefill" else np.zeros_like(length)
    prompt = timer("prefill", layout, batch, np.maximum(before + length, 1.0), 0.0, before)
    prompt = prompt * _staggered(group, length)
    prompt = started(prompt, group.architecture, s, batch * length)
    if group.kind == "prefill":
        speed = batch * workers * length / prompt
        # What a user measures through an interface includes the time of a request outside the engine.
        per_request = np.array([q.row.per in ("request", "user") for q in group.questions])
        return np.where(latency, prompt + per_request * s.arrival, speed), batch
    total = prompt + output * timer("decode", layout, batch, length + output / 2, 0.0)
    per_pass = batch * workers * output / total
    return np.where(latency, total, per_pass), batch


def _training(group: Group, timer: Timer, exposed: Number) -> Array:
    """Tokens per second of training steps. (questions,)"""
    runs = [q.run for q in group.questions if q.run is not None]
    names = [f.name for f in fields(TrainingRun) if f.name != "layout"]
    run = TrainingRun(layout=group.layout, **{n: np.array([getattr(r, n) for r in runs], dtype=float) for n in names})
    return np.asarray(tokens_per_second(run, step_time(group.architecture, group.system, run, timer, exposed)))


def _staggered(group: Group, length: Array) -> Array:
    """Time of a prompt over that of passing all stages in turn, where engines cut it up.

    llama.cpp sends up to 4 pieces of 512 tokens through a layer split at once.
    """
    stages = np.asarray(group.layout.pipeline, dtype=float)
    split = np.array([q.deployment.layer_split for q in group.questions])
    pieces = np.where(split, np.clip(np.ceil(length / _PIECE), 1, _PIECES), 1.0)
    return np.where(split, (pieces + stages - 1) / (pieces * stages), 1.0)


def engine_of(question: Question) -> EngineVersion:
    """What the constants of a question depend on."""
    row, chip = question.row, question.system.chip
    engine = engine_at(chip, row.family, row.when, row.flag("eager"))
    return replace(
        engine,
        stage=row.stage,
        unfused=engine.unfused or row.flag("attention_math"),
        fused_experts=fuses_experts(row.family, row.when, chip, question.architecture),
    )


_FITTED = {"started": "dispatch"}
"""Losses that are another constant under a condition."""


def stacked_constants(
    constants: Constants, engines: Sequence[EngineVersion], moved: tuple[str, float] | None = None
) -> tuple[Losses, QuestionConstants]:
    """Losses and the constants beside them, with one value per question.

    ``moved`` names a constant and a step on its inner scale that every engine takes.
    """
    distinct = sorted(set(engines))
    place = {engine: i for i, engine in enumerate(distinct)}
    at = np.array([place[engine] for engine in engines])

    def stacked(names: Sequence[str]) -> dict[str, Any]:
        steps = {n: moved[1] if moved and moved[0] == _FITTED.get(n, n) else 0.0 for n in names}
        return {n: np.array([constants.value(n, engine, steps[n]) for engine in distinct])[at] for n in names}

    rules = [scheduling_rules(engine) for engine in distinct]
    ruled = {name: np.array([rule[name] for rule in rules])[at] for name in rules[0]}
    return Losses(**stacked((*OF_LOSSES, "started"))), QuestionConstants(
        serving=Scheduling(**stacked(OF_SCHEDULING), **ruled), **stacked(("exposed",))
    )


def taken(record: T, at: Ints) -> T:
    """Part of a record whose numbers are one per question."""
    parts: dict[str, Any] = {}
    for f in fields(record):
        value = getattr(record, f.name)
        if isinstance(value, Scheduling):
            parts[f.name] = taken(value, at)
        elif not isinstance(value, (str, tuple, Kernels, Mapping)):
            numbers = np.asarray(value)
            parts[f.name] = numbers[at] if numbers.ndim else numbers
    return type(record)(**parts)
