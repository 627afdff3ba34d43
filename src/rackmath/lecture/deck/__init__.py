"""All cards, chapter by chapter."""

from rackmath.lecture.card import Card
from rackmath.lecture.deck import (
    agents,
    batch,
    ciphers,
    collectives,
    context,
    departures,
    errors,
    kernels,
    load,
    memory,
    pipelines,
    prices,
    rack,
    tiers,
    training,
)

CARDS: tuple[Card, ...] = (
    *batch.CARDS,
    *departures.CARDS,
    *context.CARDS,
    *rack.CARDS,
    *collectives.CARDS,
    *pipelines.CARDS,
    *memory.CARDS,
    *kernels.CARDS,
    *load.CARDS,
    *training.CARDS,
    *prices.CARDS,
    *tiers.CARDS,
    *agents.CARDS,
    *ciphers.CARDS,
    *errors.CARDS,
)
"""Cards of the quiz, in the order of the book."""
