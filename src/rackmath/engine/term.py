"""One constant of an engine: its unit, scale and prior, where it applies, and what it may differ by."""

from __future__ import annotations

from dataclasses import dataclass

LOG, PART, FACTOR = "log", "part", "factor"
"""Scales on which a constant moves and never leaves its range: positive, between 0 and 1, at least 1."""

STEP, NETWORK, SERVICE, TRAINING = "step", "network", "service", "training"
"""Where a constant applies: every pass, collectives, the mixing of prompts and answers, training alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One constant of an engine."""

    name: str
    unit: str = "1"
    scale: str
    applies: str
    centre: float
    """Value before any row is seen, in its unit."""
    meaning: str
    width: float = 0.7
    """How far the base value may go, one standard deviation on the inner scale."""
    absent: float = 0.0
    """Value of an engine that loses nothing."""
    spread: float = 0.25
    """How far apart members of an axis may lie before any row is seen, one standard deviation on the inner scale."""
    axes: tuple[str, ...] = ()
    """By what it may differ: generation, family, stage. How far is estimated from the rows."""
