"""Steady state of a server under a constant number of users.

Each of C users sends a prompt of I tokens, waits for O tokens, and sends the next. From
the time of one decode step and of one prompt follow what a user sees and what the server
delivers; batch and speed determine each other, so both are iterated to a fixed point.
"""

from __future__ import annotations

import numpy as np

from rackmath.engine import Layout
from rackmath.engine.capacity import largest_batch
from rackmath.engine.timer import Timer
from rackmath.engine.transfer import transfer_time
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number, maximum, minimum
from rackmath.serving.load import CHUNK, Load, Pool, Scheduling, Steady, Times
from rackmath.serving.waits import burst, prompts_met, started, time_per_output_token, time_to_first_token

_ROUNDS = 6
_SETTLING = 16
"""Rounds of the balance at a given step, cheap and slower to settle where prompts are met."""


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
    prompt, alone = prompt_time(layout, load, timer), lone_prompt(architecture, layout, load, timer, s)
    capacity = largest_batch(architecture, system, layout, context=load.input + load.output, tokens=CHUNK)

    def at(batch: Number) -> Steady:
        times = Times(decode_time(layout, load, batch, timer), prompt, alone)
        return settled(times, capacity, load, layout.data, s)

    if running is not None:
        return at(running)
    state = at(admitted(load, capacity))
    for _ in range(_ROUNDS - 1):
        state = at(state.running)
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
    prompt, alone = prompt_time(prefill.layout, load, timer), lone_prompt(architecture, prefill.layout, load, timer, s)
    served = prefill.workers * prefill.layout.data / prompt
    gpus = prefill.workers * prefill.layout.gpus + decode.workers * decode.layout.gpus
    transfer = transfer_time(architecture, system, prefill.layout, decode.layout, load.input, gpus)
    held = largest_batch(architecture, system, decode.layout, context=load.input + load.output, tokens=CHUNK)
    capacity = decode.workers * held

    def at(batch: Number) -> Steady:
        step = decode_time(decode.layout, load, maximum(batch / decode.workers, 1.0), timer)
        return settled_pools(Times(step, prompt, alone), served, capacity, load, s, transfer)

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


def settled(t: Times, capacity: Number, load: Load, groups: Number, s: Scheduling) -> Steady:
    r"""Balance of a closed loop, given the times of its passes.

    By Little's law a share :math:`O t / (O t + f)` of the admitted requests is decoding,
    with t the time per token and f the time to the first.
    """
    limit = admitted(load, capacity)
    unmet = time_to_first_token(t, limit, load, groups, s)
    first, running = unmet, limit
    tpot = time_per_output_token(t, running, load, groups, s)
    for _ in range(_SETTLING):
        busy = load.output * tpot
        first = unmet + prompts_met(t, running, busy, load, groups)
        running = maximum(limit * busy / (busy + first), 1.0)
        tpot = time_per_output_token(t, running, load, groups, s)
    held_up = 0.0 if load.wave else burst(t, limit, load, groups, s)
    rate = running / (load.output * tpot)
    waiting = np.where(np.isfinite(load.concurrency), maximum(load.concurrency - limit, 0.0), 0.0)
    return Steady(
        time_per_output_token=tpot,
        time_to_first_token=first + waiting / rate,
        median_to_first_token=first - held_up + waiting / rate,
        requests_per_second=rate,
        running=running,
        decode=t.step,
        prefill=t.prompt,
        capacity=capacity,
    )


def settled_pools(
    t: Times, served: Number, capacity: Number, load: Load, s: Scheduling, transfer: Number = 0.0
) -> Steady:
    """Balance of two pools: the slower one sets the rate, the rest of the users wait before it.

    Parameters
    ----------
    served : Number
        Prompts that the prefill pool reads per second. [requests/s]
    transfer : Number
        Time to send a prompt's cache to the pool that answers. [s]
    """
    tpot = t.step / s.accepted(load.drafted)
    busy = load.output * tpot
    readers = served * t.prompt
    first = time_to_first_token(t, load.concurrency, load, readers, s) + transfer
    median = first - burst(t, load.concurrency, load, readers, s)
    rate = minimum(minimum(load.concurrency / (first + busy), served), maximum(capacity, 1.0) / busy)
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


def prompts_together(load: Load) -> Number:
    """Prompts that one group reads in one pass: as many as fill a chunk, at least one."""
    return maximum(np.floor(CHUNK / maximum(load.input, 1.0)), 1.0)


def prompt_time(layout: Layout, load: Load, timer: Timer) -> Number:
    """Time that one prompt takes of its group when passes are filled. [s]"""
    together = minimum(prompts_together(load), maximum(load.concurrency / layout.data, 1.0))
    together = maximum(np.floor(together), 1.0)
    return timer("prefill", layout, together * layout.data, load.input, 0.0) / together


def lone_prompt(architecture: Architecture, layout: Layout, load: Load, timer: Timer, s: Scheduling) -> Number:
    """Time of a pass with one prompt on every group. [s]"""
    return started(timer("prefill", layout, layout.data, load.input, 0.0), architecture, s)


def decode_time(layout: Layout, load: Load, running: Number, timer: Timer) -> Number:
    """Time of one decode step in the middle of the answers. [s]"""
    return timer("decode", layout, running, load.input + load.output / 2, load.drafted)
