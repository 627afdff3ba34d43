"""Energy of a simulated run: of accelerators alone, by what their replicas read and multiplied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rackmath.api.energy import energy_of_run
from rackmath.api.simulation.groups import ReplicaGroup
from rackmath.api.simulation.setup import Setup
from rackmath.engine import estimate
from rackmath.hardware.power import KILOWATT_HOUR
from rackmath.models.counts import multiplied_params
from rackmath.serving.simulator.run import Outcome

F = NDArray[np.float64]

_NOBODY_SAYS: dict[str, Any] = dict.fromkeys(("energy_kwh", "energy_kwh_range", "joules_per_token", "kg_co2"))


def energy_of_simulation(
    setup: Setup, outcomes: Sequence[Outcome], paid_seconds: Sequence[F], busy: Sequence[F]
) -> dict[str, Any]:
    """Energy of all replicas, of a written token, and emissions; None where nobody says a chip's power.

    Parameters
    ----------
    paid_seconds, busy : sequence of arrays
        Accelerator-seconds of each pool by kind of replica: all of them, and those that were not idle. [s]

    Prompts go to the first pool, answers are written by the last; kinds share them as their busy time. While it
    writes, a replica reads as in a step of its mean batch. An accelerator that waits is taken to be running.
    """
    is_answered = outcomes[-1].answered
    prompts = float(setup.work.prompt[is_answered].sum()) - float(outcomes[0].requests["hit"].sum())
    output_tokens = float(setup.work.output[is_answered].sum())
    kwh, low, high = 0.0, 0.0, 0.0
    for place, (outcome, pool) in enumerate(zip(outcomes, setup.pools, strict=True)):
        tokens = (prompts if place == 0 else 0.0) + (output_tokens if place == len(setup.pools) - 1 else 0.0)
        for kind, group in enumerate(pool):
            share = float(busy[place][kind]) / max(float(busy[place].sum()), 1e-9)
            bandwidth_share = _bandwidth_share(setup, group, outcome, kind) if place == len(setup.pools) - 1 else 0.0
            run = energy_of_run(
                float(paid_seconds[place][kind]),
                bandwidth_share * float(busy[place][kind]),
                tokens * share * 2 * multiplied_params(group.architecture, head=False) / _rate(group),
                group.system.chip,
                None,
            )
            if run is None:
                return dict(_NOBODY_SAYS)
            kwh, low, high = kwh + run["kwh"], low + run["kwh_range"][0], high + run["kwh_range"][1]
    grid = setup.request.grid
    return {
        "energy_kwh": kwh,
        "energy_kwh_range": [low, high],
        "joules_per_token": kwh * KILOWATT_HOUR / max(output_tokens, 1.0),
        "kg_co2": None if grid is None else kwh * grid / 1000,
    }


def _rate(group: ReplicaGroup) -> float:
    """Rate of the products of its weights. [FLOP/s]"""
    return group.system.chip.rate(group.architecture.format.compute)


def _bandwidth_share(setup: Setup, group: ReplicaGroup, outcome: Outcome, kind: int) -> float:
    """Part of the peak bandwidth that a step of the mean batch uses. [1]"""
    is_kind = outcome.replicas.own["kind"] == kind
    busy_seconds = float(outcome.replicas.own["busy"][is_kind].sum())
    if not busy_seconds > 0:
        return 0.0
    step = estimate(
        group.architecture,
        group.system,
        group.deployment.layout,
        batch=max(float(outcome.replicas.own["batch"][is_kind].sum()) / busy_seconds, 1.0),
        context=float(setup.work.prompt.mean()) + float(setup.work.output.mean()) / 2,
        losses=group.losses,
    )
    return float(step.memory_time) / float(step.time)
