"""What a command shows, kept instead of shown: how pages and notebooks put the same questions."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Answer:
    """JSON and picture of one command."""

    facts: Any = None
    """What ``--json`` prints, as values."""
    figure: Any = None
    """What ``--plot`` draws: a :class:`~rackmath.figures.Figure`, or the timeline of a Gantt chart."""


CURRENT: ContextVar[Answer | None] = ContextVar("CURRENT", default=None)
"""The answer that is being collected here; None where commands print and write."""
