"""An experiment as text, JSON and picture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rackmath.cli import render
from rackmath.cli.figures import Figure, Panel, Series, check_picture, save
from rackmath.errors import InputError
from rackmath.units import show

if TYPE_CHECKING:
    from rackmath.lab.experiment import Curve, Experiment

_UNITS = {"s", "B", "B/s", "FLOP/s"}


def need_torch() -> None:
    """Refuse where PyTorch is missing."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise InputError("lab", "PyTorch", "is not installed: pip install 'rackmath[lab]'") from error


def deliver(found: Experiment, plot: str | None, as_json: bool) -> None:
    """Save the picture, print."""
    drawn = check_picture(plot)
    if drawn is not None:
        save(figure(found), drawn)
    if as_json:
        render.show_json(as_data(found))
        return
    show_experiment(found)


def as_data(found: Experiment) -> dict[str, Any]:
    """What JSON holds."""
    return {
        "experiment": found.name,
        "title": found.title,
        "machine": found.machine,
        "ceilings": found.ceilings,
        "facts": found.facts,
        "findings": list(found.findings),
        "median_error": found.median_error,
        "seconds": found.seconds,
        "curves": list(found.curves),
    }


def show_experiment(found: Experiment) -> None:
    """Tables of measured against predicted, and what they say."""
    render.show_title(f"{found.title}: {found.machine.text()}")
    for panel, curves in panels(found):
        first = curves[0]
        render.show_table(
            panel,
            ["series", f">{first.across}", f">measured, {first.up}", ">10 to 90 %", ">predicted", ">error"],
            [row for curve in curves for row in _rows(curve)],
        )
    render.show_lines("what it says", found.findings)
    if found.ceilings:
        render.show_pairs(
            "ceilings that predictions used",
            [(name, show(value, _unit(name), 4)) for name, value in found.ceilings.items()],
        )
    error = found.median_error
    tail = "" if error is None else f"; median error of what was predicted {error:.1%}"
    render.show_lines("", [f"{found.seconds:.1f} s{tail}"])


def panels(found: Experiment) -> Iterator[tuple[str, list[Curve]]]:
    """Curves that share axes."""
    for panel in dict.fromkeys(curve.panel for curve in found.curves):
        yield panel, [curve for curve in found.curves if curve.panel == panel]


def figure(found: Experiment) -> Figure:
    """Measured points with their spread, predicted lines."""
    drawn: list[Panel] = []
    for panel, curves in panels(found):
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
        drawn.append(
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
        title=f"{found.title}, measured (points) and predicted (lines)",
        panels=drawn,
        note=f"{found.machine.text()}; bars from the 10th to the 90th percentile of repeats",
    )


def _rows(curve: Curve) -> Iterator[tuple[str, ...]]:
    for i, (x, y) in enumerate(zip(curve.x, curve.measured, strict=True)):
        spread = f"{_number(curve.low[i], curve.up)} to {_number(curve.high[i], curve.up)}" if len(curve.low) else ""
        predicted = _number(curve.predicted[i], curve.up) if len(curve.predicted) else ""
        error = f"{curve.predicted[i] / y - 1:+.0%}" if len(curve.predicted) and y else ""
        yield curve.name, f"{x:,.6g}", _number(y, curve.up), spread, predicted, error


def _number(value: float, unit: str) -> str:
    return show(value, unit) if unit in _UNITS else f"{value:.3g}"


def _unit(name: str) -> str:
    return "FLOP/s" if "rate" in name else "s" if "latency" in name else "B/s"
