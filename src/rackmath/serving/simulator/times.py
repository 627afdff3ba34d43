"""Times of steps as tables: what the compiled loop looks up instead of asking the engine."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from rackmath.engine import Layout
from rackmath.engine.timer import Timer
from rackmath.models.numbers import Number
from rackmath.serving.prompts import of_whole_prompts

F = NDArray[np.float64]

_CONTEXTS, _LENGTHS = 9, 48


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepTimes:
    """Tables of one group of a layout; its other groups are taken to be as busy."""

    base: F
    """A decode step of B sequences that attend to S tokens takes base[B] + slope[B] S. (max_num_seqs + 1,) [s]"""
    slope: F
    """(max_num_seqs + 1,) [s/token]"""
    prompt: F
    """Reading so many prompt tokens in one step, attention left out. (max_num_batched_tokens + 1,) [s]"""
    pair: float
    """Attention of one prompt token to one other. [s]"""
    error: float
    """Largest error of the tables against the engine, over a grid of what they are asked for. [1]"""
    images: float = 0.0
    """Encoding the images of one request; 0 where there are none, or others do it. [s]"""
    turns: int = 1
    """Micro-batches that take turns in a pipeline, of which these are the tables of one."""


def step_times(
    layout: Layout,
    timer: Timer,
    *,
    max_num_seqs: int,
    max_num_batched_tokens: int,
    draft_tokens: float,
    shortest: float,
    longest: float,
    turns: float = 1.0,
    piece: float = inf,
    images: float = 0.0,
) -> StepTimes:
    """Fill the tables from the engine.

    At a given batch a decode step is nearly linear in the tokens attended to: weights and products do not depend on
    them, the cache is read once. A prompt's products grow with its tokens, its attention with pairs of tokens.

    Parameters
    ----------
    max_num_seqs : int
        Largest batch of a group. [sequences]
    max_num_batched_tokens : int
        Most prompt tokens of a step. [tokens]
    shortest, longest : float
        Contexts between which the line is laid. [tokens]
    turns : float
        Micro-batches that take turns in a pipeline: tables are of one of them. [micro-batches]
    piece : float
        Tokens of the pieces in which one that takes no turns passes the stages: its time leaps with each. [tokens]
    images : float
        Time of encoding the images of one request. [s]
    """
    groups = float(layout.data)
    batch = np.arange(1.0, max_num_seqs + 1.0)
    contexts = np.unique(np.round(np.linspace(max(shortest, 1.0), max(longest, 2.0), _CONTEXTS)))
    sequences = (batch * groups * turns)[:, None] + 0.0 * contexts
    decode = np.asarray(timer("decode", layout, sequences, contexts + 0.0 * batch[:, None], draft_tokens))
    base, slope = _lines(batch[:, None] * contexts, decode)
    by_table = base[:, None] + slope[:, None] * batch[:, None] * contexts
    budget, whole = max_num_batched_tokens, max(longest, 1.0)

    def reading(tokens: F, before: F) -> F:
        """Time of a pass over so many prompt tokens, as many prompts as they make, with tokens before each. [s]"""
        own_tokens = np.minimum(tokens, whole)

        def pass_of(prompts: Number) -> Number:
            return timer("prefill", layout, groups * turns * prompts, before + own_tokens, 0.0, before)

        passes = of_whole_prompts(tokens / own_tokens, pass_of)
        # A pass of each micro-batch, which ends after 2 P - 1 turns of a stage.
        return np.asarray(passes, dtype=float) * turns / (2 * turns - 1)

    def pairs(tokens: F, before: F) -> F:
        return tokens * (before + (np.minimum(tokens, whole) + 1) / 2)

    edges = np.arange(piece, budget, piece) if piece < budget else np.zeros(0)
    lengths = np.unique(np.concatenate([np.round(np.geomspace(1, budget, _LENGTHS)), edges, edges + 1]))
    alone = reading(lengths, np.zeros(lengths.size))
    # What tokens attend to that were read before their pass: earlier pieces of a long prompt, or a cached part.
    before = np.array([0.25, 0.5, 1.0]) * max(whole - budget, whole / 2)
    full = np.full(before.size, budget, dtype=float)
    later = reading(full, before)
    pair = max(float(np.sum((later - alone[-1]) * before) / np.sum(before**2) / budget), 0.0)
    plain = np.maximum(alone - pair * pairs(lengths, np.zeros(lengths.size)), 0.0)
    prompt = np.concatenate(([0.0], np.interp(np.arange(1.0, budget + 1.0), lengths, plain)))
    between = np.unique(np.round(np.sqrt(lengths[:-1] * lengths[1:]))).astype(float)
    errors = [np.max(np.abs(by_table / decode - 1))]
    for tokens, prior in ((full, before), (between, np.zeros(between.size))):
        # A budget of one token has no length between its ends.
        if tokens.size:
            tables = prompt[tokens.astype(int)] + pair * pairs(tokens, prior)
            errors.append(np.max(np.abs(tables / reading(tokens, prior) - 1)))
    return StepTimes(
        base=np.concatenate(([0.0], base)),
        slope=np.concatenate(([0.0], slope)),
        prompt=prompt,
        pair=pair,
        images=images,
        turns=int(turns),
        error=float(max(errors)),
    )


def _lines(across: F, up: F) -> tuple[F, F]:
    """Lines through each row with the least relative squared error, none with a negative part."""
    weight = 1 / up**2
    total = weight.sum(1)
    x, y = (weight * across).sum(1) / total, (weight * up).sum(1) / total
    spread = (weight * (across - x[:, None]) ** 2).sum(1)
    slope = (weight * (across - x[:, None]) * (up - y[:, None])).sum(1) / np.maximum(spread, 1e-300)
    slope = np.maximum(slope, 0.0)
    return np.maximum(y - slope * x, 0.0), slope
