"""Accelerator time of a token: of a prompt of each length, and of an answer at each context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import erf, inf, isfinite, log, sqrt

import numpy as np

from rackmath.engine import Layout, Losses
from rackmath.engine.layout import stack_layouts
from rackmath.errors import DoesNotFit, InputError
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.serving.load import CHUNK
from rackmath.serving.long_prompts import read_prompts
from rackmath.serving.points import Array

_NODES, _REACH = 49, 4.0
"""Lengths that stand for a distribution, and how many deviations they reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What requests look like: prompts of log-normal length, and answers."""

    prompt: float
    """Mean tokens of a prompt, found in a cache or not. [tokens]"""
    answer: float
    """Mean tokens of an answer. [tokens]"""
    hit: float = 0.0
    """Part of every prompt that is found in a cache. [1]"""
    spread: float = 0.0
    """Standard deviation of the logarithm of a prompt's length. [1]"""
    longest: float = inf
    """Prompt that is still taken. [tokens]"""

    def __post_init__(self) -> None:
        for field, value, low, high in (
            ("--input", self.prompt, 1.0, 1e9),
            ("--output", self.answer, 1.0, 1e9),
            ("--hit", self.hit, 0.0, 0.999),
            ("--spread", self.spread, 0.0, 3.0),
        ):
            if not (isfinite(value) and low <= value <= high):
                raise InputError(field, value, f"write a number from {low:g} to {high:g}")
        if not self.longest >= self.prompt:
            raise InputError("--input", self.prompt, f"is above the longest prompt, {self.longest:g}")

    @property
    def context(self) -> float:
        """That an output token sees in the mean, where answers do not depend on prompts. [tokens]"""
        return self.prompt + self.answer / 2

    def parts(self, contexts: Array) -> Array:
        """Part of requests whose prompt is nearest, by ratio, to each of ascending contexts. (contexts,)"""
        if self.spread == 0:
            return (np.arange(len(contexts)) == np.abs(np.log(contexts / self.prompt)).argmin()) * 1.0
        middle = log(self.prompt) - self.spread**2 / 2
        # Edges that lie endlessly many deviations away have all of a narrow spread on one side.
        with np.errstate(over="ignore"):
            edges = (np.log(np.sqrt(contexts[1:] * contexts[:-1])) - middle) / self.spread
        below = np.array([(1 + erf(edge / sqrt(2))) / 2 for edge in edges.tolist()])
        return np.diff(np.concatenate([[0.0], below, [1.0]]))

    def lengths(self) -> tuple[Array, Array]:
        """Prompt lengths and the parts of requests that have them; longer ones count as the longest. (n,), (n,)"""
        if self.spread == 0:
            return np.array([self.prompt]), np.ones(1)
        middle = log(self.prompt) - self.spread**2 / 2
        lengths = np.exp(middle + self.spread * np.linspace(-_REACH, _REACH, _NODES))
        return np.minimum(lengths, self.longest), self.parts(lengths)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PromptCost:
    """Accelerator time to read prompts in the layout that does it cheapest."""

    layout: Layout
    seconds: Array
    """Per token that is not found in a cache, at each length. (lengths,) [GPU s]"""
    low: Array
    high: Array
    memory_time: Array
    compute_time: Array
    """Accelerator time per token that memory traffic and multiplications take at the peaks. (lengths,) [GPU s]"""


def reading(
    architecture: Architecture,
    system: System,
    layouts: Sequence[Layout],
    lengths: Array,
    weights: Array,
    *,
    hit: float = 0.0,
    two_batch: float = 0.0,
    losses: Losses | None = None,
) -> PromptCost:
    """Accelerator time per new token of prompts of given lengths.

    Parameters
    ----------
    layouts : sequence of Layout
        Of which the one is taken whose mean over requests is least.
    lengths, weights : array
        Prompt lengths, and the parts of requests that have them. (lengths,) [tokens], [1]
    hit : float
        Part of a prompt whose cache is there already.

    Short prompts share a pass, as many as fill a chunk; long ones are read in chunks. Errors: :class:`DoesNotFit`
    where no layout holds them.
    """
    if not layouts:
        raise DoesNotFit(f"no layout divides {architecture.name} on that many accelerators", "use another --gpus")
    # A pipeline is kept full by a prompt for each stage, or by the chunks of a single one.
    fillings = [(layout, prompts) for layout in layouts for prompts in sorted({1.0, float(layout.pipeline)})]
    wide = stack_layouts([layout for layout, _ in fillings], 2)
    new = np.maximum(lengths * (1 - hit), 1.0)
    together = np.maximum(np.floor(CHUNK / new), 1.0)
    batch = wide.data * np.array([prompts for _, prompts in fillings])[:, None] * together
    cost = read_prompts(
        architecture,
        system,
        wide,
        batch=batch,
        context=lengths,
        cached_tokens=lengths - new,
        two_batch=two_batch,
        losses=losses,
    )
    gpus = np.array([float(layout.gpus) for layout, _ in fillings])[:, None]
    per_token = gpus / (batch * new)
    times = (cost.time, cost.time_low, cost.time_high, cost.memory_time, cost.compute_time)
    seconds, low, high, memory_time, compute_time = (np.asarray(t) * per_token for t in times)
    fits = np.broadcast_to(np.asarray(cost.memory.fits), seconds.shape).all(axis=1)
    if not fits.any():
        raise DoesNotFit(f"prompts of {lengths.max():,.0f} tokens of {architecture.name}", "use more --prefill-gpus")
    mean = seconds @ (weights * new)
    best = int(np.where(fits, mean, np.inf).argmin())
    return PromptCost(
        layout=fillings[best][0],
        seconds=seconds[best],
        low=low[best],
        high=high[best],
        memory_time=memory_time[best],
        compute_time=compute_time[best],
    )
