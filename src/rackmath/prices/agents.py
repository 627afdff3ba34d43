"""A session of an agent in dollars by list price, and in seconds of hardware of one's own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rackmath.caching.sessions import Turns
from rackmath.engine import Estimate, Losses, estimate
from rackmath.engine.capacity import largest_batch
from rackmath.engine.layout import Layout
from rackmath.errors import DoesNotFit
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number
from rackmath.prices.lists import Bill, PriceList, Tokens, bill
from rackmath.serving.long_prompts import read_prompts

Array = NDArray[np.float64]

HOUR = 3600.0
"""Prefixes that are kept at least this long are written at the price for an hour. [s]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnHardware:
    """Accelerator seconds of a session. [GPU s]"""

    gpus: float
    seconds: float
    low: float
    high: float
    memory_time: float
    compute_time: float
    """Of these, what memory traffic and multiplications take at the peaks."""


def session_bill(prices: PriceList, calls: Turns, keep: float) -> Bill:
    """Cost of each call of a session by list price, as a mean over pauses. [USD]

    ``keep`` is how long the provider holds a prefix; 0 for no caching, where nothing is
    written. A call's context tier follows from its whole prompt, found or not, so the mean
    over hits is exact.
    """
    cached_input = calls.hit * calls.prefix if keep else np.zeros_like(calls.prefix)
    rest, no_tokens = calls.prompt - cached_input, np.zeros_like(cached_input)
    return bill(
        prices,
        Tokens(
            input=no_tokens if keep else rest,
            cached_input=cached_input,
            write=rest if 0 < keep < HOUR else no_tokens,
            write_hour=rest if keep >= HOUR else no_tokens,
            output=calls.output,
        ),
    )


def own_hardware(
    architecture: Architecture,
    system: System,
    layout: Layout,
    calls: Turns,
    *,
    batch: float,
    prompt_losses: Losses | None = None,
    token_losses: Losses | None = None,
) -> OwnHardware:
    """Accelerator seconds of a session, if the deployment is never idle.

    Parameters
    ----------
    batch : float
        Sessions that are answered at a time, all with the context of this one. [sequences]
    prompt_losses, token_losses : Losses, optional
        What separates the engine from the bound, in reading prompts and in writing answers.

    A prompt is read by one data-parallel group, from its prefix on where that is found. Errors:
    :class:`DoesNotFit` if the caches of ``batch`` sessions do not fit.
    """
    group = float(np.max(layout.data))

    def reading(cached_tokens: Array | float) -> list[Array]:
        passes = read_prompts(
            architecture,
            system,
            layout,
            batch=group,
            context=calls.prompt,
            cached_tokens=cached_tokens,
            losses=prompt_losses,
        )
        return [np.asarray(t) for t in _times(passes)]

    # At least one token of a prompt is new, or there would be nothing to answer.
    warm, cold = reading(np.minimum(calls.prefix, calls.prompt - 1)), reading(0.0)
    context = calls.prompt + calls.output / 2
    saying = estimate(architecture, system, layout, batch=batch, context=context, losses=token_losses)
    if not np.all(saying.memory.fits):
        room = int(np.min(largest_batch(architecture, system, layout, context=context, tokens=batch)))
        way_out = f"at most {room} fit at a time, take a smaller batch" if room else "not one fits, take more GPUs"
        raise DoesNotFit(f"{batch:g} sessions of up to {calls.prompt.max():,.0f} tokens", way_out)
    gpus = float(np.max(layout.gpus))
    spans: list[float] = []
    for cost, cold_cost, step in zip(warm, cold, _times(saying), strict=True):
        prompt = calls.hit * cost + (1 - calls.hit) * cold_cost
        spans.append(float(np.sum(prompt / group + step * calls.output / batch)) * gpus)
    seconds, low, high, memory_time, compute_time = spans
    return OwnHardware(
        gpus=gpus, seconds=seconds, low=low, high=high, memory_time=memory_time, compute_time=compute_time
    )


def _times(e: Estimate) -> tuple[Number, ...]:
    """Time of a pass, its range, and what memory and multiplications take of it at the peaks. [s]"""
    return e.time, e.time_low, e.time_high, e.memory_time, e.compute_time
