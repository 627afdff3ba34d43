"""Pictures for readers who block scripts: the same figures as SVG, drawn on the server."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from rackmath.cli.figures import Figure, Panel, Series, svg_text

_one_at_a_time = threading.Lock()
_NONE = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="400" height="30"><text y="20">drawn by scripts only</text></svg>'
)


def svg(figures: Sequence[Mapping[str, Any]]) -> str:
    """All pictures of a view as one SVG; charts of time with bars from a base are left to scripts."""
    panels = [panel for panel in (_panel(one) for one in figures) if panel is not None]
    if not panels:
        return _NONE
    # Matplotlib's state is the process's.
    with _one_at_a_time:
        return svg_text(Figure(title="", panels=panels))


def _panel(one: Mapping[str, Any]) -> Panel | None:
    if any("base" in trace for trace in one["data"]):
        return None
    axes = one["layout"]
    turned = any(trace.get("orientation") == "h" for trace in one["data"])
    across, up = (axes["yaxis"], axes["xaxis"]) if turned else (axes["xaxis"], axes["yaxis"])
    return Panel(
        title=one["title"],
        across=_text(across),
        up=_text(up),
        log_across=across.get("type") == "log",
        log_up=up.get("type") == "log",
        series=[_series(trace, turned) for trace in one["data"] if trace.get("hoverinfo") != "skip"],
    )


def _text(axis: Mapping[str, Any]) -> str:
    return str(axis.get("title", {}).get("text", ""))


def _series(trace: Mapping[str, Any], turned: bool) -> Series:
    x, y = (trace["y"], trace["x"]) if turned else (trace["x"], trace["y"])
    marker = trace.get("marker", {}).get("symbol")
    kind = (
        "bars" if trace["type"] == "bar" else "mark" if marker else "line" if trace.get("mode") == "lines" else "points"
    )
    known = [(a, b) for a, b in zip(x, y, strict=True) if b is not None]
    return Series(
        name=str(trace.get("name", "")),
        x=[a for a, _ in known],
        y=[b for _, b in known],
        kind=kind,
        named=bool(trace.get("showlegend", True)),
    )
