"""Figures -> what Plotly draws: plain values for pages, figures for files and notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rackmath.figures.record import COLOURS, Figure, Panel, Series

_HIGH = 420
"""Of a row of panels. [px]"""


def plotly_figure(figure: Figure) -> Any:
    """A whole figure, panels in a grid, as :class:`plotly.graph_objects.Figure`."""
    from plotly.subplots import make_subplots

    rows, columns = figure.grid
    out: Any = make_subplots(rows=rows, cols=columns, subplot_titles=[panel.title for panel in figure.panels])
    for place, panel in enumerate(figure.panels):
        at = {"row": place // columns + 1, "col": place % columns + 1}
        first = len(out.data)
        for trace in traces(panel):
            out.add_trace(trace, **at)
        if panel.moments:
            out.update_layout(sliders=[_slider(panel, list(range(first, len(out.data))))])
        across, up = axes(panel)
        out.update_xaxes(across, **at)
        out.update_yaxes(up, **at)
    if rows > 1:
        out.update_layout(height=_HIGH * rows)
    out.update_layout(
        title={"text": figure.title, "subtitle": {"text": figure.note}},
        barmode=bar_mode(figure.panels) or "stack",
        template="plotly_white",
        legend={"orientation": "h", "y": -0.2},
    )
    return out


def _slider(panel: Panel, trace_places: Sequence[int]) -> dict[str, Any]:
    """A slider over the moments of a panel, whose bars are the traces ``trace_places``."""
    steps = [
        {
            "label": moment.label,
            "method": "restyle",
            "args": [{"y": [_plain(v) for v in moment.values]}, list(trace_places)],
        }
        for moment in panel.moments
    ]
    return {"active": panel.moment, "currentvalue": {"prefix": f"{panel.title}: "}, "steps": steps, "pad": {"t": 60}}


def moments(panel: Panel) -> list[dict[str, Any]]:
    """The moments of a panel as plain values, for pages that bring their own slider."""
    return [{"label": m.label, "values": [_plain(values) for values in m.values]} for m in panel.moments]


def bar_mode(panels: Sequence[Panel]) -> str | None:
    """How bars stand: one over the other where they say where they begin, stacked, or None where there are none."""
    if any(panel.order for panel in panels):
        return "overlay"
    return "stack" if any(s.kind == "bars" for panel in panels for s in panel.series) else None


def axes(panel: Panel) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both axes of a panel."""
    # Names that look like numbers, of accelerators or batches, stand beside each other as others do.
    of_names = "category" if any(len(s.x) and isinstance(s.x[0], str) for s in panel.series) else "-"
    if panel.is_horizontal:
        names = {"type": of_names, "title": {"text": panel.across}, "autorange": "reversed", "automargin": True}
        # Every name is written, however many there are.
        order = {"categoryorder": "array", "categoryarray": list(panel.order), "dtick": 1} if panel.order else {}
        return {"title": {"text": panel.up}}, names | order
    across = {"type": "log" if panel.log_across else of_names, "title": {"text": panel.across}}
    up: dict[str, Any] = {"type": "log" if panel.log_up else "-", "title": {"text": panel.up}}
    if panel.moments:
        # The same scale at all times, for stacked bars.
        top = max(float(np.sum(moment.values, axis=0).max()) for moment in panel.moments)
        return across, up | {"range": [0, 1.05 * max(top, 1.0)]}
    if not panel.log_up:
        up["rangemode"] = "tozero"
    return across, up


def traces(panel: Panel) -> list[dict[str, Any]]:
    """All series of a panel; a range around a line is a band behind it."""
    rows: list[dict[str, Any]] = []
    for i, s in enumerate(panel.series):
        colour = COLOURS[(i if s.colour is None else s.colour) % len(COLOURS)]
        if s.kind == "line" and len(s.low):
            rows += _band(s, colour)
        rows.append(_trace(s, colour))
    return rows


def _band(s: Series, colour: str) -> list[dict[str, Any]]:
    edge = {"type": "scatter", "mode": "lines", "x": _plain(s.x), "line": {"width": 0, "color": colour}}
    hidden = {"hoverinfo": "skip", "showlegend": False}
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return [
        edge | hidden | {"name": f"{s.name}: low", "y": _plain(s.low)},
        edge
        | hidden
        | {
            "name": f"{s.name}: high",
            "y": _plain(s.high),
            "fill": "tonexty",
            "fillcolor": f"rgba({red},{green},{blue},0.15)",
        },
    ]


def _trace(s: Series, colour: str) -> dict[str, Any]:
    text = list(s.labels)
    common: dict[str, Any] = {"name": s.name, "x": _plain(s.x), "y": _plain(s.y), "showlegend": s.named}
    if s.kind == "bars":
        return common | {"type": "bar", "marker": {"color": colour}, **({"hovertext": text} if text else {})}
    if s.kind == "horizontal":
        lying = {"type": "bar", "orientation": "h", "x": _plain(s.y), "y": _plain(s.x), "marker": {"color": colour}}
        # Bars that say where they begin are not stacked.
        begins = {"base": _plain(s.start)} if len(s.start) else {}
        return common | lying | begins | ({"hovertext": text, "hoverinfo": "text"} if text else {})
    trace = common | {
        "type": "scatter",
        "mode": "lines" if s.kind == "line" else "markers",
        "marker": {"color": colour, **({"size": 13, "symbol": "star"} if s.kind == "mark" else {"size": 7})},
        "line": {"color": colour},
    }
    if text:
        trace |= {"text": text, "hovertemplate": "%{text}<br>%{x}, %{y}<extra></extra>"}
    if s.kind != "line" and len(s.low):
        trace["error_y"] = whiskers(s.y, s.low, s.high)
    return trace


def whiskers(values: Sequence[float], low: Sequence[float], high: Sequence[float]) -> dict[str, Any]:
    """A range around each value, along either axis."""
    up, down = np.asarray(high) - np.asarray(values), np.asarray(values) - np.asarray(low)
    ends = {"array": _plain(up), "arrayminus": _plain(down)}
    return {"type": "data", "symmetric": False, **ends, "thickness": 1, "width": 2}


def _plain(values: Any) -> list[Any]:
    """Numbers that JSON has; what is none becomes a gap."""
    array = np.asarray(values)
    if array.dtype.kind != "f":
        return array.tolist()
    finite, plain = np.isfinite(array), array.tolist()
    return plain if finite.all() else [v if ok else None for v, ok in zip(plain, finite.tolist(), strict=True)]
