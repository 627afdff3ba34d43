"""Chapter 5: what a step of the price would imply."""

from __future__ import annotations

import numpy as np

from rackmath.api.plain import to_plain
from rackmath.figures import Figure, Panel, Series
from rackmath.io import catalogue
from rackmath.lecture.curves import curve
from rackmath.models.cache import cache_bytes
from rackmath.units import show
from rackmath.web.inputs import Inputs, slider
from rackmath.web.shown import PageContent, Table, View, drawn
from rackmath.web.views.lecture.common import MODELS, POINTS


class CliffInputs(Inputs):
    """Chapter 5."""

    active: float = slider(100.0, 0.1, 2000, "active parameters", unit="B")
    ratio: float = slider(300.0, 50, 1000, "hardware ratio R", log=False)
    cliff: float = slider(200_000.0, 1000, 1e7, "context at which the price steps", unit="tokens")


def cliff(i: CliffInputs) -> PageContent:
    """Cache per token that a step of the price would imply."""
    across = np.geomspace(1000, 1e7, POINTS)
    own_curve = curve("context-cliff", N_active=i.active * 1e9, w=1.0, R=i.ratio, L=across)
    theirs = curve("context-cliff", N_active=100e9, w=1.0, R=300.0, L=across)
    here = float(curve("context-cliff", N_active=i.active * 1e9, w=1.0, R=i.ratio, L=i.cliff))
    models = [(name, float(cache_bytes(catalogue.model(name), 1e5)) / 1e5) for name in MODELS]
    figure = Figure(
        title="",
        panels=[
            Panel(
                title="cache that a cliff implies",
                across="context of the step",
                up="B per token",
                log_across=True,
                log_up=True,
                series=[
                    Series(name="yours", x=list(across), y=list(own_curve)),
                    Series(name="the lecture's, 100 B and R = 300", x=list(across), y=list(theirs)),
                    Series(name="here", x=[i.cliff], y=[here], kind="mark"),
                ],
            )
        ],
    )
    return PageContent(
        figures=drawn(figure),
        pairs=[("cache that this step implies", f"{show(here, 'B')} per token")],
        tables=[
            Table(
                title="what models of the catalogue keep at 100,000 tokens",
                columns=["model", ">B per token", ">over what is implied"],
                rows=[(name, f"{value:,.0f}", f"{value / here:.3g}") for name, value in models],
            )
        ],
        facts=to_plain({"kv": here}),
        command=f"rackmath lecture solve context-cliff --for kv N_active={i.active:g}B R={i.ratio:g} w=1 L={i.cliff:g}",
    )


def view() -> View:
    """The form and its pictures."""
    return View(
        name="cliff",
        title="A context cliff",
        about="What a step of the price would say of the cache.",
        inputs=CliffInputs,
        answer=cliff,
    )
