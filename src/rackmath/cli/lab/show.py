"""An experiment as text, JSON and picture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rackmath.cli import render
from rackmath.errors import InputError
from rackmath.figures import Figure, Panel, Series
from rackmath.figures.write import check_picture, write_figure
from rackmath.units import show

if TYPE_CHECKING:
    from rackmath.lab.experiment import Experiment, ExperimentCurve

_UNITS = {"s", "B", "B/s", "FLOP/s"}

_MOST_ROWS, _APART = 12, 1.4
"""A table of curves that were only measured: rows at most before some are left out, and their ratio then."""


def need_torch() -> None:
    """Refuse where PyTorch is missing."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise InputError("lab", "PyTorch", "is not installed: pip install 'rackmath[lab]'") from error


def deliver(experiment: Experiment, plot: str | None, as_json: bool) -> None:
    """Save the picture, print."""
    picture = check_picture(plot)
    if picture is not None:
        write_figure(figure(experiment), picture)
    if as_json:
        render.show_json(as_data(experiment))
        return
    show_experiment(experiment)


def as_data(experiment: Experiment) -> dict[str, Any]:
    """What JSON holds."""
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "machine": experiment.machine,
        "ceilings": experiment.ceilings,
        "facts": experiment.facts,
        "findings": list(experiment.findings),
        "median_error": experiment.median_error,
        "seconds": experiment.seconds,
        "curves": list(experiment.curves),
    }


def show_experiment(experiment: Experiment) -> None:
    """Tables of measured against predicted, and what they say."""
    render.show_title(f"{experiment.title}: {experiment.machine.text()}")
    for panel, curves in panels(experiment):
        show_panel(panel, curves)
    render.show_lines("what it says", experiment.findings)
    if experiment.ceilings:
        render.show_pairs(
            "ceilings that predictions used",
            [(name, show(value, _unit(name), 4)) for name, value in experiment.ceilings.items()],
        )
    error = experiment.median_error
    tail = "" if error is None else f"; median error of what was predicted {error:.1%}"
    render.show_lines("", [f"{experiment.seconds:.1f} s{tail}"])


def show_panel(title: str, curves: list[ExperimentCurve]) -> None:
    """Measured against predicted; of curves that were only measured, one column for each and a row for each place."""
    first = curves[0]
    if any(len(curve.predicted) or len(curve.low) for curve in curves):
        render.show_table(
            title,
            ["series", f">{first.across}", f">measured, {first.up}", ">10 to 90 %", ">predicted", ">error"],
            [row for curve in curves for row in _rows(curve)],
        )
        return
    values = [dict(zip(curve.x, curve.measured, strict=True)) for curve in curves]
    places = sorted(set[float]().union(*values))
    rows = _thinned(places, set[float](places).intersection(*values))
    omission = "" if len(rows) == len(places) else f"{len(rows)} of {len(places)} rows; --json has all"
    render.show_table(
        f"{title}, {first.up}",
        [f">{first.across}", *(f">{curve.name}" for curve in curves)],
        [(f"{x:,.6g}", *(_number(at[x], first.up) if x in at else "" for at in values)) for x in rows],
        omission,
    )


def _thinned(places: list[float], kept_places: set[float]) -> list[float]:
    """Places to print; of many those that all curves have, each at least 1.4 times the last, and where curves end."""
    if len(places) <= _MOST_ROWS:
        return places
    selection: list[float] = []
    for x in [x for x in places if x in kept_places] or places:
        if not selection or x >= _APART * selection[-1]:
            selection.append(x)
    return sorted({*selection, max(kept_places, default=places[-1]), places[-1]})


def panels(experiment: Experiment) -> Iterator[tuple[str, list[ExperimentCurve]]]:
    """Curves that share axes."""
    for panel in dict.fromkeys(curve.panel for curve in experiment.curves):
        yield panel, [curve for curve in experiment.curves if curve.panel == panel]


def figure(experiment: Experiment) -> Figure:
    """Measured points with their spread, predicted lines."""
    panel_list: list[Panel] = []
    for panel, curves in panels(experiment):
        series: list[Series] = []
        for i, curve in enumerate(curves):
            series.append(
                Series(
                    name=curve.name,
                    x=curve.x,
                    y=curve.measured,
                    kind="points",
                    colour=i,
                    low=curve.low,
                    high=curve.high,
                )
            )
            if len(curve.predicted):
                series.append(
                    Series(
                        name=f"{curve.name}, predicted", x=curve.x, y=curve.predicted, colour=i, named=len(curves) < 3
                    )
                )
        first = curves[0]
        panel_list.append(
            Panel(
                across=first.across,
                up=first.up,
                series=series,
                log_across=first.log_across,
                log_up=first.log_up,
                title=panel,
            )
        )
    return Figure(
        title=f"{experiment.title}, measured (points) and predicted (lines)",
        panels=panel_list,
        note=f"{experiment.machine.text()}; bars from the 10th to the 90th percentile of repeats",
    )


def _rows(curve: ExperimentCurve) -> Iterator[tuple[str, ...]]:
    for i, (x, y) in enumerate(zip(curve.x, curve.measured, strict=True)):
        spread = f"{_number(curve.low[i], curve.up)} to {_number(curve.high[i], curve.up)}" if len(curve.low) else ""
        predicted = _number(curve.predicted[i], curve.up) if len(curve.predicted) else ""
        error = f"{curve.predicted[i] / y - 1:+.0%}" if len(curve.predicted) and y else ""
        yield curve.name, f"{x:,.6g}", _number(y, curve.up), spread, predicted, error


def _number(value: float, unit: str) -> str:
    return show(value, unit) if unit in _UNITS else f"{value:.3g}"


def _unit(name: str) -> str:
    return "FLOP/s" if "rate" in name else "s" if "latency" in name else "B/s"
