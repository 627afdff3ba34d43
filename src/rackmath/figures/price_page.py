"""Ratios of a price page beside what hypotheses foretell, as a figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackmath.figures.record import Figure, Panel, Series
from rackmath.prices import page


def page_figure(facts: Mapping[str, Any]) -> Figure:
    """Published ratios beside what each hypothesis foretells; of each kind the one that most models share."""
    common: dict[str, Mapping[str, Any]] = {}
    for reading in facts["readings"]:
        longest_reading = common.get(reading["kind"])
        if reading["kind"] != page.CLIFF and (
            longest_reading is None or len(reading["models"]) > len(longest_reading["models"])
        ):
            common[reading["kind"]] = reading
    hypotheses = [
        (f"{kind} {reading['value']:g}\n{hypothesis['hypothesis']}", reading["value"], hypothesis["predicted"])
        for kind, reading in common.items()
        for hypothesis in reading["hypotheses"]
        if hypothesis["predicted"] is not None
    ]
    names = [name for name, _, _ in hypotheses]
    foretold = Series(
        name="foretold, with 90 % of models",
        x=names,
        y=[span.median for _, _, span in hypotheses],
        low=[span.low90 for _, _, span in hypotheses],
        high=[span.high90 for _, _, span in hypotheses],
        kind="points",
    )
    page_series = Series(name="published", x=names, y=[value for _, value, _ in hypotheses], kind="mark")
    return Figure(
        title=f"ratios on the price page of {facts['provider']}, and what each hypothesis foretells",
        panels=[Panel(across="", up="multiple", series=[foretold, page_series], log_up=True)],
        note="of each kind the ratio that most models share; cliffs are contexts, not multiples, and are left out",
    )
