"""Figures of the book: what explains a chapter, and what sketches of the quiz are compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from rackmath.errors import InputError
from rackmath.figures import Figure
from rackmath.lecture.drawings import life, serving

_OF_CHAPTERS = (
    serving.batch,
    serving.departures,
    serving.context,
    serving.rack,
    serving.collectives,
    serving.pipelines,
    serving.memory,
    serving.kernels,
    serving.load,
    life.training,
    life.prices,
    life.tiers,
    life.agents,
    life.rounds,
    life.errors,
    life.ledger,
)
DRAWINGS: Mapping[str, Callable[[], Figure]] = MappingProxyType({draw.__name__: draw for draw in _OF_CHAPTERS})
"""Figures that chapters show, by the name of their file."""


def drawing(name: str) -> Figure:
    """Draw a figure of the book.

    Errors: :class:`~rackmath.errors.InputError` for a name that no chapter uses.
    """
    if name not in DRAWINGS:
        raise InputError("figure", name, f"the book has {', '.join(DRAWINGS)}")
    return DRAWINGS[name]()
