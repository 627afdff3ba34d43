"""Cost of an agent's session call by call, as a figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackmath.figures.record import Figure, Panel, Series


def session_figure(facts: Mapping[str, Any]) -> Figure:
    """Cost of a session up to each call, by lever; summaries are calls too."""
    series = [
        Series(name=lever["lever"], x=list(range(1, len(lever["usd_by_call"]) + 1)), y=list(lever["usd_by_call"]))
        for lever in facts["levers"]
    ]
    return Figure(
        title=f"cost of a session with {facts['model']} at {facts['provider']}, by lever",
        panels=[Panel(across="call", up="$ until then", series=series)],
        note="; ".join(facts["assumptions"][:2]),
    )
