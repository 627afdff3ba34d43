"""Accuracy: every published measurement against what was predicted without its model on its chip."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rackmath.api.plain import to_plain
from rackmath.errors import DoesNotFit
from rackmath.figures import COLOURS
from rackmath.web.inputs import Inputs, choice
from rackmath.web.shown import PageContent, Table, View

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
_COLOURS = (*COLOURS, "#a8703c", "#5e6bbd")
"""One for each class."""
_MARK = 0.015
"""Least width of a mark: rows of a class that would cover each other are drawn once. [decades]"""
_MARKS = 250
"""Marks that a browser draws while a hand waits; where rows have more, each mark stands for a wider place."""
_WIDER = 1.5
"""Steps of that width."""
_FAR = 10**6
"""More places than any value is away from 1, either way."""
_SMALLEST, _GROWTH = 5, 0.3
"""Of a mark of one row [px], and how marks grow with the rows that they stand for."""
_FEWEST = 4
"""Rows of a group that is listed."""


@dataclass(frozen=True, slots=True)
class _Record:
    """Rows of the report, as columns. (rows,)"""

    text: dict[str, NDArray[np.str_]]
    """What a viewer may filter by, and what a mark is named by."""
    measured: NDArray[np.float64]
    predicted: NDArray[np.float64]

    def where(self, mask: NDArray[np.bool_]) -> _Record:
        """These rows alone."""
        return _Record(
            {name: column[mask] for name, column in self.text.items()}, self.measured[mask], self.predicted[mask]
        )

    @property
    def error(self) -> NDArray[np.float64]:
        """Predicted over measured, less one."""
        return self.predicted / self.measured - 1


@lru_cache(maxsize=1)
def record() -> _Record:
    """Measured and predicted values of the whole report."""
    with files("rackmath.data").joinpath("accuracy.csv").open(encoding="utf-8") as lines:
        next(lines)
        rows = list(csv.DictReader(lines))
    values = (np.array([float(row[name]) for row in rows]) for name in ("measured", "predicted"))
    return _Record({name: np.array([row[name] for row in rows]) for name in rows[0]}, *values)


def _names(column: str) -> tuple[str, ...]:
    return ("", *(name for name, _ in Counter(record().text[column].tolist()).most_common()))


class AccuracyInputs(Inputs):
    """Which rows."""

    kind: Literal[("", *_CLASSES)] = choice("", "question")  # type: ignore[valid-type]
    chip: Literal[_names("chip")] = choice("", "chip")  # type: ignore[valid-type]
    model: Literal[_names("model")] = choice("", "model")  # type: ignore[valid-type]
    engine: Literal[_names("engine")] = choice("", "engine")  # type: ignore[valid-type]
    group: Literal["chip", "model", "engine", "class"] = choice("chip", "table by")


def accuracy(i: AccuracyInputs) -> PageContent:
    """Predicted against measured, and the errors."""
    filters = {"class": i.kind, "chip": i.chip, "model": i.model, "engine": i.engine}
    conditions = [record().text[column] == value for column, value in filters.items() if value]
    selection = record().where(np.logical_and.reduce(conditions)) if conditions else record()
    error = selection.error
    if not len(error):
        raise DoesNotFit("no row is of all these", "leave one of them open")
    return PageContent(
        figures=[_scatter(selection), _histogram(error)],
        pairs=[
            ("rows", f"{len(error):,}"),
            ("median error", f"{np.median(np.abs(error)):.1%}"),
            ("90th percentile", f"{np.quantile(np.abs(error), 0.9):.0%}"),
            ("bias", f"{np.median(error):+.1%}"),
        ],
        tables=[_groups(selection.text[i.group], error, i.group)],
        facts=to_plain({"rows": len(error), "median": np.median(np.abs(error)), "bias": np.median(error)}),
        command="rackmath predict measured.csv --out predicted.csv",
        notes=["every row is predicted by constants that never saw its model on its chip"],
    )


def _places(points: _Record, classes: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first row of each place, and how many rows share it: at most so many that a browser draws them at once."""
    width, logarithms = _MARK, np.log10([points.measured, points.predicted])
    while True:
        across, up = np.round(logarithms / width).astype(np.int64) + _FAR
        _, first, counts = np.unique(
            (across * 2 * _FAR + up) * len(_CLASSES) + classes, return_index=True, return_counts=True
        )
        if len(first) <= _MARKS:
            return first, counts
        width *= _WIDER


def _scatter(points: _Record) -> dict[str, Any]:
    classes = np.array([_CLASSES.index(name) for name in points.text["class"].tolist()])
    first, counts = _places(points, classes)
    data: list[dict[str, Any]] = []
    for place, name in enumerate(_CLASSES):
        of_class = classes[first] == place
        if of_class.any():
            # Times and rates of a class on one scale: over its median.
            middle, at = float(np.median(points.measured[classes == place])), first[of_class]
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": name,
                    "x": (points.measured[at] / middle).tolist(),
                    "y": (points.predicted[at] / middle).tolist(),
                    "text": [
                        _label(points, k, n - 1) for k, n in zip(at.tolist(), counts[of_class].tolist(), strict=True)
                    ],
                    "hovertemplate": "%{text}<extra></extra>",
                    "marker": {
                        "size": np.round(_SMALLEST * counts[of_class] ** _GROWTH, 1).tolist(),
                        "opacity": 0.5,
                        "color": _COLOURS[place],
                    },
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


def _label(points: _Record, k: int, more: int) -> str:
    row = {name: column[k] for name, column in points.text.items()}
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


def _groups(names: NDArray[np.str_], error: NDArray[np.float64], column: str) -> Table:
    rows: list[tuple[str, ...]] = []
    for name, count in Counter(names.tolist()).most_common():
        if count < _FEWEST:
            break
        of_group = error[names == name]
        middle, high = np.quantile(np.abs(of_group), (0.5, 0.9))
        rows.append((name, f"{count:,}", f"{middle:.1%}", f"{high:.0%}", f"{np.median(of_group):+.1%}"))
    return Table(title=f"by {column}", columns=[column, ">rows", ">median", ">p90", ">bias"], rows=rows)


def views() -> list[View]:
    """One: the public record."""
    return [
        View(
            name="accuracy",
            title="Measured against predicted",
            about="Published rows, filtered as you like.",
            inputs=AccuracyInputs,
            answer=accuracy,
        ),
    ]
