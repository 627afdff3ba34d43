"""One pass as a timeline: what runs, what is sent, what waits, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rackmath.engine.timeline import KINDS, StepPart
from rackmath.figures.record import Figure, Panel, Series
from rackmath.units import show

_SMALL = 0.004
"""Part of the pass below which kernels are told together."""
_BOUND = "at the roofline"


def step_figure(title: str, parts: Sequence[StepPart], note: str) -> Figure:
    """Each part begins where the one above it ends; what the bound takes of it stands first."""
    bars = _joined(parts)
    starts = np.concatenate(([0.0], np.cumsum([part.time for part in bars])))
    bound = [(part, start) for part, start in zip(bars, starts, strict=False) if part.ideal > 0]
    series = [
        Series(
            name=_BOUND,
            kind="horizontal",
            x=[part.name for part, _ in bound],
            y=[1e3 * part.ideal for part, _ in bound],
            start=[1e3 * start for _, start in bound],
            labels=[_label(part) for part, _ in bound],
            colour=5,
        )
    ]
    for colour, kind in enumerate(KINDS):
        of_kind = [(part, start) for part, start in zip(bars, starts, strict=False) if part.kind == kind]
        if of_kind:
            series.append(
                Series(
                    name={"kernels": "kernels beyond it", "collectives": "collectives beyond it"}.get(kind, kind),
                    kind="horizontal",
                    x=[part.name for part, _ in of_kind],
                    y=[1e3 * (part.time - part.ideal) for part, _ in of_kind],
                    start=[1e3 * (start + part.ideal) for part, start in of_kind],
                    labels=[_label(part) for part, _ in of_kind],
                    colour=colour,
                )
            )
    order = [part.name for part in bars]
    return Figure(
        title=title,
        panels=[Panel(across="", up="ms", series=series, order=order, title="one pass, part after part")],
        note=note,
    )


def _label(part: StepPart) -> str:
    kernels = f", {part.launches:,.0f} kernels" if part.launches else ""
    return f"{part.name}: {show(part.time, 's')}, {show(part.ideal, 's')} at the bound{kernels}"


def _joined(parts: Sequence[StepPart]) -> list[StepPart]:
    """Parts in their order, small kernels as one at the end of the kernels."""
    total = sum(part.time for part in parts)
    small = [part for part in parts if part.kind == "kernels" and abs(part.time) < _SMALL * total]
    if len(small) < 2:
        return list(parts)
    rest = StepPart(
        name=f"{len(small)} others",
        kind="kernels",
        time=sum(part.time for part in small),
        ideal=sum(part.ideal for part in small),
        launches=sum(part.launches for part in small),
    )
    large = [part for part in parts if part not in small]
    kernels = [part for part in large if part.kind == "kernels"]
    return [*kernels, rest, *(part for part in large if part.kind != "kernels")]
