"""Passes that read prompts of any length: an engine cuts those that are longer than its budget of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf

from rackmath.engine import TIME_FIELDS, Estimate, Losses, estimate
from rackmath.engine.gather import pieces_of
from rackmath.engine.layout import Layout
from rackmath.engine.roofline import held_sequences
from rackmath.engine.sharding import memory
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number, ceiling, maximum, minimum
from rackmath.serving.load import CHUNK


def read_prompts(
    architecture: Architecture,
    system: System,
    layout: Layout,
    *,
    batch: Number,
    context: Number,
    cached_tokens: Number = 0.0,
    chunk: Number = CHUNK,
    piece: Number = inf,
    two_batch: Number = 0.0,
    losses: Losses | None = None,
) -> Estimate:
    r"""Read ``batch`` prompts at once, each in m equal chunks that follow each other through P stages.

    .. math:: t = \frac{s m + P - 1}{s + P - 1} \, T(\text{chunk in the middle})

    with s the pieces of a chunk, of all prompts of a group, that follow each other through the stages: T holds the fill
    of the pipeline for one chunk of each. The time of a chunk is linear in what it sees, so the one in the middle is
    their mean. Memory is that of the last one: the cache of the whole prompt, activations of a chunk.

    Parameters
    ----------
    context, cached_tokens : Number
        Tokens of a prompt, and those of them that the cache holds. [tokens]
    chunk : Number
        Tokens of a prompt in one pass at most. [tokens]
    piece : Number
        Tokens of the pieces in which a chunk passes the stages of a pipeline; whole by default. [tokens]

    Returns
    -------
    Estimate
        As of one pass; its times are those of all chunks together.

    Errors: as of :func:`~rackmath.engine.estimate`.
    """
    new_tokens = maximum(context - cached_tokens, 1.0)
    chunks = ceiling(new_tokens / chunk)
    per_chunk = new_tokens / chunks
    before = cached_tokens + per_chunk * (chunks - 1) / 2
    middle = estimate(
        architecture,
        system,
        layout,
        batch=batch,
        context=before + per_chunk,
        cached_tokens=before,
        phase="prefill",
        piece=piece,
        two_batch=two_batch,
        losses=losses,
    )
    sequences = held_sequences(batch * 1.0, layout)
    filling = minimum(sequences, layout.pipeline) * pieces_of(per_chunk, piece)
    factor = (filling * chunks + layout.pipeline - 1) / (filling + layout.pipeline - 1)
    whole = memory(architecture, layout, sequences, context * 1.0, 0.0, system.chip.usable_memory)

    def times_factor(seconds: Mapping[str, Number]) -> dict[str, Number]:
        return {name: value * factor for name, value in seconds.items()}

    return replace(
        middle,
        **{name: getattr(middle, name) * factor for name in TIME_FIELDS},
        terms=times_factor(middle.terms),
        lost=times_factor(middle.lost),
        busy=times_factor(middle.busy),
        tokens=middle.tokens * chunks,
        memory=replace(middle.memory, cache=whole.cache),
    )
