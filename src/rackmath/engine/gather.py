"""From a point (batch, context, widths) to the ideal work of its passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from rackmath.engine.layout import Layout, as_floats, widths
from rackmath.engine.pass_work import PassWork, pass_work
from rackmath.engine.roofline import held_sequences, local_pass
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number, ceiling, maximum, minimum

_MOST_PIECES = 4
"""Pieces of a prompt in a pass at most: llama.cpp's micro-batches of 512 tokens in its batch of 2,048."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IdealPass:
    """Ideal work of one pass, and how often it runs for the result."""

    work: PassWork
    passes: Number
    """Passes through all stages per result: 1 in decode, the pipeline's fill in prefill.

    A prefill of m micro-batches, each in k pieces, through P stages ends after m k + P - 1 stage times, each of
    1 / (k P) of a pass.
    """
    micro_batches: Number
    """Micro-batches that take turns between attention and accelerators that hold experts only; 1 without such."""
    layout: Layout
    held: Number
    context: Number
    tokens: Number
    """Tokens of one group in the pass. [tokens]"""
    deployment_tokens: Number
    """Tokens of the whole deployment. [tokens]"""


def pieces_of(tokens: Number, piece: Number) -> Number:
    """Pieces in which new tokens of a prompt follow each other through the stages of a pipeline. [pieces]

    Parameters
    ----------
    tokens, piece : Number
        New tokens of a prompt, and those of a piece: inf where an engine sends a prompt through whole. [tokens]
    """
    return minimum(maximum(ceiling(tokens / piece), 1.0), _MOST_PIECES)


def gathered(
    a: Architecture, system: System, phase: str, point: Mapping[str, Number], absorbed: bool | None
) -> IdealPass:
    """Gather the ideal work of a pass at ``point``.

    Parameters
    ----------
    point : mapping
        batch, context, cached_tokens, draft_tokens, two_batch, widths; piece where prompts pass stages in pieces.
    """
    layout = as_floats(Layout(**{name: point[name] for name in widths(Layout())}))
    batch, context = point["batch"] * 1.0, point["context"] * 1.0
    sequences = held_sequences(batch, layout)
    local = local_pass(
        phase, batch, context, point["cached_tokens"] * 1.0, layout, absorbed, point["draft_tokens"] * 1.0
    )
    passes: Number = 1.0
    if phase == "prefill":
        pieces = pieces_of(local.new_tokens, point.get("piece", inf))
        passes = (minimum(sequences, layout.pipeline) * pieces + layout.pipeline - 1) / (layout.pipeline * pieces)
    return IdealPass(
        work=pass_work(a, local, layout, system, point["two_batch"]),
        passes=passes,
        micro_batches=minimum(layout.micro_batches, sequences),
        layout=layout,
        held=sequences,
        context=context,
        tokens=local.tokens,
        deployment_tokens=batch * local.new_tokens,
    )
