"""Steady state of a server under a constant number of users.

Each of C users sends a prompt of I tokens, waits for O tokens, and sends the next. From
the time of one decode step and of one prompt follow what a user sees and what the server
delivers; batch and speed determine each other, so both are iterated to a fixed point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rackmath.engine import Layout
from rackmath.engine.capacity import largest_batch
from rackmath.engine.timer import Timer
from rackmath.engine.transfer import transfer_time
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number, maximum, minimum

CHUNK = 8192
"""Tokens of prompts that an engine puts into one pass (vLLM and SGLang defaults on large GPUs)."""

_ROUNDS = 6
_NEARLY_ALL = 1 - 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pool:
    """Equal workers of one layout."""

    layout: Layout
    workers: Number = 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Load:
    """What users ask of the whole deployment; numbers broadcast."""

    concurrency: Number
    """Requests in the system at any time; infinite for as many as memory holds. [requests]"""
    input: Number
    """Tokens of a prompt. [tokens]"""
    output: Number
    """Tokens of an answer. [tokens]"""
    drafted: Number = 0.0
    """Tokens that a step speculates beside its next one. [tokens]"""
    wave: bool = False
    """All requests arrive at once and none follows, as in a one-shot benchmark."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scheduling:
    """Fitted constants of how engines mix work; bounded, none per model."""

    interruption: Number = 1.0
    """Part of a prompt's time that the running batch waits for; the rest hides in its steps."""
    lockstep: Number = 0.0
    """Part of one group's prompt that all data-parallel groups wait for."""
    queueing: Number = 0.5
    """Part of the prompts of a full burst that an average first token waits for."""
    arrival: Number = 0.0
    """Time of a request outside the engine: network, tokeniser, first scheduling. [s]"""
    acceptance: Number = 0.0
    """Chance that a drafted token is accepted, given that those before it were."""

    def accepted(self, drafted: Number) -> Number:
        r"""Tokens that a verified step yields in the mean. [tokens]

        .. math:: \sum_{i=0}^{n} a^i = (1 - a^{n+1}) / (1 - a)

        Source: Leviathan, Kalman and Matias 2023, equation 1.
        """
        chance = minimum(self.acceptance, _NEARLY_ALL)
        return (1 - chance ** (drafted + 1)) / (1 - chance)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Steady:
    """What a steady load looks like from both sides."""

    time_per_output_token: Number
    """Of one user, interruptions by others' prompts included. [s]"""
    time_to_first_token: Number
    """Queue and prompt. [s]"""
    requests_per_second: Number
    """Completed by the whole deployment. [requests/s]"""
    running: Number
    """Sequences in a decode step, whole deployment. [sequences]"""
    decode: Number
    """Time of one step at that batch. [s]"""
    prefill: Number
    """Time of one prompt on the group that runs it. [s]"""
    capacity: Number
    """Sequences that fit. [sequences]"""


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
    prompt = prompt_time(layout, load, timer)
    capacity = largest_batch(architecture, system, layout, context=load.input + load.output, tokens=CHUNK)

    def at(batch: Number) -> Steady:
        return settled(decode_time(layout, load, batch, timer), prompt, capacity, load, layout.data, s)

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
    prompt = prompt_time(prefill.layout, load, timer)
    served = prefill.workers * prefill.layout.data / prompt
    gpus = prefill.workers * prefill.layout.gpus + decode.workers * decode.layout.gpus
    transfer = transfer_time(architecture, system, prefill.layout, decode.layout, load.input, gpus)
    held = largest_batch(architecture, system, decode.layout, context=load.input + load.output, tokens=CHUNK)
    capacity = decode.workers * held

    def at(batch: Number) -> Steady:
        step = decode_time(decode.layout, load, maximum(batch / decode.workers, 1.0), timer)
        return settled_pools(step, prompt, served, capacity, load, s, transfer)

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


def settled(step: Number, prompt: Number, capacity: Number, load: Load, groups: Number, s: Scheduling) -> Steady:
    r"""Balance of a closed loop, given the times of a step and of a prompt.

    By Little's law a share :math:`O t / (O t + f)` of the admitted requests is decoding,
    with t the time per token and f the time to the first.
    """
    limit = admitted(load, capacity)
    first = time_to_first_token(step, prompt, limit, load, groups, s)
    running = limit
    tpot = time_per_output_token(step, prompt, running, load, groups, s)
    for _ in range(_ROUNDS):
        busy = load.output * tpot
        running = maximum(limit * busy / (busy + first), 1.0)
        tpot = time_per_output_token(step, prompt, running, load, groups, s)
    rate = running / (load.output * tpot)
    waiting = np.where(np.isfinite(load.concurrency), maximum(load.concurrency - limit, 0.0), 0.0)
    return Steady(
        time_per_output_token=tpot,
        time_to_first_token=first + waiting / rate,
        requests_per_second=rate,
        running=running,
        decode=step,
        prefill=prompt,
        capacity=capacity,
    )


def settled_pools(
    step: Number, prompt: Number, served: Number, capacity: Number, load: Load, s: Scheduling, transfer: Number = 0.0
) -> Steady:
    """Balance of two pools: the slower one sets the rate, the rest of the users wait before it.

    Parameters
    ----------
    served : Number
        Prompts that the prefill pool reads per second. [requests/s]
    transfer : Number
        Time to send a prompt's cache to the pool that answers. [s]
    """
    tpot = step / s.accepted(load.drafted)
    busy = load.output * tpot
    readers = served * prompt
    first = time_to_first_token(step, prompt, load.concurrency, load, readers, s) + transfer
    rate = minimum(minimum(load.concurrency / (first + busy), served), maximum(capacity, 1.0) / busy)
    return Steady(
        time_per_output_token=tpot,
        time_to_first_token=maximum(load.concurrency / rate - busy, first),
        requests_per_second=rate,
        running=maximum(rate * busy, 1.0),
        decode=step,
        prefill=prompt,
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


def decode_time(layout: Layout, load: Load, running: Number, timer: Timer) -> Number:
    """Time of one decode step in the middle of the answers. [s]"""
    return timer("decode", layout, running, load.input + load.output / 2, load.drafted)


def time_per_output_token(
    step: Number, prompt: Number, running: Number, load: Load, groups: Number, s: Scheduling
) -> Number:
    r"""Time between a user's tokens, others' prompts included. [s]

    .. math:: t = s / a + \kappa \, w \, B / O \cdot P \, (\lambda + (1 - \lambda) / g)

    In the time of one answer B others finish and B prompts are read, each of which stops
    its own of g groups and, where groups meet in expert exchanges, a part of all. In a
    wave the average request meets half of them (w = 1/2).
    """
    waits = s.lockstep + (1 - s.lockstep) / groups
    met = 0.5 if load.wave else 1.0
    return step / s.accepted(load.drafted) + s.interruption * met * running / maximum(load.output, 1.0) * prompt * waits


def time_to_first_token(
    step: Number, prompt: Number, limit: Number, load: Load, groups: Number, s: Scheduling
) -> Number:
    """Time to the first token of a request that was admitted: burst, step in progress, prompt. [s]

    In a wave all prompts of a group are read one after the other: half of them before the
    average one. A closed loop starts with such a burst and spreads out.
    """
    ahead = maximum(limit / groups - 1, 0.0)
    part = 0.5 if load.wave else s.queueing
    return s.arrival + prompt + step + part * ahead * prompt
