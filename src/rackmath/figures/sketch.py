"""Figures in characters: the same data as in HTML, for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rackmath.figures.record import Figure, Panel, Series
from rackmath.units import show

WIDE, HIGH = 70, 16
_MARKS = "*o+x#%&$"
_BAR = 48


def sketched(figure: Figure) -> list[str]:
    """Lines of text that draw a figure; ranges are left out."""
    lines: list[str] = []
    for panel in figure.panels:
        if panel.is_horizontal:
            lines += _waterfall(panel) if panel.order else _lying(panel)
            continue
        bars = [s for s in panel.series if s.kind == "bars"]
        lines += _bars(panel, bars) if bars else _points(panel)
    return lines


def _points(panel: Panel) -> list[str]:
    curves = [s for s in panel.series if len(s.x)]
    if not curves:
        return []
    across, up = _scale(panel.log_across), _scale(panel.log_up)
    x = [across(np.asarray(s.x, dtype=float)) for s in curves]
    y = [up(np.asarray(s.y, dtype=float)) for s in curves]
    left, right = _ends(x, panel.log_across)
    low, high = _ends(y, panel.log_up)
    grid = [[" "] * (WIDE + 1) for _ in range(HIGH + 1)]
    for i, s in enumerate(curves):
        mark = "@" if s.kind == "mark" else _mark(panel.series, s)
        columns, rows = _densified(x[i], y[i], s.kind == "line")
        at = np.round(WIDE * (columns - left) / (right - left)).astype(int)
        down = HIGH - np.round(HIGH * (rows - low) / (high - low)).astype(int)
        for column, row in zip(at.tolist(), down.tolist(), strict=True):
            grid[row][column] = mark
    value: Callable[[float], float] = (lambda v: float(10**v)) if panel.log_up else (lambda v: v)
    lines = [f"  up: {panel.up}{' (log)' if panel.log_up else ''}"]
    for i, row in enumerate(grid):
        label = show(value(high - (high - low) * i / HIGH)) if i % 4 == 0 else ""
        lines.append(f"  {label:>9} |{''.join(row)}".rstrip())
    first, last = ((10**v if panel.log_across else v) for v in (left, right))
    scale = f"{show(float(first))}{'':4}{panel.across}{' (log)' if panel.log_across else ''}"
    lines.append(f"  {'':>9} +{'-' * WIDE}")
    lines.append(f"  {'':>10} {scale}{show(float(last)):>{max(WIDE - len(scale), 1)}}")
    with_names = [s for s in curves if s.named]
    if len(with_names) > 1:
        lines += [f"  {'':>10} {'@' if s.kind == 'mark' else _mark(panel.series, s)} {s.name}" for s in with_names]
    return lines


def _mark(series: Sequence[Series], of: Series) -> str:
    place = [s is of for s in series].index(True) if of.colour is None else of.colour
    return _MARKS[place % len(_MARKS)]


def _scale(logarithmic: bool) -> Callable[[np.ndarray], np.ndarray]:
    return np.log10 if logarithmic else (lambda v: v)


def _ends(values: Sequence[np.ndarray], logarithmic: bool) -> tuple[float, float]:
    """Smallest and largest of all; a linear axis starts at 0."""
    low, high = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
    low = low if logarithmic else min(low, 0.0)
    return low, high if high > low else low + 1.0


def _densified(x: np.ndarray, y: np.ndarray, line: bool) -> tuple[np.ndarray, np.ndarray]:
    """Points between those of a line, so that its characters touch."""
    if not line or len(x) == 1:
        return x, y
    at = np.linspace(0, len(x) - 1, 4 * WIDE)
    return np.interp(at, np.arange(len(x)), x), np.interp(at, np.arange(len(y)), y)


def _bars(panel: Panel, bars: Sequence[Series]) -> list[str]:
    """A stacked bar for each name on the axis, and a bar of its own for each line across."""
    names = [str(x).replace("\n", " ") for x in bars[0].x]
    heights = np.array([s.y for s in bars], dtype=float)
    limits = [s for s in panel.series if s.kind == "line"]
    most = max([float(heights.sum(axis=0).max()), *(float(max(s.y)) for s in limits)]) or 1.0
    width = max(len(name) for name in names + [s.name for s in limits])
    lines = [f"  {panel.up}; across: {panel.across}" if panel.across else f"  {panel.up}"]
    for i, name in enumerate(names):
        bar = "".join(_MARKS[j % len(_MARKS)] * round(_BAR * h / most) for j, h in enumerate(heights[:, i]))
        lines.append(f"  {name:>{width}}  {bar} {show(float(heights[:, i].sum()))}")
    lines += [
        f"  {s.name:>{width}}  {'-' * round(_BAR * float(max(s.y)) / most)}| {show(float(max(s.y)))}" for s in limits
    ]
    named_series = [s for s in bars if s.named]
    if len(named_series) > 1:
        lines.append("  " + ", ".join(f"{_MARKS[j % len(_MARKS)]} {s.name}" for j, s in enumerate(named_series)))
    return lines


def _lying(panel: Panel) -> list[str]:
    """A bar for each name, to the right of the middle where it is above zero, to the left where it is below."""
    lines = [f"  {panel.title or panel.up}"]
    for s in panel.series:
        most = max((abs(float(y)) for y in s.y), default=0.0) or 1.0
        width, half = max((len(str(x)) for x in s.x), default=0), _BAR // 2
        for name, y in zip(s.x, s.y, strict=True):
            length = round(half * abs(float(y)) / most)
            left, right = ("", "#" * length) if y >= 0 else ("#" * length, "")
            lines.append(f"  {name!s:>{width}}  {left:>{half}}|{right:<{half}} {float(y):+.3g}")
    return lines


def _waterfall(panel: Panel) -> list[str]:
    """A line for each name; every series' bar begins where it says, in marks of its own."""
    most = max(start + y for s in panel.series for start, y in zip(s.start, s.y, strict=True)) or 1.0
    width = max(len(name) for name in panel.order)
    lines = [f"  {panel.title}, {panel.up}"]
    for name in panel.order:
        bar, total = [" "] * (_BAR + 1), 0.0
        for j, s in enumerate(panel.series):
            for x, y, start in zip(s.x, s.y, s.start, strict=True):
                if x == name:
                    left, right = (round(_BAR * at / most) for at in (start, start + y))
                    bar[left:right] = _MARKS[j % len(_MARKS)] * (right - left)
                    total += y
        lines.append(f"  {name:>{width}}  {''.join(bar).rstrip()} {total:.3g}")
    lines.append("  " + ", ".join(f"{_MARKS[j % len(_MARKS)]} {s.name}" for j, s in enumerate(panel.series)))
    return lines
