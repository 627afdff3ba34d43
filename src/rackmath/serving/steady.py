"""Steady state of a server under a constant number of users.

Each of C users sends a prompt of I tokens, waits for O tokens, and sends the next. From
the time of one decode step and of one prompt follow what a user sees and what the server
delivers; batch and speed determine each other, so both are iterated to a fixed point.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rackmath.engine import Layout
from rackmath.engine.capacity import largest_batch
from rackmath.engine.timer import Timer
from rackmath.engine.transfer import transfer_time
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number, ceiling, maximum, minimum
from rackmath.serving.balance import balance
from rackmath.serving.load import Load, PassTimes, Pool, Scheduling, Steady
from rackmath.serving.prompts import images_time, reading_time, time_beside, time_first, turns_of, unfilled
from rackmath.serving.waits import (
    INSTANT,
    burst,
    in_turn,
    of_burst_prompts,
    of_burst_server,
    prompts_of_a_step,
    started,
    time_to_first_token,
    until_begun,
)
from rackmath.serving.waves import settled_wave

_ROUNDS = 6


def closed_loop(
    architecture: Architecture,
    system: System,
    layout: Layout,
    load: Load,
    timer: Timer,
    s: Scheduling,
    running: Number | None = None,
) -> Steady:
    """Steady state where the same accelerators read prompts and write answers.

    Parameters
    ----------
    architecture, system, layout
        One replica; its layout may hold data-parallel groups.
    load : Load
        What all users together ask of it.
    timer : Timer
        Time of a pass, from :func:`engine_timer` or measured.
    s : Scheduling
        How prompts interrupt steps.
    running : Number, optional
        Batch to take the step's time at; by default iterated to the fixed point.
    """
    load = replace(load, turns=turns_of(layout.pipeline, load.piece))
    prompt, alone, together = prompt_times(architecture, layout, load, timer, s)
    capacity = capacity_of(architecture, system, layout, load)
    lone = decode_time(layout, load, 1.0, timer) if load.wave else 0.0

    def at(batch: Number, extra_time: Number) -> Steady:
        step = decode_time(layout, load, batch, timer)
        beside = waited_beside(architecture, load, batch / layout.data, prompt, extra_time, step, s)
        times = PassTimes(step, prompt, alone, beside, lone, together)
        return settled(times, capacity, load, layout.data, s)

    if running is not None:
        return at(running, added_by_prompt(architecture, layout, load, running, timer, s))
    limit = admitted(load, capacity)
    state = at(limit, added_by_prompt(architecture, layout, load, limit, timer, s))
    # What a prompt adds hardly depends on the batch, so that it need not be asked in every round.
    extra_time = added_by_prompt(architecture, layout, load, state.running, timer, s)
    for _ in range(_ROUNDS - 1):
        state = at(state.running, extra_time)
    return state


def disaggregated(
    architecture: Architecture,
    system: System,
    prefill: Pool,
    decode: Pool,
    load: Load,
    timer: Timer,
    s: Scheduling,
    running: Number | None = None,
) -> Steady:
    """Steady state of two pools of workers, one for prompts and one for answers.

    Prompts do not interrupt answers; their caches are sent over. ``running`` as in
    :func:`closed_loop`.
    """
    prompt, alone, together = prompt_times(architecture, prefill.layout, load, timer, s)
    prompt_rate = prefill.workers * prefill.layout.data / in_turn(prompt, s)
    gpus = prefill.workers * prefill.layout.gpus + decode.workers * decode.layout.gpus
    transfer = transfer_time(architecture, system, prefill.layout, decode.layout, load.input, gpus)
    capacity = decode.workers * capacity_of(architecture, system, decode.layout, load)

    def at(batch: Number) -> Steady:
        step = decode_time(decode.layout, load, maximum(batch / decode.workers, 1.0), timer)
        return settled_pools(
            PassTimes(step, prompt, alone, 0.0, together=together), prompt_rate, capacity, load, s, transfer
        )

    if running is not None:
        return at(running)
    batch = admitted(load, capacity)
    state = at(batch)
    for _ in range(2 * _ROUNDS - 1):
        # The geometric mean of old and new: the rate of a full prefill pool makes plain steps oscillate.
        batch = (batch * state.running) ** 0.5
        state = at(batch)
    return state


def admitted(load: Load, capacity: Number) -> Number:
    """Requests that are in the engine rather than queued: no more than fit, at least one. [requests]"""
    return maximum(minimum(load.concurrency, capacity), 1.0)


def settled(t: PassTimes, capacity: Number, load: Load, groups: Number, s: Scheduling) -> Steady:
    """Balance of a closed loop, given the times of its passes.

    No more prompts are read than a group reads one after the other, less what hides in steps, or the server passes on.
    """
    limit = admitted(load, capacity)
    turn = s.interruption * minimum(t.prompt, t.beside)
    if load.wave:
        return settled_wave(t, limit, capacity, turn, load, groups, s)
    prompt_rate = groups / maximum(in_turn(turn, s), INSTANT)
    unmet = time_to_first_token(t, limit, load, groups, s) + of_burst_server(t, limit, groups, s)
    loop = balance(t, limit, unmet, prompt_rate, load, groups, s, of_burst_prompts(t, limit, groups, s))
    # A closed loop starts with a burst and spreads out: few of its requests wait, so that the median does not.
    burst_time = loop.burst + of_burst_server(t, limit, groups, s)
    first = maximum(loop.first, limit / loop.rate - load.output * loop.tpot)
    waiting = np.where(np.isfinite(load.concurrency), maximum(load.concurrency - limit, 0.0), 0.0) / loop.rate
    return Steady(
        time_per_output_token=loop.tpot,
        time_to_first_token=first + waiting,
        median_to_first_token=first - burst_time + waiting,
        requests_per_second=loop.rate,
        running=maximum(loop.decoding, 1.0),
        decode=t.step,
        prefill=t.prompt,
        capacity=capacity,
    )


def settled_pools(
    t: PassTimes, served_rate: Number, capacity: Number, load: Load, s: Scheduling, transfer: Number = 0.0
) -> Steady:
    """Balance of two pools: the slower one sets the rate, the rest of the users wait before it.

    Parameters
    ----------
    served_rate : Number
        Prompts that the prefill pool reads per second. [requests/s]
    transfer : Number
        Time to send a prompt's cache to the pool that answers. [s]
    """
    tpot = t.step / s.accepted(load.draft_tokens)
    busy = load.output * tpot
    readers = served_rate * t.prompt
    held_up = burst(t, load.concurrency, readers, s)
    # A cache that has come waits for a step of the pool that answers.
    median = s.arrival + t.alone + transfer + until_begun(t.step, 1.0, load.looks, s)
    first = median + held_up
    rate = minimum(minimum(load.concurrency / (first + busy), served_rate), maximum(capacity, 1.0) / busy)
    return Steady(
        time_per_output_token=tpot,
        time_to_first_token=maximum(load.concurrency / rate - busy, first),
        median_to_first_token=maximum(load.concurrency / rate - busy, median),
        requests_per_second=rate,
        running=maximum(rate * busy, 1.0),
        decode=t.step,
        prefill=t.prompt,
        capacity=capacity,
    )


def capacity_of(architecture: Architecture, system: System, layout: Layout, load: Load) -> Number:
    """Sequences that one replica runs at once: as many as fit beside the weights, and as its engine is set to."""
    capacity = load.held
    if capacity is None:
        capacity = largest_batch(
            architecture, system, layout, context=load.input + load.output, tokens=load.max_num_batched_tokens
        )
    return minimum(capacity, load.max_num_seqs)


def prompt_times(
    architecture: Architecture, layout: Layout, load: Load, timer: Timer, s: Scheduling
) -> tuple[Number, Number, Number]:
    """Time of one prompt in a filled pass and by itself, and how many fill one on a group. [s], [s], [prompts]"""
    present = load.concurrency / layout.data
    alone, full, together = reading_time(
        layout, load.input, load.cached_tokens, load.max_num_batched_tokens, timer, present, load.piece
    )
    pieces = ceiling(maximum(load.input - load.cached_tokens, 1.0) / load.max_num_batched_tokens)
    tokens = minimum(maximum(load.input - load.cached_tokens, 1.0), load.max_num_batched_tokens)
    first = started(alone, architecture, s, tokens, pieces) + images_time(architecture, layout, timer)
    return full + images_time(architecture, layout, timer, together), first, together


def added_by_prompt(
    architecture: Architecture, layout: Layout, load: Load, running: Number, timer: Timer, s: Scheduling
) -> Number:
    """What one prompt adds to decode steps of so many sequences: to passes that mix both, or as one of its own. [s]"""
    tokens = running * (1 + load.draft_tokens)
    arriving = prompts_of_a_step(running, load.output, load.draft_tokens, layout.data, s)
    prompt_seconds = 0.0
    if np.any(s.mixed):
        prompt_seconds = s.mixed * time_beside(
            layout, load.input, load.cached_tokens, load.max_num_batched_tokens, tokens, arriving, timer, load.piece
        )
    if not np.all(s.mixed):
        prompt_seconds = prompt_seconds + (1 - s.mixed) * _by_itself(architecture, layout, load, arriving, timer, s)
    # The step that takes in a prompt's first piece waits for its images.
    return prompt_seconds + images_time(architecture, layout, timer)


def _by_itself(
    architecture: Architecture, layout: Layout, load: Load, arriving: Number, timer: Timer, s: Scheduling
) -> Number:
    """Time of one prompt in passes that read prompts alone, each no shorter than the host takes to start it. [s]"""
    prompt, together = time_first(
        layout, load.input, load.cached_tokens, load.max_num_batched_tokens, arriving, timer, load.piece
    )
    new_tokens = maximum(load.input - load.cached_tokens, 1.0)
    pieces = ceiling(new_tokens / load.max_num_batched_tokens)
    own_tokens = together * minimum(new_tokens, load.max_num_batched_tokens)
    return started(prompt * together, architecture, s, own_tokens, pieces) / together


def waited_beside(
    architecture: Architecture,
    load: Load,
    present: Number,
    prompt: Number,
    added_time: Number,
    step: Number,
    s: Scheduling,
) -> Number:
    """What decode steps wait for one prompt: what it adds to them, or all of it where prompts come first. [s]

    A step that takes in tokens of a prompt is no shorter than the host takes to start it; ``present`` sequences decode
    in it. ``added_time`` is that of :func:`added_by_prompt`, ``prompt`` that of one in filled passes, which those of a
    wave are read in.
    """
    tokens = present * (1 + load.draft_tokens) + minimum(
        maximum(load.input - load.cached_tokens, 1.0), load.max_num_batched_tokens
    )
    mixed_time = maximum(added_time, started(0.0, architecture, s, tokens) - step)
    return s.mixed * mixed_time + (1 - s.mixed) * prompts_first(prompt if load.wave else added_time, load, present, s)


def prompts_first(prompt: Number, load: Load, present: Number, s: Scheduling) -> Number:
    """What decode steps wait for one prompt where prompts come first, of its time in passes of their own. [s]

    The micro-batches of a pipeline wait for its fill as :func:`unfilled` says; ``present`` sequences of a group decode.
    """
    chunks = ceiling(maximum(load.input - load.cached_tokens, 1.0) / load.max_num_batched_tokens)
    arriving = chunks * prompts_of_a_step(present, load.output, load.draft_tokens, 1.0, s)
    return prompt * (1 + (load.turns - 1) * unfilled(arriving, load.turns) / chunks)


def decode_time(layout: Layout, load: Load, running: Number, timer: Timer) -> Number:
    """Time of one decode step in the middle of the answers. [s]"""
    return timer("decode", layout, running, load.input + load.output / 2, load.draft_tokens)
