"""Figures as data: series on panels. Renderers stand beside: Plotly, Matplotlib, and characters in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

COLOURS = ("#1f5fa8", "#c2571a", "#2b8a57", "#8d3a8a", "#7a6a00", "#4c4c4c", "#0d8b99", "#b0203a")
"""Told apart in print and by readers who do not see red and green apart."""
_ROW = 3
"""Panels that stand in one row."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """Points that belong together."""

    name: str
    x: Sequence[float] | Sequence[str]
    y: Sequence[float]
    kind: str = "line"
    """line, points, bars (stacked), horizontal (a bar for each name in ``x``, as long as ``y`` says, the first on top),
    or mark (one point that stands out)."""
    labels: Sequence[str] = ()
    """What a reader sees at each point: in HTML when pointing at it, else beside points."""
    colour: int | None = None
    """Place among the colours; by default that of the series among its kin."""
    named: bool = True
    """Whether the legend names it."""
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    """Ends of a range around y, if there is one."""
    start: Sequence[float] = ()
    """Where horizontal bars begin, if not at 0: they are ``y`` long from there."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moment:
    """What upright bars of a panel are at another time."""

    label: str
    values: Sequence[Sequence[float]]
    """Of each series, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Panel:
    """One pair of axes."""

    across: str
    up: str
    series: Sequence[Series]
    log_across: bool = False
    log_up: bool = False
    show_labels: bool = False
    """Whether labels are written beside points in a still picture."""
    title: str = ""
    """Where panels show different things."""
    order: Sequence[str] = ()
    """Names of horizontal bars that several series share, from the top."""
    moments: Sequence[Moment] = ()
    """Times that a reader of HTML may choose from; a still picture has what the series say."""
    moment: int = 0
    """Place among them of what the series say."""

    @property
    def still_title(self) -> str:
        """Its title in a picture that has no slider: with the moment that it shows."""
        return f"{self.title}, at {self.moments[self.moment].label}" if self.moments else self.title

    @property
    def is_horizontal(self) -> bool:
        """Whether bars lie: the axis that is called ``up`` goes across."""
        return any(s.kind == "horizontal" for s in self.series)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Figure:
    """A picture: panels side by side, a title, and where its numbers come from."""

    title: str
    panels: Sequence[Panel]
    note: str = ""

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns: up to three panels in one row, more in pairs."""
        count = len(self.panels)
        return (1, count) if count <= _ROW else (ceil(count / 2), 2)
