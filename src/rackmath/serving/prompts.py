"""Time of reading prompts in chunks, with a cached prefix."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np
from numpy.typing import NDArray

from rackmath.engine import Layout
from rackmath.engine.gather import pieces_of
from rackmath.engine.timer import Timer
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number, ceiling, maximum, minimum

_RARE = 1e-6
"""Prompts of a step below which they are rare. [prompts]"""


def reading_time(
    layout: Layout,
    length: Number,
    cached_tokens: Number,
    chunk: Number,
    timer: Timer,
    present: Number = inf,
    piece: Number = inf,
) -> tuple[Number, Number, Number]:
    r"""Time that one prompt takes of its group: alone, and when passes are filled. [s], [s], [prompts]

    A prompt longer than a chunk is read in m equal pieces, each of which sees those
    before it; they follow each other through P stages:

    .. math:: t = \frac{m + P - 1}{P} \, T(i)

    with i the piece of :func:`pacing_alone`, since the time of a piece is linear in what it sees. Shorter prompts share
    a pass, as many as fill the chunk. Where passes are filled, all stages read: another pass ends every T / P, with T
    that of the piece of :func:`pacing`.

    Parameters
    ----------
    length, cached_tokens : Number
        Tokens of the prompt, and those of them that the cache holds. [tokens]
    chunk : Number
        Tokens of prompts in one pass at most. [tokens]
    present : Number
        Prompts that there are at most on a group. [prompts]
    piece : Number
        Tokens of the pieces in which prompts pass the stages of a pipeline, where they are fewer. [tokens]

    Returns
    -------
    tuple of Number
        Time alone, time per prompt in a full pass, prompts in a full pass.
    """
    new_tokens, stages = maximum(length - cached_tokens, 1.0), layout.pipeline * 1.0
    pieces, per_piece = _pieces(layout, length, cached_tokens, chunk, piece)
    groups = layout.data * 1.0
    turns = turns_of(stages, piece)
    context = cached_tokens + per_piece * pacing_alone(pieces, stages)
    alone = timer("prefill", layout, groups, context + per_piece, 0.0, context) * (pieces + stages - 1) / stages
    together = maximum(np.floor(minimum(chunk / new_tokens, maximum(present / turns, 1.0))), 1.0)
    context = cached_tokens + per_piece * pacing(pieces, turns)
    full = _per_prompt(layout, together, pieces, context, per_piece, turns, timer)
    return alone, np.where(np.isinf(piece) | (together > 1), full, alone), together


def _pieces(
    layout: Layout, length: Number, cached_tokens: Number, chunk: Number, piece: Number
) -> tuple[Number, Number]:
    """Pieces of a prompt, and tokens of each. [1], [tokens]"""
    new_tokens = maximum(length - cached_tokens, 1.0)
    pieces = ceiling(new_tokens / np.where(np.greater(layout.pipeline, 1), minimum(chunk, piece), chunk))
    return pieces, new_tokens / pieces


def pacing_alone(pieces: Number, stages: Number) -> Number:
    r"""Pieces before the one that paces the mean turn of a prompt that is read by itself. [pieces]

    .. math:: \frac{(m - 1) (m / 2 + P - 1)}{m + P - 1}

    Of m pieces, each longer than the one before for what it sees, each ends a turn of its own time at the first of P
    stages; then the last one, the longest, passes the P - 1 others.
    """
    return (pieces - 1) * (pieces / 2 + stages - 1) / (pieces + stages - 1)


def pacing(pieces: Number, stages: Number) -> Number:
    r"""The same where prompts follow each other, and P pieces are in a pipeline at a time. [pieces]

    .. math:: \frac{(P - 1) (m - 1) + (m - P + 1) (m + P - 2) / 2}{m} \quad (P \le m), \qquad m - 1 \quad (P > m)

    As one leaves the next comes in, so that the longest of each P in a row holds up all: the last one of a prompt also
    the first P - 1 of the next. One in a stage of its own is that of the mean, (m - 1) / 2. An engine has as many in
    flight as stages; with twice as many none would wait for a longer one. Exact but for P above m and no multiple of
    it, where it is the most.
    """
    within = minimum(stages, pieces)
    return ((within - 1) * (pieces - 1) + (pieces - within + 1) * (pieces + within - 2) / 2) / pieces


def _per_prompt(
    layout: Layout, together: Number, pieces: Number, context: Number, per_piece: Number, turns: Number, timer: Timer
) -> Number:
    """Time of one prompt where passes hold so many, one pass for each stage, which end after 2 P - 1 turns. [s]"""

    def pass_of(prompts: Number) -> Number:
        return timer("prefill", layout, layout.data * prompts * turns, context + per_piece, 0.0, context)

    # Groups wait for the largest of them; a micro-batch is by itself.
    passes = of_whole_prompts(together, pass_of, np.greater(turns, 1))
    return passes * pieces / (together * (2 * turns - 1))


def of_whole_prompts(
    count: Number, pass_of: Callable[[Number], Number], apart: NDArray[np.bool_] | np.bool_ = np.True_
) -> Number:
    """Mean time of passes that hold whole numbers of prompts, ``count`` in the mean. [s]

    An engine's pass takes as long as its largest part: of four micro-batches with five prompts one has two. Where parts
    are not ``apart`` it is left so.
    """
    below = np.where(apart, np.floor(count), count)
    low = pass_of(below)
    if not np.any(below != count):
        return low
    return low + np.where(apart, count - below, 0.0) * (pass_of(below + 1) - low)


def time_first(
    layout: Layout,
    length: Number,
    cached_tokens: Number,
    chunk: Number,
    arriving: Number,
    timer: Timer,
    piece: Number = inf,
) -> tuple[Number, Number]:
    r"""Time of one prompt in passes that read prompts alone, and the prompts of such a pass. [s], [prompts]

    .. math:: t = T(k n) / k, \qquad k = \frac{p}{1 - e^{-p}}

    A pass takes all prompts that have come with a step: of those passes that there are each has k in the mean, where p
    arrive with a step at random, and no more than fill it. Arguments as of :func:`reading_time`.

    Parameters
    ----------
    arriving : Number
        Prompts that come to one group in the time of a step, in the mean. [prompts]
    """
    new_tokens, turns = maximum(length - cached_tokens, 1.0), turns_of(layout.pipeline * 1.0, piece)
    often = maximum(arriving / turns, _RARE)
    together = maximum(minimum(often / -np.expm1(-often), np.floor(chunk / new_tokens)), 1.0)
    pieces, per_piece = _pieces(layout, length, cached_tokens, chunk, piece)
    context = cached_tokens + per_piece * pacing(pieces, turns)
    return _per_prompt(layout, together, pieces, context, per_piece, turns, timer), together


def turns_of(stages: Number, piece: Number) -> Number:
    """Batches that a pipeline works on at a time: one for each stage, but one in all that is sent on in pieces."""
    return np.where(np.isinf(piece), stages, 1.0)


def unfilled(arriving: Number, stages: Number) -> Number:
    r"""Part of the fill of a pipeline that all its micro-batches wait for with each prompt. [1]

    .. math:: h = \frac{P m - 1}{P - 1}, \qquad m = \frac{1 - e^{-n}}{P \, (1 - e^{-n / P})}

    with n prompts in the time in which all P micro-batches take a turn, and m what a prompt of a single pass delays
    answers by, over the time of its pass: the others wait behind the one that reads most. Where a single one reads, all
    wait as long as its pass takes (h = 1); where each reads as many, none waits for another's (h = 0). Of those that
    take in prompts at all each takes in as many, as where answers of one length end one after the other; of answers of
    unlike lengths some take in more, and all wait for them.

    Parameters
    ----------
    arriving : Number
        Prompts, or chunks of prompts, that come in the time of a step, in the mean. [prompts]
    """
    count, several = maximum(arriving, _RARE), maximum(stages, 2.0)
    return (np.expm1(-count) / np.expm1(-count / several) - 1) / (several - 1)


def time_beside(
    layout: Layout,
    length: Number,
    cached_tokens: Number,
    chunk: Number,
    running: Number,
    arriving: Number,
    timer: Timer,
    piece: Number = inf,
) -> Number:
    r"""Time that one prompt adds to the decode steps that its pieces run beside. [s]

    .. math:: t = w \, \frac{T(B + k n) - T(B)}{k}, \qquad k = \frac{p}{1 - e^{-p}}

    with T a pass over so many tokens of prompts: weights are read, and kernels started, for the B sequences of the step
    anyway. A few tokens cost next to nothing, many what they compute. Of the steps that take in a piece at all, each
    takes in k in the mean, where p arrive with a step at random. The m passes of a prompt follow each other through the
    P stages of a pipeline, in j pieces each, 1 where an engine sends them through whole; T fills it for one:
    :math:`w = (m j + (P - 1) h) / (j + P - 1)`, with h of :func:`unfilled` where micro-batches take turns, 1 where a
    single one is sent on in pieces. Arguments as of :func:`reading_time`.

    Parameters
    ----------
    running : Number
        Tokens that the step computes for answers, over all groups. [tokens]
    arriving : Number
        Prompts that come to one group in the time of a step, in the mean. [prompts]
    """
    new_tokens = maximum(length - cached_tokens, 1.0)
    pieces = ceiling(new_tokens / chunk)
    per_piece = new_tokens / pieces
    context = cached_tokens + per_piece * (pieces - 1) / 2
    stages = layout.pipeline * 1.0
    turns = turns_of(stages, piece)
    often = maximum(arriving * pieces / turns, _RARE)
    together = maximum(minimum(often / -np.expm1(-often), chunk / per_piece), 1.0)
    present = maximum(running / layout.data / turns / together, 1.0)
    # Micro-batches have whole numbers of sequences: there the prompts of each are one of as many tokens.
    in_turns = np.greater(turns, 1)
    sequences, share = layout.data * np.where(in_turns, turns, together), np.where(in_turns, together, 1.0)
    with_prompts = context + share * (present + per_piece)
    together_time = timer("prefill", layout, sequences, with_prompts, 0.0, context)
    alone = timer("prefill", layout, sequences, context + share * present, 0.0, context)
    one_pass = maximum(together_time - alone, 0.0) / together * turns / (2 * turns - 1)
    within = pieces_of(per_piece, piece)
    filling = (stages - 1) * np.where(np.isinf(piece), unfilled(often * turns, stages), 1.0)
    return one_pass * (pieces * within + filling) / (within + stages - 1)


def images_time(architecture: Architecture, layout: Layout, timer: Timer, together: Number = 1.0) -> Number:
    """Time in which a group encodes the images of a prompt, of so many whose images it takes at once. [s]

    All images of a prompt are encoded before its first piece is read; what the cache holds of a prompt is text.
    """
    if architecture.images is None:
        return 0.0
    return timer("encode", layout, layout.data * together, 0.0, 0.0) / together
