"""What asks for the time of a pass: serving and training know no other way into the engine."""

from __future__ import annotations

from math import inf
from typing import Protocol

from rackmath.engine.encoding import encoding
from rackmath.engine.layout import Layout
from rackmath.engine.losses import Losses
from rackmath.engine.step import estimate
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number


class Timer(Protocol):
    """Time of one pass of a given phase, layout, batch and context; of phase encode, of images of prompts. [s]"""

    def __call__(
        self,
        phase: str,
        layout: Layout,
        batch: Number,
        context: Number,
        draft_tokens: Number,
        cached_tokens: Number = 0.0,
    ) -> Number:
        """Return seconds, broadcast over the arguments."""
        ...


def engine_timer(
    architecture: Architecture,
    system: System,
    losses: Losses | None,
    two_batch: Number = 0.0,
    draft: Architecture | None = None,
    piece: Number = inf,
) -> Timer:
    """Timer that asks the engine.

    Parameters
    ----------
    losses : Losses, optional
        None for the ideal bound.
    draft : Architecture, optional
        Model whose drafts it verifies.
    piece : Number
        Tokens of the pieces in which prompts pass the stages of a pipeline. [tokens]
    """

    def timed(
        phase: str, layout: Layout, batch: Number, context: Number, draft_tokens: Number, cached_tokens: Number = 0.0
    ) -> Number:
        if phase == "encode":
            return encoding(architecture, system, layout, batch / layout.data, losses).time
        return estimate(
            architecture,
            system,
            layout,
            batch=batch,
            context=context,
            phase=phase,
            draft_tokens=draft_tokens,
            cached_tokens=cached_tokens,
            draft=draft,
            two_batch=two_batch,
            piece=piece,
            losses=losses,
        ).time

    return timed
