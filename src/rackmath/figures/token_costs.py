"""Cost and price of a token against context as a figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackmath.figures.record import Figure, Panel, Series
from rackmath.prices.forward import CostCurve, PricePage


def token_cost_figure(facts: Mapping[str, Any]) -> Figure:
    """Cost against context, and the two tiers above it."""
    costs: CostCurve = facts["curve"]
    page: PricePage = facts["page"]
    series: list[Series] = []
    for place, (name, cost, low, high) in enumerate(
        (
            ("input", costs.input, costs.input_low, costs.input_high),
            ("output", costs.output, costs.output_low, costs.output_high),
        )
    ):
        series.append(
            Series(
                name=f"{name}: cost, 90 % range",
                x=list(costs.contexts),
                y=list(cost),
                low=list(low),
                high=list(high),
                colour=place,
            )
        )
        steps = [float(costs.contexts[0]), page.tiers.start, page.tiers.start, float(costs.contexts[-1])]
        heights = [page.tiers.below[place]] * 2 + [page.tiers.above[place]] * 2
        series.append(Series(name=f"{name}: two tiers", x=steps, y=heights, colour=place + 2))
    return Figure(
        title=f"cost and price of a token against context, {facts['model']} on {facts['system']}",
        panels=[
            Panel(
                across="tokens of context",
                up="$ per million tokens",
                series=series,
                log_across=True,
                log_up=True,
            )
        ],
        note="two tiers: no request is served below cost, and no other page with one cliff overcharges less",
    )
