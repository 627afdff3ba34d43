"""Energy of a point of a plan's search: of accelerators alone, an output token with its prompt."""

from __future__ import annotations

from typing import Any

from rackmath.api.energy import energy_of_service
from rackmath.api.plan_question import PlanQuestion
from rackmath.models.counts import multiplied_params
from rackmath.models.formats import weight_format
from rackmath.serving.choice import decode_step
from rackmath.serving.search import SearchResult


def energy_of_point(
    q: PlanQuestion, search: SearchResult, place: int, utilisation: float = 1.0
) -> dict[str, Any] | None:
    """Energy of an output token with its prompt; None where nobody says the chip's power.

    Parameters
    ----------
    utilisation : float
        Part of the time in which accelerators work; in the rest they run and wait. [1]
    """
    variant = q.space.variants[int(search.points.variant[place])]
    prompt = 2 * multiplied_params(variant.architecture, head=False) * q.work.read / q.work.output
    step, share = decode_step(q.system, q.work, q.space, search, place, q.losses, q.scheduling)
    memory_time, compute_time = float(step.memory_time) * share, float(step.compute_time) * share
    total = float(search.points.gpus[place] / (search.points.rate[place] * q.work.output))
    low, high = q.range_at(search, place, "throughput")
    products = compute_time + prompt / q.system.chip.rate(weight_format(variant.weights).compute)
    ends = (1 / high, 1 / low)
    return energy_of_service(total, memory_time, products, ends, q.system.chip, q.request.grid, utilisation)
