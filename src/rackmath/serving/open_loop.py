"""Requests that arrive by themselves, as many as limits on the slowest of them allow: MLPerf's server mode."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rackmath.engine import Layout
from rackmath.engine.timer import Timer
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number, maximum, minimum
from rackmath.models.roots import Array, Places, zeros
from rackmath.serving.load import Load, PassTimes, Scheduling, Steady
from rackmath.serving.prompts import turns_of
from rackmath.serving.steady import (
    added_by_prompt,
    capacity_of,
    decode_time,
    prompt_times,
    waited_beside,
)
from rackmath.serving.waits import (
    INSTANT,
    behind_arrivals,
    beside_of_arrivals,
    in_turn,
    time_per_output_token,
    until_begun,
)

_MEAN_OF_SLOWEST = 0.9
"""Mean time per token over its 99th percentile: 0.82 to 0.92 in MLPerf's results where that limit binds. [1]"""
_SLOWEST = 100.0
"""One request in so many is slower than a 99th percentile."""
_UNEVEN = (1 + 1 / 3) / 2
"""Wait among prompts of unlike lengths over that among prompts whose lengths are exponential."""
_IDLEST = 1e-3
"""Sequences in decode, in the mean, below which nothing is looked for: a server that mostly waits."""
_HALVINGS = 30
_FULL = 1e-6
"""Part of the largest batch that may be missing from a full one. [1]"""
_CLOSE = 1e-9
"""Part of a batch by which it may miss what arrives. [1]"""


def open_loop(
    architecture: Architecture,
    system: System,
    layout: Layout,
    load: Load,
    first: Number,
    per_token: Number,
    timer: Timer,
    s: Scheduling,
    running: Number | None = None,
) -> Steady:
    r"""Steady state at the highest rate of Poisson arrivals that keeps both limits.

    The batch B is the largest that memory and ``load.concurrency`` allow, whose time per token keeps its limit, and
    whose prompts do: read one after the other, they wait as in M/G/1, whose tail is taken as exponential,

    .. math:: \rho = \lambda P / g, \qquad W_{99} = \frac{1 + c^2}{2} \, \frac{P \, \ln(100 \rho)}{1 - \rho}

    with c for lengths drawn evenly up to twice their mean: :math:`c^2 = 1/3`.

    Parameters
    ----------
    load : Load
        ``concurrency`` is the largest batch that the engine is configured for.
    first, per_token : Number
        Limits of the 99th percentile of the time to the first token and of the time per token. [s]
    running : Number, optional
        Batch to take, where it is known already.

    Rate and time per token are not numbers where no batch keeps the limits.
    """
    load = replace(load, turns=turns_of(layout.pipeline, load.piece))
    prompt, alone, _ = prompt_times(architecture, layout, load, timer, s)
    capacity = capacity_of(architecture, system, layout, load)
    most = minimum(capacity, load.concurrency) if running is None else running
    prompt_cost = added_by_prompt(architecture, layout, load, most, timer, s)

    def at(batch: Number) -> Steady:
        step = decode_time(layout, load, maximum(batch, 1.0), timer)
        beside = waited_beside(architecture, load, batch / layout.data, prompt, prompt_cost, step, s)
        prompts = beside_of_arrivals(batch, layout.data, s)
        tpot = time_per_output_token(PassTimes(step, prompt, alone, beside), prompts, load, s)
        rate = batch / (load.output * tpot)
        busy = minimum(rate * prompt / layout.data, 1 - 1e-6)
        unmet = s.arrival + until_begun(step, batch / layout.data, load.looks, s) + alone
        return Steady(
            time_per_output_token=tpot,
            time_to_first_token=unmet + _UNEVEN * prompt * busy / (1 - busy),
            median_to_first_token=unmet + slowest_of(2.0, prompt, busy),
            requests_per_second=rate,
            running=batch,
            decode=step,
            prefill=prompt,
            capacity=capacity,
        )

    def kept(batch: NDArray[np.float64]) -> NDArray[np.bool_]:
        state = at(batch)
        busy = np.asarray(state.requests_per_second * prompt / layout.data)
        # The slowest arrives when a step has just begun.
        step = state.decode * (1 + s.ahead)
        starts = (busy < 1) & np.less_equal(s.arrival + step + alone + slowest_of(_SLOWEST, prompt, busy), first)
        return starts & np.less_equal(state.time_per_output_token, _MEAN_OF_SLOWEST * per_token)

    if running is not None:
        return at(running)
    wide = np.broadcast_shapes(*(np.shape(x) for x in (capacity, load.concurrency, first, per_token, prompt)))
    low, high = (
        np.full(wide, np.log(_IDLEST)),
        np.broadcast_to(np.log(maximum(minimum(capacity, load.concurrency), 1.0)), wide),
    )
    fits = kept(np.exp(low)) & np.greater_equal(capacity, 1)
    low = np.where(kept(np.exp(high)), high, low)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        good = kept(np.exp(middle))
        low, high = np.where(good, middle, low), np.where(good, high, middle)
    result = at(np.exp(low))
    return replace(
        result,
        requests_per_second=np.where(fits, result.requests_per_second, np.nan),
        time_per_output_token=np.where(fits, result.time_per_output_token, np.nan),
    )


def at_rate(
    architecture: Architecture,
    system: System,
    layout: Layout,
    load: Load,
    rate: Number,
    timer: Timer,
    s: Scheduling,
    running: Number | None = None,
) -> Steady:
    r"""Steady state of requests that arrive by themselves at a given rate.

    By Little's law :math:`B = \lambda O t(B)` sequences decode, with t the time per token; the batch is found by
    false position. Beyond the rate at which the largest batch is served requests wait: the first token then lies as
    far off as the mean request of ``load.concurrency``, all that the run sends, has waited.

    Parameters
    ----------
    load : Load
        ``concurrency`` is the number of requests of the run; infinite where it does not say.
    rate : Number
        Arrivals at this replica. [requests/s]
    running : Number, optional
        Batch to take, where it is known already.
    """
    load = replace(load, turns=turns_of(layout.pipeline, load.piece))
    alone_load = replace(load, concurrency=1.0)
    prompt, alone, _ = prompt_times(architecture, layout, alone_load, timer, s)
    capacity = maximum(capacity_of(architecture, system, layout, load), 1.0)

    def times(batch: Number) -> tuple[PassTimes, Number]:
        step = decode_time(layout, load, maximum(batch, 1.0), timer)
        prompt_cost = added_by_prompt(architecture, layout, load, batch, timer, s)
        beside = waited_beside(architecture, load, batch / layout.data, prompt, prompt_cost, step, s)
        t = PassTimes(step, prompt, alone, beside)
        return t, time_per_output_token(t, beside_of_arrivals(batch, layout.data, s), load, s)

    if running is None:
        shape = np.broadcast_shapes(*(np.shape(x) for x in (capacity, rate, prompt)))
        high = np.broadcast_to(np.log(capacity), shape).ravel()
        low = np.full_like(high, np.log(_IDLEST))

        def surplus(logarithms: Array, places: Places) -> Array:
            """Logarithm of a batch over the sequences that arrive while its tokens are written."""
            every = high.copy()
            every[places] = logarithms
            arriving = rate * load.output * times(np.exp(every).reshape(shape))[1]
            return (every - np.log(np.broadcast_to(arriving, shape).ravel()))[places]

        batch = zeros(surplus, low, high, _CLOSE)
        if np.isnan(batch).any():
            idle = surplus(low, np.arange(len(low))) >= 0
            batch = np.where(np.isnan(batch), np.where(idle, low, high), batch)
        running = np.exp(batch).reshape(shape)
    t, tpot = times(running)
    busy = load.output * tpot
    # A batch with room left grows with its steps: only one that is full sends requests to wait.
    full = np.greater_equal(running, capacity * (1 - _FULL))
    capacity_rate = minimum(np.where(full, running / busy, np.inf), layout.data / maximum(in_turn(prompt, s), INSTANT))
    unmet = (
        s.arrival
        + until_begun(t.step, running / layout.data, load.looks, s)
        + alone
        + behind_arrivals(t, running, busy, load, layout.data)
    )
    is_finite = np.isfinite(load.concurrency)
    late = np.where(is_finite, load.concurrency, 0.0) * maximum(1 / capacity_rate - 1 / rate, 0.0) / 2
    return Steady(
        time_per_output_token=tpot,
        time_to_first_token=unmet + late,
        median_to_first_token=unmet + late,
        requests_per_second=minimum(rate, capacity_rate),
        running=running,
        decode=t.step,
        prefill=prompt,
        capacity=capacity,
    )


def slowest_of(many: float, prompt: Number, busy: Number) -> Number:
    """Wait of the slowest request of so many, where prompts take ``busy`` of the time. [s]"""
    return _UNEVEN * prompt * np.log(np.maximum(many * busy, 1.0)) / np.maximum(1 - busy, 1e-9)
