"""The common result: what a command prints as JSON, what it draws, and what its text needs beside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from rackmath.api.plain import to_plain
from rackmath.api.shown import Shown
from rackmath.errors import InputError
from rackmath.figures import Figure
from rackmath.figures.plotly import plotly_figure


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Result(Shown):
    """Answer to a request whose numbers are best read by their names."""

    request: Any
    facts: Any
    """What the command prints with ``--json``: a mapping or a list of them; arrays stay arrays."""
    draw: Callable[[], Figure] | None = None
    """Its picture as data; None where there is none."""
    details: Any = None
    """Records behind the facts, where a door shows more than them."""

    @property
    def assumptions(self) -> list[str]:
        """What a reader has to know of the numbers, where it is said."""
        facts: Any = self.facts
        return list(facts.get("assumptions", ())) if hasattr(facts, "get") else []

    def to_dict(self) -> Any:
        """What the command prints with ``--json``."""
        return to_plain(self.facts)

    def picture(self) -> Figure:
        """Its picture as data.

        Errors: :class:`~rackmath.errors.InputError` where the request has none.
        """
        if self.draw is None:
            raise InputError("figure", type(self.request).__name__, "nothing is drawn for this request")
        return self.draw()

    def figure(self) -> Any:
        """Its picture as a figure of Plotly."""
        return plotly_figure(self.picture())

    def _tables(self) -> list[tuple[str, dict[str, Any]]]:
        facts: Any = self.to_dict()
        rows = cast("list[Any]", facts) if isinstance(facts, list) else [facts]
        title = type(self.request).__name__.removesuffix("Request").lower()
        return [(title, row) for row in rows]
