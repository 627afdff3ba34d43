"""Chapter 4: training and serving on one axis."""

from __future__ import annotations

import numpy as np

from rackmath.api.plain import to_plain
from rackmath.figures import Figure, Panel, Series
from rackmath.lecture.curves import curve
from rackmath.web.inputs import Inputs, slider
from rackmath.web.shown import PageContent, View, drawn
from rackmath.web.views.lecture.common import POINTS


class LifetimeInputs(Inputs):
    """Chapter 4."""

    active: float = slider(100.0, 0.1, 2000, "active parameters", unit="B")
    rate: float = slider(50.0, 0.01, 1000, "tokens served per second", unit="M/s")
    days: float = slider(60.0, 1, 1500, "days that it is served")
    success: float = slider(1.0, 0.01, 1, "chance that it is", log=False)
    rl: float = slider(0.0, 0, 3, "reinforcement learning over pre-training", log=False)
    efficiency: float = slider(0.3, 0.02, 1, "utilisation of serving over training", log=False)


def lifetime(i: LifetimeInputs) -> PageContent:
    """Compute of training and of serving against the tokens of training."""
    active = i.active * 1e9
    tokens_served = float(curve("served-tokens", rate_served=i.rate * 1e6, lifetime=i.days * 86_400))
    expected = float(curve("expected-tokens", success=i.success, N_tokens=tokens_served))
    once = float(curve("chinchilla", N_active=active))
    times = np.geomspace(0.5, 2000, POINTS)
    training = curve("pretrain-compute", N_active=active, D_pre=times * once) * (1 + i.rl)
    serving = np.full_like(
        times, float(curve("inference-compute", N_active=active, D_inf=expected, eff_inf=i.efficiency))
    )
    equal = float(serving[0] / training[0] * times[0])
    figure = Figure(
        title="",
        panels=[
            Panel(
                title="compute of a model's life",
                across="over-training: tokens over 20 per parameter",
                up="FLOP",
                log_across=True,
                log_up=True,
                series=[
                    Series(name="training", x=list(times), y=list(training)),
                    Series(name="serving", x=list(times), y=list(serving)),
                    Series(name="both", x=list(times), y=list(training + serving)),
                    Series(name="equal costs", x=[equal], y=[float(serving[0])], kind="mark"),
                ],
            )
        ],
    )
    return PageContent(
        figures=drawn(figure),
        pairs=[
            ("tokens served", f"{tokens_served:.3g}; expected {expected:.3g}"),
            ("tokens of training at equal costs", f"{equal * once:.3g}"),
            ("over-training at equal costs", f"{equal:.3g} times 20 tokens per parameter"),
        ],
        facts=to_plain({"served": tokens_served, "expected": expected, "equal": equal}),
        command=f"rackmath lecture solve served-tokens --for N_tokens rate_served={i.rate:g}M lifetime={i.days:g}d",
        notes=["at one size of model: what another size would lose is in the budget on the page Training"],
    )


def view() -> View:
    """The form and its pictures."""
    return View(
        name="lifetime",
        title="A model's life",
        about="Training and serving, tokens on one axis.",
        inputs=LifetimeInputs,
        answer=lifetime,
    )
