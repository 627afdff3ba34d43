"""Chapter 6: what mixes, and what must be kept."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from rackmath.api.plain import to_plain
from rackmath.figures import Figure, Panel, Series
from rackmath.lecture import ciphers
from rackmath.lecture.curves import curve
from rackmath.web.inputs import Inputs, slider
from rackmath.web.shown import PageContent, View, drawn


class RoundsInputs(Inputs):
    """Chapter 6."""

    layers: float = slider(32, 1, 512, "layers", whole=True)
    kept: float = slider(1.0, 0.01, 100, "activations of a layer", unit="GB")
    rounds: float = slider(4, 1, 16, "rounds of the cipher", log=False, whole=True)


def rounds(i: RoundsInputs) -> PageContent:
    """Avalanche against rounds; activations against depth."""
    depth = np.unique(np.round(np.geomspace(1, 512, 60)))
    several = np.arange(1, 17)
    avalanches = [_avalanche(int(n)) for n in several]
    figure = Figure(
        title="",
        panels=[
            Panel(
                title="output bits that one input bit turns",
                across="rounds",
                up="part of all bits",
                series=[
                    Series(name="Feistel, SHA-256 inside", x=several.tolist(), y=avalanches),
                    Series(name="here", x=[i.rounds], y=[avalanches[round(i.rounds) - 1]], kind="mark"),
                ],
            ),
            Panel(
                title="activations held for the backward pass",
                across="layers",
                up="GB",
                log_across=True,
                log_up=True,
                series=[
                    Series(name="all kept", x=list(depth), y=list(depth * i.kept)),
                    Series(name="every sqrt(n)-th kept", x=list(depth), y=list(2 * np.sqrt(depth) * i.kept)),
                    Series(name="reversible", x=list(depth), y=[i.kept] * len(depth)),
                ],
            ),
        ],
    )
    reversible = float(curve("reversible-compute", units_fwd=1.0, units_bwd=2.0))
    return PageContent(
        figures=drawn(figure),
        pairs=[
            ("bits that one bit turns", f"{avalanches[round(i.rounds) - 1]:.0%} after {i.rounds:g} rounds"),
            ("all kept", f"{i.layers * i.kept:.3g} GB"),
            ("reversible", f"{i.kept:.3g} GB, for {reversible:.2f} times the compute of a step"),
        ],
        facts=to_plain({"avalanche": avalanches[round(i.rounds) - 1], "reversible": reversible}),
        command="rackmath lecture solve reversible-compute --for ratio_rev units_fwd=1 units_bwd=2",
        notes=["exact memory of known architectures: `rackmath train depth`; measured: `rackmath lab revnet`"],
    )


@lru_cache(maxsize=32)
def _avalanche(rounds: int) -> float:
    return float(ciphers.avalanche(rounds))


def view() -> View:
    """The form and its pictures."""
    return View(
        name="rounds",
        title="Rounds and layers",
        about="What mixes, and what must be kept.",
        inputs=RoundsInputs,
        answer=rounds,
    )
