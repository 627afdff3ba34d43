"""Pictures for readers who block scripts: the same figures as SVG, drawn on the server."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from rackmath.figures import Figure, Panel, Series
from rackmath.figures.still import svg_text

one_at_a_time = threading.Lock()
"""Matplotlib's state is the process's."""
_WIDE, _ROW, _HEAD = 900, 22, 30
"""Of a chart of bars over time. [px]"""


def svg(figures: Sequence[Mapping[str, Any]]) -> str:
    """All pictures of a view as one SVG."""
    if any("base" in trace for figure in figures for trace in figure["data"]):
        return _charts(figures)
    panels = [_panel(figure) for figure in figures]
    with one_at_a_time:
        return svg_text(Figure(title="", panels=panels))


def _charts(figures: Sequence[Mapping[str, Any]]) -> str:
    """Charts of time, one below the other: a rectangle for each bar from its base."""
    parts, top = [], 0
    for figure in figures:
        scale = _WIDE / figure["layout"]["xaxis"]["range"][1]
        rows = 1 + max(max(trace["y"]) for trace in figure["data"])
        parts.append(f'<text x="0" y="{top + 20}" font-family="sans-serif">{escape(figure["title"])}</text>')
        parts += [
            f'<rect x="{base * scale:.2f}" y="{top + _HEAD + _ROW * row}" width="{length * scale:.2f}" '
            f'height="{_ROW - 3}" fill="{trace["marker"]["color"]}"/>'
            for trace in figure["data"]
            for base, length, row in zip(trace["base"], trace["x"], trace["y"], strict=True)
        ]
        top += _HEAD + _ROW * rows + 10
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDE}" height="{top}" viewBox="0 0 {_WIDE} {top}">'
        + "".join(parts)
        + "</svg>"
    )


def _panel(facts: Mapping[str, Any]) -> Panel:
    axes = facts["layout"]
    is_horizontal = any(trace.get("orientation") == "h" for trace in facts["data"])
    # Plotly draws the first of lying bars at the bottom, unless its axis is turned round; ours stands on top.
    upwards = is_horizontal and axes["yaxis"].get("autorange") != "reversed"
    across, up = (axes["yaxis"], axes["xaxis"]) if is_horizontal else (axes["xaxis"], axes["yaxis"])
    return Panel(
        title=facts["title"],
        across=_text(across),
        up=_text(up),
        log_across=across.get("type") == "log",
        log_up=up.get("type") == "log",
        series=[_series(trace, is_horizontal, upwards) for trace in facts["data"] if trace.get("hoverinfo") != "skip"],
    )


def _text(axis: Mapping[str, Any]) -> str:
    return str(axis.get("title", {}).get("text", ""))


def _series(trace: Mapping[str, Any], is_horizontal: bool, upwards: bool) -> Series:
    x, y = (trace["y"], trace["x"]) if is_horizontal else (trace["x"], trace["y"])
    marker = trace.get("marker", {}).get("symbol")
    if trace["type"] == "bar":
        kind = "horizontal" if is_horizontal else "bars"
    else:
        kind = "mark" if marker else "line" if trace.get("mode") == "lines" else "points"
    points = [(a, b) for a, b in zip(x, y, strict=True) if b is not None]
    if upwards:
        points.reverse()
    return Series(
        name=str(trace.get("name", "")),
        x=[a for a, _ in points],
        y=[b for _, b in points],
        kind=kind,
        named=bool(trace.get("showlegend", True)),
    )
