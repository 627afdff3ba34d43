"""The highest rate of some traffic that a fleet serves within limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rackmath.errors import DoesNotFit, InputError
from rackmath.serving.simulator.workload import scaled
from rackmath.sweeps.replay_report import facts_of
from rackmath.sweeps.replays import job_of, run

_CLOSE = 1.01
"""Ratio of a rate that does not keep its limits to one that does, at the end of a search."""
_FARTHEST = 24
"""Doublings or halvings of the traffic before a search gives up."""

_LIMITED = (
    ("time to first token", "time_to_first_token", "ttft"),
    ("time per output token", "time_per_output_token", "tpot"),
)
"""What a limit is on: its name, the key of its spread, its option."""


def highest_rate(
    model: str, on: str, given: Mapping[str, Any], percentile: str, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Highest rate of the traffic at which a percentile keeps the limits, by bisection on the same draws.

    Returns
    -------
    dict
        ``rate`` that keeps the limits, next to ``low`` and ``high`` between which the true one lies [requests/s],
        ``scale`` of the traffic given, ``at`` the limits with what was reached, ``runs``, ``facts`` at that rate.

    Errors: :class:`InputError` for users who wait for answers, whose rate is no input; :class:`DoesNotFit` where no
    rate keeps the limits, or every one does.
    """
    if given["users"] is not None or given["turns"] > 1:
        raise InputError("--capacity", percentile, "a rate is searched for traces and open arrivals only")
    job = job_of(model, on, given)
    base = len(job.work) / max(job.work.span, 1e-9) / given["scale"]
    limits = [(name, key, given[option]) for name, key, option in _LIMITED if given[option] is not None]
    runs: dict[float, dict[str, Any]] = {}

    def keeps(scale: float) -> bool:
        if scale not in runs:
            work = scaled(job.work, scale / given["scale"])
            runs[scale] = facts_of(replace(job, work=work), run(replace(job, work=work)))
            progress(f"{len(runs)} runs, {base * scale:.4g} requests/s")
        return all(runs[scale][key] is None or runs[scale][key][percentile] <= limit for _, key, limit in limits)

    low = high = float(given["scale"])
    for _ in range(_FARTHEST):
        if keeps(low):
            break
        low, high = low / 2, low
    else:
        raise DoesNotFit("no rate keeps the limits", "see the times at a low rate: --scale 0.001")
    for _ in range(_FARTHEST):
        if high > low and not keeps(high):
            break
        low, high = (high, high * 2) if high > low else (low, low * 2)
    else:
        raise DoesNotFit("every rate keeps the limits", "give more requests, so that a queue can grow")
    while high / low > _CLOSE:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if keeps(middle) else (low, middle)
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
