"""How sparse a model should be for a number of users: until users, or memory, run out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rackmath.engine import Layout, estimate
from rackmath.hardware import System
from rackmath.models.formats import Format
from rackmath.models.totals import from_totals
from rackmath.serving.points import Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparsityCost:
    """Accelerator time per token by model and number of users. (models, users)"""

    gpu_seconds: Array
    """Infinite where weights and one user do not fit. [s]"""
    time: Array
    """Per token of a user. [s]"""
    batch: Array
    """Users that are answered at a time. [sequences]"""
    best: tuple[int | None, ...]
    """Place of the cheapest model for each number of users."""


def cost_by_sparsity(
    system: System,
    totals: Sequence[float],
    actives: Sequence[float],
    users: Sequence[float],
    form: Format,
    *,
    context: float = 8192.0,
    kv_bytes_per_token: float = 70_000.0,
) -> SparsityCost:
    """Cost of a token on one scale-up domain for models of equal quality, at the ideal bound.

    Parameters
    ----------
    totals, actives : sequence of float
        Parameters of each model. (models,)
    users : sequence of float
        Users who want a token at the same time; those that memory does not hold wait. (users,)
    form : Format
        Of weights.
    """
    layout = Layout(tensor=system.domain)
    user_counts = np.asarray(users, dtype=float)
    gpu_seconds, times, batches = (np.full((len(totals), len(users)), np.inf) for _ in range(3))
    for i, (total, active) in enumerate(zip(totals, actives, strict=True)):
        model = from_totals(f"{total:g}", total, active, kv_bytes_per_token, weights=form)
        free = system.domain_capacity - total * form.bytes_per_element
        room = np.floor(free / (kv_bytes_per_token * context))
        if room < 1:
            continue
        batch = np.minimum(user_counts, room)
        # Few users read only the experts that they choose: as many as they are, at most all.
        parameters = np.minimum(total, active * batch)
        cost = estimate(model, system, layout, batch=batch, context=context)
        weights = np.asarray(cost.terms["weights"]) * parameters / total
        rest = np.asarray(cost.time) - np.asarray(cost.terms["weights"])
        times[i] = rest + weights
        batches[i] = batch
        gpu_seconds[i] = times[i] * system.domain / batch
    places = gpu_seconds.argmin(axis=0)
    best = tuple(int(p) if np.isfinite(gpu_seconds[p, j]) else None for j, p in enumerate(places))
    return SparsityCost(gpu_seconds=gpu_seconds, time=times, batch=batches, best=best)
