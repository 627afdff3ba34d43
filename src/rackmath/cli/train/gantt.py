"""Gantt charts of schedules: characters for a terminal, pictures for files."""

from __future__ import annotations

import os
import tempfile
from html import escape
from pathlib import Path
from typing import Any

from rackmath.errors import InputError
from rackmath.training.pipelines import Timeline
from rackmath.training.pipelines.order import LETTERS

_WIDE = 100
_MOST = 30_000
"""Operations that a picture can show."""
COLOURS = ("#5b8fd1", "#e0a458", "#7ab67a", "#c97b52", "#8d6fb0")
NAMES = ("forward", "gradient of inputs", "gradient of weights", "both gradients", "forward beside backward")


def gantt_lines(timeline: Timeline) -> list[str]:
    """One line per rank: what it does for most of each cell, a dot where it waits."""
    start = min(begin[0] for begin in timeline.start if begin)
    cell = timeline.makespan / _WIDE
    lines: list[str] = []
    for rank, operations in enumerate(timeline.order.operations):
        busy = [[0.0] * len(LETTERS) for _ in range(_WIDE)]
        for (kind, *_), begin, end in zip(operations, timeline.start[rank], timeline.end[rank], strict=True):
            first, last = (begin - start) / cell, (end - start) / cell
            for place in range(int(first), min(int(last) + 1, _WIDE)):
                busy[place][kind] += min(last, place + 1) - max(first, place)
        lines.append(f"{rank:3} " + "".join(_letter(parts) for parts in busy))
    return lines


def _letter(parts: list[float]) -> str:
    idle = 1 - sum(parts)
    most = max(parts)
    return "." if idle > most or most <= 0 else LETTERS[parts.index(most)]


def save_gantt(timeline: Timeline, path: Path) -> None:
    """Write the chart; the file appears whole or not at all.

    Errors: :class:`InputError` for more operations than a picture can show.
    """
    many = sum(len(operations) for operations in timeline.order.operations)
    if many > _MOST:
        raise InputError("--plot", many, f"operations are more than a picture shows, {_MOST:,}: take fewer")
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".svg" if path.suffix == ".html" else path.suffix)
    os.close(handle)
    target = Path(name)
    try:
        _draw(timeline, target)
        if path.suffix == ".html":
            text = target.read_text(encoding="utf-8")
            target.write_text(_page(timeline, text[text.index("<svg") :]), encoding="utf-8")
        target.chmod(0o644)
        target.replace(path)
    finally:
        target.unlink(missing_ok=True)


def _page(timeline: Timeline, picture: str) -> str:
    title = escape(f"{timeline.order.name}: {timeline.order.ranks} stages, {timeline.order.microbatches} micro-batches")
    head = f'<meta charset="utf-8"><title>{title}</title><style>svg {{ width: 100%; height: auto; }}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{picture}</body></html>\n'


def _draw(timeline: Timeline, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    mpl.rcParams.update({"svg.hashsalt": "rackmath", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot as plt

    ranks = timeline.order.ranks
    figure, axis = plt.subplots(figsize=(12, 1.4 + 0.3 * ranks), layout="constrained")
    colours: dict[int, Any] = {}
    for rank, operations in enumerate(timeline.order.operations):
        for kind in sorted({op[0] for op in operations}):
            bars = [
                (start, end - start)
                for op, start, end in zip(operations, timeline.start[rank], timeline.end[rank], strict=True)
                if op[0] == kind
            ]
            colours[kind] = axis.broken_barh(
                bars, (rank - 0.4, 0.8), facecolors=COLOURS[kind], edgecolor="white", linewidth=0.4
            )
    axis.set_ylim(ranks - 0.4, -0.6)
    axis.set_yticks(range(ranks))
    axis.set_xlabel("time")
    axis.set_ylabel("rank")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(
        [colours[kind] for kind in sorted(colours)],
        [NAMES[kind] for kind in sorted(colours)],
        frameon=False,
        fontsize=8,
        ncols=len(colours),
        loc="lower left",
        bbox_to_anchor=(0, 1),
    )
    axis.set_title(
        f"{timeline.order.name}: bubble {timeline.bubble_makespan:.1%} of the makespan,"
        f" {timeline.bubble_longest_span:.1%} of the longest span",
        loc="right",
        fontsize=10,
    )
    figure.savefig(path, dpi=160, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
