"""Figures -> PNG and SVG by Matplotlib. No browser."""

from __future__ import annotations

import tempfile
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from rackmath.figures.record import COLOURS, Figure, Panel, Series

_WIDE, _HIGH = 8.5, 5.0
_LETTERS = 18
"""Letters of a note per inch."""
_AIR = 0.08
_TICKS = 90
"""Letters of all names that stand side by side under a panel."""
_CROWDED = 7
"""Names that stand side by side in full size."""


def write_still(figure: Figure, path: Path) -> None:
    """Draw all panels into a file of the path's suffix."""
    import matplotlib as mpl

    mpl.use("agg")
    # The same figure is the same file: no random names, no date.
    mpl.rcParams.update({"svg.hashsalt": "rackmath", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot as plt

    wide = _WIDE if len(figure.panels) == 1 else _WIDE * 1.35
    rows, columns = figure.grid
    high = _HIGH if rows == 1 else 0.8 * _HIGH * rows
    canvas, axes = plt.subplots(rows, columns, figsize=(wide, high), squeeze=False, layout="constrained")
    places = list(axes.flat)
    for axis, panel in zip(places, figure.panels, strict=False):
        _draw(axis, panel)
        names = axis.get_legend_handles_labels()[1]
        if names and any(s.kind in ("bars", "horizontal") for s in panel.series):
            _names_over(axis, len(names), 5 if len(figure.panels) == 1 else 4)
        elif names:
            axis.legend(frameon=False, fontsize=8)
    for axis in places[len(figure.panels) :]:
        axis.set_visible(False)
    canvas.suptitle(figure.title, fontsize=11, fontweight="bold", x=0.01, ha="left")
    if figure.note:
        lines = textwrap.fill(figure.note, round(_LETTERS * wide))
        canvas.supxlabel(lines, fontsize=7, color="#555555", x=0.01, ha="left")
    metadata = {"Date": None} if path.suffix == ".svg" else None
    canvas.savefig(path, dpi=160, metadata=metadata)
    plt.close(canvas)


def svg_text(figure: Figure) -> str:
    """A figure as SVG, to stand inside a page of HTML."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "figure.svg"
        write_still(figure, out)
        text = out.read_text(encoding="utf-8")
    return text[text.index("<svg") :]


def _colour(s: Series, place: int) -> str:
    return COLOURS[(place if s.colour is None else s.colour) % len(COLOURS)]


def _names_over(axis: Any, count: int, columns: int) -> None:
    """Write what names bars, which fill a panel, between it and its title."""
    axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, frameon=False, fontsize=8, borderaxespad=0.1)
    axis.set_title(axis.get_title(loc="left"), fontsize=9, loc="left", pad=8 + 14 * -(-count // columns))


def _mark(axis: Any, s: Series, colour: str) -> None:
    """Draw a series that does not stand on others, with its range."""
    label = s.name if s.named else None
    if s.kind == "line":
        axis.plot(s.x, s.y, label=label, color=colour, linewidth=1.6)
    elif s.kind == "mark":
        axis.scatter(s.x, s.y, label=label, color=colour, marker="*", s=160, zorder=3)
    else:
        axis.scatter(s.x, s.y, label=label, color=colour, s=26)
    if len(s.low) and s.kind == "points":
        around = np.abs(np.array([s.low, s.high]) - np.asarray(s.y))
        axis.errorbar(s.x, s.y, yerr=around, fmt="none", ecolor=colour, elinewidth=1, capsize=2)
    elif len(s.low):
        axis.fill_between(list(s.x), list(s.low), list(s.high), color=colour, alpha=0.15, linewidth=0)


def _draw(axis: Any, panel: Panel) -> None:
    if panel.order:
        axis.barh(list(panel.order), np.zeros(len(panel.order)))
    base = np.zeros(max((len(s.x) for s in panel.series if s.kind == "bars"), default=0))
    for i, s in enumerate(panel.series):
        if s.kind == "bars":
            axis.bar(
                list(s.x), list(s.y), bottom=base, label=s.name if s.named else None, color=_colour(s, i), width=0.65
            )
            base = base + np.asarray(s.y)
        elif s.kind == "horizontal":
            begins = {"left": list(s.start)} if len(s.start) else {}
            axis.barh(
                list(s.x), list(s.y), label=s.name if s.named else None, color=_colour(s, i), height=0.65, **begins
            )
        else:
            _mark(axis, s, _colour(s, i))
        if panel.show_labels:
            for x, y, text in zip(s.x, s.y, s.labels, strict=False):
                axis.annotate(text, (x, y), xytext=(5, -3), textcoords="offset points", fontsize=7)
    if panel.title:
        axis.set_title(panel.still_title, fontsize=9, loc="left")
    if panel.is_horizontal:
        axis.set(xlabel=panel.up, ylabel=panel.across)
        axis.invert_yaxis()
    else:
        _axes(axis, panel)
    axis.grid(visible=True, color="#dddddd", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _axes(axis: Any, panel: Panel) -> None:
    from rackmath.figures.powers import write_powers

    axis.set(xlabel=panel.across, ylabel=panel.up)
    if panel.log_across:
        axis.set_xscale("log")
        write_powers(axis.xaxis)
        # Under two powers of ten Matplotlib writes digits between them, which would run into each other.
        axis.tick_params(axis="x", which="minor", labelsize=6, labelrotation=45)
    if panel.log_up:
        axis.set_yscale("log")
        write_powers(axis.yaxis)
    elif panel.series:
        axis.set_ylim(bottom=0, top=axis.dataLim.y1 * (1 + _AIR) if axis.dataLim.y1 > 0 else None)
    names = list(dict.fromkeys(x for s in panel.series for x in s.x if isinstance(x, str)))
    if len(names) > _CROWDED:
        axis.tick_params(axis="x", labelsize=6, labelrotation=0 if len(names) <= 2 * _CROWDED else 90)
    elif names:
        axis.set_xticks(range(len(names)), [textwrap.fill(name, round(_TICKS / len(names))) for name in names])
