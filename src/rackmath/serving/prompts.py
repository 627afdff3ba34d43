"""Time of reading prompts in chunks, with a cached prefix."""

from __future__ import annotations

from math import inf

import numpy as np

from rackmath.engine import Layout
from rackmath.engine.gather import pieces_of
from rackmath.engine.timer import Timer
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number, ceiling, maximum, minimum


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

    .. math:: t = \frac{m + P - 1}{P} \, T(\text{piece in the middle})

    since the time of a piece is linear in what it sees. Shorter prompts share a pass, as
    many as fill the chunk.

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
    new_tokens = maximum(length - cached_tokens, 1.0)
    stages = layout.pipeline * 1.0
    pieces = ceiling(new_tokens / np.where(np.greater(stages, 1), minimum(chunk, piece), chunk))
    per_piece = new_tokens / pieces
    context = cached_tokens + per_piece * (pieces - 1) / 2
    groups = layout.data * 1.0
    alone = timer("prefill", layout, groups, context + per_piece, 0.0, context) * (pieces + stages - 1) / stages
    together = maximum(np.floor(minimum(chunk / new_tokens, maximum(present, 1.0))), 1.0)
    full = timer("prefill", layout, groups * together, context + per_piece, 0.0, context) / together
    return alone, np.where(together > 1, full, alone), together


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

    .. math:: t = \frac{m j + P - 1}{j + P - 1} \, \frac{T(B + k n) - T(B)}{k}, \qquad k = \frac{p}{1 - e^{-p}}

    with T a pass over so many tokens of prompts: weights are read, and kernels started, for the B sequences of the step
    anyway. A few tokens cost next to nothing, many what they compute. Of the steps that take in a piece at all, each
    takes in k in the mean, where p arrive with a step at random. Through P stages a step passes in j pieces,
    1 where an engine sends them through whole: T fills the pipeline for the first step of a prompt, and the other m - 1
    follow. Arguments as of :func:`reading_time`.

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
    often = maximum(arriving * pieces, 1e-6)
    together = maximum(minimum(often / -np.expm1(-often), chunk / per_piece), 1.0)
    present = maximum(running / layout.data / together, 1.0)
    stages = layout.pipeline * 1.0
    together_time = timer("prefill", layout, layout.data * together, context + present + per_piece, 0.0, context)
    alone = timer("prefill", layout, layout.data * together, context + present, 0.0, context)
    within = pieces_of(per_piece, piece)
    fill = (pieces * within + stages - 1) / (within + stages - 1)
    return maximum(together_time - alone, 0.0) / together * fill


def images_time(architecture: Architecture, layout: Layout, timer: Timer, together: Number = 1.0) -> Number:
    """Time in which a group encodes the images of a prompt, of so many whose images it takes at once. [s]

    All images of a prompt are encoded before its first piece is read; what the cache holds of a prompt is text.
    """
    if architecture.images is None:
        return 0.0
    return timer("encode", layout, layout.data * together, 0.0, 0.0) / together
