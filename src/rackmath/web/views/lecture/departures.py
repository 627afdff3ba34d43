"""Chapter 2 of the book: what a user waits for where batches leave at fixed times."""

from __future__ import annotations

import numpy as np

from rackmath.api.plain import to_plain
from rackmath.figures import Figure, Panel, Series
from rackmath.io import catalogue
from rackmath.lecture.curves import curve
from rackmath.serving.trains import expected_waits
from rackmath.units import show
from rackmath.web.inputs import Inputs, slider
from rackmath.web.shown import PageContent, View, drawn
from rackmath.web.views.lecture.common import POINTS, SYSTEMS


class DeparturesInputs(Inputs):
    """Chapter 2 of the book."""

    capacity: float = slider(141.0, 4, 1000, "memory", unit="GB")
    bandwidth: float = slider(4.8, 0.05, 50, "memory bandwidth", unit="TB/s")
    period: float = slider(20.0, 0.5, 1000, "time between two passes", unit="ms")
    rate: float = slider(500.0, 0.1, 100_000, "requests", unit="1/s")


def departures(i: DeparturesInputs) -> PageContent:
    """Waits against the period, and how much of the memory a pass of that length can read."""
    period = i.period / 1e3
    drain = float(curve("drain-time", H=i.capacity * 1e9, M=i.bandwidth * 1e12))
    waits = expected_waits(period)
    periods = np.geomspace(drain / 30, drain * 10, POINTS)
    curves, at_drain = [expected_waits(float(p)) for p in periods], expected_waits(drain)
    parts = np.array([0.0, 1.0])
    figure = Figure(
        title="",
        panels=[
            Panel(
                title="time of a request against the period",
                across="time between two passes [ms]",
                up="ms",
                log_across=True,
                log_up=True,
                series=[
                    Series(name="median", x=list(periods * 1e3), y=[1e3 * w.median for w in curves]),
                    Series(name="at worst", x=list(periods * 1e3), y=[1e3 * w.worst for w in curves]),
                    Series(name="all memory is read once", x=[drain * 1e3], y=[at_drain.worst * 1e3], kind="mark"),
                ],
            ),
            Panel(
                title="of all requests, those that are done",
                across="time since the request [ms]",
                up="% of requests",
                series=[
                    Series(name="wait and pass", x=list((1 + parts) * i.period), y=list(100 * parts)),
                    Series(name="the wait alone", x=list(parts * i.period), y=list(100 * parts)),
                ],
            ),
        ],
    )
    return PageContent(
        figures=drawn(figure),
        pairs=[
            ("time to read all memory once", show(drain, "s")),
            ("time of a request", f"{show(waits.median, 's')} at the median, {show(waits.worst, 's')} at worst"),
            ("requests in a pass", f"{i.rate * period:,.3g}"),
            ("memory that a pass can read", f"{min(period / drain, 1):.0%} of it"),
        ],
        facts=to_plain({"drain_time": drain, "median": waits.median, "worst": waits.worst}),
        command=f"rackmath lecture solve drain-time --for t_drain H={i.capacity:g}GB M={i.bandwidth:g}TB/s",
        notes=["engines start a pass when the one before ends; what they reach is in the chapter on load"],
    )


def presets() -> dict[str, dict[str, float]]:
    """Memories of the catalogue's chips."""
    chips = {name: catalogue.system(name).chip for name in SYSTEMS}
    return {
        name: {"capacity": chip.memory_capacity / 1e9, "bandwidth": chip.memory_bandwidth / 1e12}
        for name, chip in chips.items()
    }


def view() -> View:
    """The form and its pictures."""
    return View(
        name="departures",
        title="Batches that depart",
        about="What a request waits for its batch, and what a pass can read meanwhile.",
        inputs=DeparturesInputs,
        answer=departures,
        presets=presets(),
    )
