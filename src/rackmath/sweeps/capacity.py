"""The highest rate of some traffic that a fleet serves within limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.traffic import traffic
from rackmath.errors import DoesNotFit, InputError, RackmathError
from rackmath.sweeps.replay_runs import Where, replays

_CLOSE = 1.01
"""Ratio of a rate that does not keep its limits to one that does, at the end of a search."""
_FARTHEST = 24
"""Doublings or halvings of the traffic before a search gives up."""

_MANY = 1_000_000
"""Requests of a run from which starting processes for every pair of runs takes less time than they save."""
_LIMITED = (
    ("time to first token", "time_to_first_token", "ttft"),
    ("time per output token", "time_per_output_token", "tpot"),
)
"""What a limit is on: its name, the key of its spread, its option."""


def highest_rate(
    request: SimulateRequest, percentile: str, where: Where, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Highest rate of the traffic at which a percentile keeps the limits, on the same draws throughout.

    Two rates are tried at once, at the thirds of what is left of the bracket, so that two cores are at work; which
    rates these are does not depend on the number of cores.

    Returns
    -------
    dict
        ``rate`` that keeps the limits, next to ``low`` and ``high`` between which the true one lies [requests/s],
        ``scale`` of the traffic given, ``at`` the limits with what was reached, ``runs``, ``facts`` at that rate.

    Errors: :class:`InputError` for users who wait for answers, whose rate is no input; :class:`DoesNotFit` where no
    rate keeps the limits, or every one does.
    """
    if request.users is not None or request.turns > 1:
        raise InputError("--capacity", percentile, "a rate is searched for traces and open arrivals only")
    work, _ = traffic(request.traffic)
    if where.workers is None and len(work) < _MANY:
        where = replace(where, workers=1)
    base = len(work) / max(work.span, 1e-9) / request.scale
    limits = [(name, key, limit) for name, key, option in _LIMITED if (limit := getattr(request, option)) is not None]
    runs: dict[float, dict[str, Any]] = {}

    def keep(*scales: float) -> list[bool]:
        new = [s for s in scales if s not in runs]
        requests = [replace(request, scale=s) for s in new]
        for s, facts in zip(new, replays(requests, where, lambda text: None), strict=True):
            if "error" in facts:
                raise RackmathError(facts["error"])
            runs[s] = facts
        progress(f"{len(runs)} runs, {base * min(scales):.4g} to {base * max(scales):.4g} requests/s")
        return [
            all(runs[s][key] is None or runs[s][key][percentile] <= limit for _, key, limit in limits) for s in scales
        ]

    low, high = _bracket(keep, request.scale)
    while high / low > _CLOSE:
        third = (high / low) ** (1 / 3)
        lower, upper = low * third, low * third**2
        kept = keep(lower, upper)
        low, high = (low, lower) if not kept[0] else (upper, high) if kept[1] else (lower, upper)
    facts = runs[low]
    return {
        "percentile": percentile,
        "rate": base * low,
        "low": base * low,
        "high": base * high,
        "scale": low,
        "at": [(name, facts[key][percentile], limit) for name, key, limit in limits if facts[key] is not None],
        "runs": len(runs),
        "facts": facts,
    }


def _bracket(keep: Callable[..., list[bool]], scale: float) -> tuple[float, float]:
    """A scale that keeps the limits and its double, which does not."""
    low, kept = scale, keep(scale, 2 * scale)
    for _ in range(_FARTHEST):
        if kept[0] and not kept[1]:
            return low, 2 * low
        low = 2 * low if kept[0] else low / 2
        # One of the pair is known already.
        kept = keep(low, 2 * low)
    if kept[0]:
        raise DoesNotFit("every rate keeps the limits", "give more requests, so that a queue can grow")
    raise DoesNotFit("no rate keeps the limits", "see the times at a low rate: --scale 0.001")
