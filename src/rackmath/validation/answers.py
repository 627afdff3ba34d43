"""Questions -> numbers: grouped by model and system, each group in one broadcast."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rackmath.engine.timer import Timer
from rackmath.models.numbers import Number
from rackmath.serving import Load, Pool, Scheduling, Steady, at_rate, closed_loop, disaggregated, open_loop
from rackmath.serving.waits import started
from rackmath.serving.waves import ends_together
from rackmath.training.throughput import step_time, tokens_per_second
from rackmath.validation.groups import WITHOUT_QUEUES, Array, Group
from rackmath.validation.question_constants import QuestionConstants


def answer(
    group: Group, timer: Timer, k: QuestionConstants, capacity: Array | None, running: Array | None = None
) -> tuple[Array, Array]:
    """Numbers that a group of rows asks for, in the rows' units, and the batches behind them.

    Parameters
    ----------
    timer : Timer
        Times of passes of the group's model on its system.
    k : QuestionConstants
        Constants beside the losses, one per question.
    capacity : array, optional
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
    steady, workers = _service(group, timer, k.serving, running, capacity)
    first, step = steady.time_to_first_token, steady.time_per_output_token
    requests, output = steady.requests_per_second * workers, group.array("output")
    by_quantity = {
        "tpot": steady.mean_of_requests,
        "tpot_median": steady.median_of_requests,
        # Load generators time messages: one brings all tokens that a step of drafts yields.
        "itl": step * k.serving.accepted(group.array("draft_tokens")),
        "speed": 1 / step,
        "ttft": first,
        "ttft_median": steady.median_to_first_token,
        "latency": first + np.maximum(output - 1, 0) * step,
        "requests": requests,
        "output": requests * output,
        "total": requests * (group.array("input") + output),
    }
    size = (len(group.questions),)
    values = np.empty(size)
    for name, places in group.quantities.items():
        values[places] = np.broadcast_to(by_quantity[name], size)[places]
    return values * scale, np.broadcast_to(np.asarray(steady.running, dtype=float), size)


def _service(
    group: Group, timer: Timer, s: Scheduling, running: Array | None, capacity: Array | None
) -> tuple[Steady, Array]:
    """Steady state of one worker, and how many there are; pools are one."""
    load = Load(
        concurrency=group.array("load"),
        input=group.array("input"),
        output=np.maximum(group.array("output"), 1.0),
        cached_tokens=group.array("cached_tokens"),
        draft_tokens=group.array("draft_tokens"),
        looks=group.array("looks"),
        max_num_seqs=group.array("max_num_seqs"),
        max_num_batched_tokens=group.array("max_num_batched_tokens"),
        piece=group.piece,
        varied=group.array("varied"),
        held=capacity,
        wave=group.kind == "wave",
    )
    a, system, layout, workers = group.architecture, group.system, group.layout, group.workers
    s = replace(s, queueing=_of_a_burst(group, load, s))
    if group.kind == "pools":
        decode = Pool(layout=layout, workers=workers)
        state = disaggregated(a, system, group.prompts, decode, load, timer, s, running)
        return state, np.ones(len(group.questions))
    per_worker = replace(
        load, concurrency=np.maximum(load.concurrency / workers, 1.0), max_num_seqs=load.max_num_seqs / workers
    )
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


def _of_a_burst(group: Group, load: Load, s: Scheduling) -> Number:
    r"""Part of the prompts of a full burst that the mean first token waits for: half of its own burst's. [1]

    .. math:: \frac{1}{2 m}

    of m requests of each user, the first of whom come together; later ones come as others end, at different times.
    Where prompts come first, answers of one length end together, and all requests come in bursts. Of rows that do not
    say how many requests there are it is fitted; the bound knows none.
    """
    rounds = group.array("rounds")
    share = np.where(ends_together(load, s), 1.0, 1 / np.maximum(rounds, 1.0))
    return np.where(np.isnan(rounds) | (np.asarray(s.queueing) == 0), s.queueing, share / 2)


def _passes(group: Group, timer: Timer, s: Scheduling) -> tuple[Array, Array]:
    """Single passes: tokens per second or seconds of decode, of prompts, or of both in a row."""
    layout, workers = group.layout, group.workers
    batch = np.maximum(group.array("load") / workers, 1.0)
    length, output, context = group.array("input"), group.array("output"), group.array("context")
    latency = group.latency
    if group.kind == "decode":
        step = timer("decode", layout, batch, context, group.array("draft_tokens")) / s.accepted(
            group.array("draft_tokens")
        )
        return np.where(latency, step, batch * workers / step), batch
    before = np.maximum(context - length / 2, 0.0) if group.kind == "prefill" else np.zeros_like(length)
    prompt = timer("prefill", layout, batch, np.maximum(before + length, 1.0), 0.0, before)
    prompt = started(prompt, group.architecture, s, batch * length)
    if group.kind == "prefill":
        speed = batch * workers * length / prompt
        # What a user measures through an interface includes the time of a request outside the engine.
        per_request = np.array([q.row.per in ("request", "user") for q in group.questions])
        return np.where(latency, prompt + per_request * s.arrival, speed), batch
    total = prompt + output * timer("decode", layout, batch, length + output / 2, 0.0)
    per_pass = batch * workers * output / total
    return np.where(latency, total, per_pass), batch


def _training(group: Group, timer: Timer, exposed_share: Number) -> Array:
    """Tokens per second of training steps. (questions,)"""
    run = group.training
    return np.asarray(tokens_per_second(run, step_time(group.architecture, group.system, run, timer, exposed_share)))
