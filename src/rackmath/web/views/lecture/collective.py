"""Chapter 5 of the book: the time of a sum over accelerators, against its bytes and against their number."""

from __future__ import annotations

import numpy as np

from rackmath.api.plain import to_plain
from rackmath.engine.collectives import all_gather, all_reduce, all_to_all
from rackmath.errors import InputError
from rackmath.figures import Figure, Panel, Series
from rackmath.io import catalogue
from rackmath.units import show
from rackmath.web.inputs import Inputs, System, named, slider
from rackmath.web.shown import PageContent, View, drawn
from rackmath.web.views.lecture.common import POINTS

_BYTES = 2.0
"""Of a number on the way."""
_MOST = 1024
"""Accelerators. [1]"""


class CollectiveInputs(Inputs):
    """Chapter 5 of the book."""

    on: System = named("h100-sxm", "system", "system")
    ranks: float = slider(8, 2, _MOST, "accelerators", whole=True)
    batch: float = slider(16, 1, 100_000, "tokens in a pass", whole=True)
    hidden: float = slider(8192, 256, 65_536, "width of the model", whole=True)
    layers: float = slider(80, 1, 200, "layers, with two sums each", whole=True)


def collective(i: CollectiveInputs) -> PageContent:
    """Sums, gathers and exchanges of a pass, and where latency ends and bandwidth begins."""
    system = catalogue.system(i.on)
    if system.scale_out is None and i.ranks > system.domain:
        raise InputError("ranks", f"{i.ranks:g}", f"{i.on} has {system.domain} and no network to others")
    size = i.batch * i.hidden * _BYTES
    sizes, ranks = (
        np.geomspace(1e3, 1e10, POINTS),
        np.unique(np.round(np.geomspace(2, _MOST if system.scale_out else max(system.domain, 2), 120))),
    )
    time, latency = float(all_reduce(size, i.ranks, system)), float(all_reduce(0.0, i.ranks, system))
    collectives = {"all-reduce": all_reduce, "all-gather": all_gather, "all-to-all": all_to_all}
    figure = Figure(
        title="",
        panels=[
            Panel(
                title=f"{i.ranks:g} accelerators",
                across="bytes on each",
                up="us",
                log_across=True,
                log_up=True,
                series=[
                    *(
                        Series(name=name, x=list(sizes), y=list(1e6 * np.asarray(time_of(sizes, i.ranks, system))))
                        for name, time_of in collectives.items()
                    ),
                    Series(name="this sum", x=[size], y=[time * 1e6], kind="mark"),
                ],
            ),
            Panel(
                title="this sum over more accelerators",
                across="accelerators",
                up="us",
                log_across=True,
                log_up=True,
                series=[
                    Series(name="all-reduce", x=list(ranks), y=list(1e6 * np.asarray(all_reduce(size, ranks, system)))),
                    Series(name="here", x=[i.ranks], y=[time * 1e6], kind="mark"),
                ],
            ),
        ],
    )
    return PageContent(
        figures=drawn(figure),
        pairs=[
            ("bytes of a sum", show(size, "B")),
            ("its time", f"{show(time, 's')}, of it {show(latency, 's')} latency"),
            ("all sums of a pass", show(2 * i.layers * time, "s")),
            ("accelerators of a scale-up domain", f"{system.domain:,}"),
        ],
        facts=to_plain({"bytes": size, "time": time, "latency": latency, "pass": 2 * i.layers * time}),
        command=f"rackmath lecture solve tokens-leaving --for f_leave n={i.ranks:g}",
        notes=[
            "rates of the data sheets; what kernels reach of them is in the chapter on kernels",
            "no command prints the time of a sum alone; the one below says what part of an exchange leaves a rank",
        ],
    )


def view() -> View:
    """The form and its pictures."""
    return View(
        name="collective",
        title="A sum over accelerators",
        about="What accelerators take to agree on a sum: latency for small ones, bandwidth for large ones.",
        inputs=CollectiveInputs,
        answer=collective,
    )
