"""Accuracy: every published measurement against what was predicted without its model on its chip."""

from __future__ import annotations

import csv
from collections import Counter
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

import numpy as np

from rackmath.api.plain import to_plain
from rackmath.errors import DoesNotFit
from rackmath.figures import COLOURS
from rackmath.web.inputs import Inputs, choice
from rackmath.web.shown import Shown, Table, View

_CLASSES = (
    "time per token",
    "throughput",
    "full load",
    "server",
    "training",
    "decode pass",
    "prompt pass",
    "first token",
    "latency",
    "at once",
)
_MARK = 0.015
"""Width of a mark: rows of a class that would cover each other are drawn once. [decades]"""
_FEWEST = 4
"""Rows of a group that is listed."""


@lru_cache(maxsize=1)
def rows() -> list[dict[str, str]]:
    """Measured and predicted values, with what a viewer may filter by."""
    with files("rackmath.data").joinpath("accuracy.csv").open(encoding="utf-8") as lines:
        next(lines)
        return list(csv.DictReader(lines))


def _names(column: str) -> tuple[str, ...]:
    return ("", *(name for name, _ in Counter(row[column] for row in rows()).most_common()))


class Accuracy(Inputs):
    """Which rows."""

    kind: Literal[("", *_CLASSES)] = choice("", "question")  # type: ignore[valid-type]
    chip: Literal[_names("chip")] = choice("", "chip")  # type: ignore[valid-type]
    model: Literal[_names("model")] = choice("", "model")  # type: ignore[valid-type]
    engine: Literal[_names("engine")] = choice("", "engine")  # type: ignore[valid-type]
    group: Literal["chip", "model", "engine", "class"] = choice("chip", "table by")


def accuracy(i: Accuracy) -> Shown:
    """Predicted against measured, and the errors."""
    wanted = {"class": i.kind, "chip": i.chip, "model": i.model, "engine": i.engine}
    chosen = [row for row in rows() if all(not value or row[column] == value for column, value in wanted.items())]
    if not chosen:
        raise DoesNotFit("no row is of all these", "leave one of them open")
    measured, predicted = (np.array([float(row[key]) for row in chosen]) for key in ("measured", "predicted"))
    error = predicted / measured - 1
    return Shown(
        figures=[_scatter(chosen, measured, predicted), _histogram(error)],
        pairs=[
            ("rows", f"{len(chosen):,}"),
            ("median error", f"{np.median(np.abs(error)):.1%}"),
            ("90th percentile", f"{np.quantile(np.abs(error), 0.9):.0%}"),
            ("bias", f"{np.median(error):+.1%}"),
        ],
        tables=[_groups(chosen, error, i.group)],
        facts=to_plain({"rows": len(chosen), "median": np.median(np.abs(error)), "bias": np.median(error)}),
        command="rackmath predict measured.csv --out predicted.csv",
        notes=["every row is predicted by constants that never saw its model on its chip"],
    )


def _scatter(chosen: list[dict[str, str]], measured: Any, predicted: Any) -> dict[str, Any]:
    data: list[dict[str, Any]] = []
    for name in _CLASSES:
        mine = np.array([k for k, row in enumerate(chosen) if row["class"] == name], dtype=int)
        if len(mine):
            # Times and rates of a class on one scale: over its median.
            middle = float(np.median(measured[mine]))
            cells = np.round(np.log10([measured[mine], predicted[mine]]) / _MARK)
            _, first, counts = np.unique(cells, axis=1, return_index=True, return_counts=True)
            at = mine[first]
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": name,
                    "x": [float(v) for v in measured[at] / middle],
                    "y": [float(v) for v in predicted[at] / middle],
                    "text": [_label(chosen[k], int(n) - 1) for k, n in zip(at, counts, strict=True)],
                    "hovertemplate": "%{text}<extra></extra>",
                    "marker": {"size": 5, "opacity": 0.5},
                }
            )
    ends = [min(min(row["x"]) for row in data), max(max(row["x"]) for row in data)]
    line = {"type": "scatter", "mode": "lines", "name": "equal", "x": ends, "y": ends, "line": {"color": "#888888"}}
    return {
        "title": "predicted against measured, over the median of the class",
        "data": [line, *data],
        "layout": {
            "xaxis": {"type": "log", "title": {"text": "measured"}},
            "yaxis": {"type": "log", "title": {"text": "predicted"}},
        },
    }


def _label(row: dict[str, str], more: int) -> str:
    values = f"{row['measured']} measured, {row['predicted']} predicted, {row['unit']}"
    beside = f"<br>and {more:,} beside it" if more else ""
    return f"{row['id']}: {row['model']} on {row['chip']}, {row['engine']}<br>{values}{beside}"


def _histogram(error: Any) -> dict[str, Any]:
    edges = np.linspace(-1.0, 1.5, 51)
    counts, _ = np.histogram(np.clip(error, -1.0, 1.5), edges)
    return {
        "title": "errors; the last bar holds all above",
        "data": [
            {
                "type": "bar",
                "name": "rows",
                "showlegend": False,
                "x": [float(v) * 100 for v in (edges[:-1] + edges[1:]) / 2],
                "y": counts.tolist(),
                "marker": {"color": COLOURS[0]},
            }
        ],
        "layout": {
            "xaxis": {"title": {"text": "predicted over measured, less one [%]"}},
            "yaxis": {"title": {"text": "rows"}},
        },
    }


def _groups(chosen: list[dict[str, str]], error: Any, column: str) -> Table:
    names = np.array([row[column] for row in chosen])
    size = np.abs(error)
    groups = [
        (
            name,
            count,
            np.median(size[names == name]),
            np.quantile(size[names == name], 0.9),
            np.median(error[names == name]),
        )
        for name, count in Counter(names.tolist()).most_common()
        if count >= _FEWEST
    ]
    return Table(
        title=f"by {column}",
        columns=[column, ">rows", ">median", ">p90", ">bias"],
        rows=[(n, f"{c:,}", f"{m:.1%}", f"{p:.0%}", f"{b:+.1%}") for n, c, m, p, b in groups],
    )


def views() -> list[View]:
    """One: the public record."""
    return [
        View(
            name="accuracy",
            title="Measured against predicted",
            about="Published rows, filtered as you like.",
            inputs=Accuracy,
            answer=accuracy,
        ),
    ]
