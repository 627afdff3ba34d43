"""Chapter 2: what leaves a rack, what a batch touches."""

from __future__ import annotations

import numpy as np

from rackmath.api.plain import to_plain
from rackmath.engine.collectives import distinct_ranks
from rackmath.errors import InputError
from rackmath.figures import Figure, Panel, Series
from rackmath.lecture.curves import curve
from rackmath.web.inputs import Inputs, slider
from rackmath.web.shown import PageContent, View, drawn
from rackmath.web.views.lecture.common import POINTS


class RackInputs(Inputs):
    """Chapter 2."""

    experts: float = slider(256, 2, 2048, "routed experts", whole=True)
    chosen: float = slider(8, 1, 64, "experts that a token meets", whole=True)
    racks: float = slider(2, 1, 16, "racks that share a layer", log=False, whole=True)
    ratio: float = slider(8.0, 1, 40, "scale-up over scale-out bandwidth")
    ranks: float = slider(64, 1, 576, "accelerators that hold experts", whole=True)


def rack(i: RackInputs) -> PageContent:
    """What leaves a rack, what a batch touches, how many copies of a token travel."""
    if i.chosen > i.experts:
        raise InputError("chosen", i.chosen, f"a token meets at most the {i.experts:g} experts there are")
    n = np.arange(1, 17)
    slow = curve("two-racks", n=n, r=i.ratio)
    theirs = curve("two-racks", n=n, r=8.0)
    batches = np.geomspace(1, 10_000, POINTS)
    experts_touched = curve("experts-touched", B=batches, k=i.chosen, E=i.experts)
    ranks = np.unique(np.round(np.geomspace(1, 576, 80)))
    copies = [float(distinct_ranks(round(i.experts), round(i.chosen), float(min(r, i.experts)))) for r in ranks]
    figure = Figure(
        title="",
        panels=[
            Panel(
                title="all-to-all against one rack",
                across="racks",
                up="times as long",
                series=[
                    Series(name="yours", x=n.tolist(), y=list(slow)),
                    Series(name="the lecture's, r = 8", x=n.tolist(), y=list(theirs)),
                    Series(name="here", x=[i.racks], y=[float(curve("two-racks", n=i.racks, r=i.ratio))], kind="mark"),
                ],
            ),
            Panel(
                title="experts that a batch touches",
                across="sequences in the batch",
                up="experts",
                log_across=True,
                series=[Series(name="distinct experts of a layer", x=list(batches), y=list(experts_touched))],
            ),
            Panel(
                title="copies of a token that travel",
                across="ranks",
                up="copies",
                log_across=True,
                series=[Series(name="distinct ranks that it meets", x=list(ranks), y=copies)],
            ),
        ],
    )
    per_rank = float(np.ceil(i.experts / i.ranks))
    leave = float(curve("tokens-leaving", n=i.racks))
    return PageContent(
        figures=drawn(figure),
        pairs=[
            ("experts on the fullest accelerator", f"{per_rank:.0f}"),
            ("tokens that leave their rack", f"{leave:.0%}"),
            ("all-to-all against one rack", f"{float(curve('two-racks', n=i.racks, r=i.ratio)):.3g} times as long"),
        ],
        facts=to_plain({"experts_each": per_rank, "tokens_leaving": leave}),
        command=f"rackmath lecture solve two-racks --for slowdown n={i.racks:g} r={i.ratio:g}",
    )


def view() -> View:
    """The form and its pictures."""
    return View(
        name="rack",
        title="Experts on racks",
        about="What leaves a rack and what a batch touches.",
        inputs=RackInputs,
        answer=rack,
    )
