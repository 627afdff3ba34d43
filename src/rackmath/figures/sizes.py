"""Picture of what prices add to what is known of any model."""

from __future__ import annotations

from rackmath.figures.record import Figure, Panel, Series
from rackmath.prices.decode import DecodedPrice, Interval


def sizes_figure(model: str, reading: DecodedPrice, prior: DecodedPrice) -> Figure:
    """90 % ranges before and after the prices are seen, side by side."""
    series: list[Series] = []
    for name, field, scale in (
        ("active, billions", "active_params", 1e9),
        ("total, billions", "total_params", 1e9),
        ("price over ideal cost", "product", 1.0),
    ):
        for place, (label, intervals) in enumerate((("before any price", prior), ("given the prices", reading))):
            span: Interval = getattr(intervals, field)
            series.append(
                Series(
                    name=f"{label}, 90 %",
                    x=[f"{name}\n{label}"],
                    y=[span.median / scale],
                    low=[span.low90 / scale],
                    high=[span.high90 / scale],
                    kind="points",
                    colour=place,
                    named=field == "active_params",
                )
            )
    return Figure(
        title=f"what prices add to what is known of any model: {model}",
        panels=[Panel(across="", up="", series=series, log_up=True)],
        note="a range that is as wide after as before is one that prices say nothing of",
    )
