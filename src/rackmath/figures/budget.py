"""Cost of a model's life against its size, as a figure."""

from __future__ import annotations

from typing import Any

import numpy as np

from rackmath.figures.record import Figure, Panel, Series
from rackmath.training.budget import Life, budget
from rackmath.training.scaling_laws import LossLaw


def budget_figure(law: LossLaw, facts: dict[str, Any], life: Life) -> Figure:
    """Cost against size at the loss in question."""
    sizes = np.geomspace(facts["params"] / 8, facts["compute_optimal"]["params"] * 4, 200)
    contour = [(size, law.tokens_for(size, facts["loss"])) for size in sizes.tolist()]
    bills = [budget(law, size, tokens, life) for size, tokens in contour if tokens < 30 * facts["tokens"]]
    across = [bill.params for bill in bills]
    parts = {
        "pre-training": [bill.cost_pretrain for bill in bills],
        "inference": [bill.cost_inference for bill in bills],
        "total": [bill.total for bill in bills],
    }
    marks = [("least cost", facts), ("compute optimum", facts["compute_optimal"])]
    if facts["heuristic"] is not None:
        marks.append(("equal costs", facts["heuristic"]))
    series = [Series(name=name, x=across, y=y) for name, y in parts.items() if max(y) > 0]
    series += [Series(name=name, x=[mark["params"]], y=[mark["total"]], kind="mark") for name, mark in marks]
    return Figure(
        title=f"cost of a life at loss {facts['loss']:.3f} against size, {law.name}",
        panels=[Panel(across="parameters", up="FLOP", series=series, log_across=True, log_up=True)],
        note=law.source,
    )
