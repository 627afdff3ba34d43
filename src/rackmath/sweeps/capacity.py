"""The highest rate of some traffic that a fleet serves within limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rackmath.api.simulation.report import RANGED
from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.traffic import traffic
from rackmath.errors import DoesNotFit, InputError, RackmathError
from rackmath.sweeps.replay_runs import RunLocation, replays

_CLOSE = 1.01
"""Ratio of a rate that does not keep its limits to one that does, at the end of a search."""
_CLOSE_END = 1.05
"""The same at the ends of the engine's range."""
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
    request: SimulateRequest, percentile: str, where: RunLocation, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Highest rate of the traffic at which a percentile keeps the limits, on the same draws throughout.

    Two rates are tried at once, at the thirds of what is left of the bracket, so that two cores are at work; which
    rates these are does not depend on the number of cores.

    Returns
    -------
    dict
        ``rate`` that keeps the limits, next to ``low`` and ``high`` between which the true one lies [requests/s],
        ``rate_range`` over the engine's 90 % range of step times (None for an end that no rate is known of, and for
        runs too long to repeat), ``scale`` of the traffic given, ``at`` the limits with what was reached, ``runs``,
        ``facts`` at that rate.

    Errors: :class:`InputError` for users who wait for answers, whose rate is no input; :class:`DoesNotFit` where no
    rate keeps the limits, or every one does.
    """
    if request.users is not None or request.turns > 1:
        raise InputError("--capacity", percentile, "a rate is searched for traces and open arrivals only")
    work, _ = traffic(request.traffic)
    if where.workers is None and len(work) < _MANY:
        where = replace(where, workers=1)
    base = len(work) / max(work.span, 1e-9) / request.scale
    search = _Search(request=request, percentile=percentile, where=where, base=base, progress=progress)
    low, high, runs = search.highest(request.scale, _CLOSE)
    facts = runs[low]
    ends: tuple[float | None, float | None] = (None, None)
    if len(work) <= RANGED and not request.ideal:
        # Slow steps (end 1) keep the limits up to a lower rate.
        ends = (search.end(low, 1), search.end(low, 0))
    return {
        "percentile": percentile,
        "rate": base * low,
        "low": base * low,
        "high": base * high,
        "rate_range": ends,
        "scale": low,
        "at": [(name, facts[key][percentile], limit) for name, key, limit in search.limits if facts[key] is not None],
        "runs": search.count,
        "facts": {name: value for name, value in facts.items() if name != "stretches"},
    }


@dataclass(slots=True, kw_only=True)
class _Search:
    request: SimulateRequest
    percentile: str
    where: RunLocation
    base: float
    """Rate of the traffic at a scale of 1. [requests/s]"""
    progress: Callable[[str], None]
    count: int = 0
    """Runs so far."""

    @property
    def limits(self) -> list[tuple[str, str, float]]:
        """Name, key of its spread, value. [s]"""
        values = ((name, key, getattr(self.request, option)) for name, key, option in _LIMITED)
        return [(name, key, limit) for name, key, limit in values if limit is not None]

    def highest(
        self, scale: float, close: float, end: int | None = None
    ) -> tuple[float, float, dict[float, dict[str, Any]]]:
        """Scales between which the limits begin to break, their ratio at most ``close``, and facts by scale.

        Errors: :class:`DoesNotFit` where there are none.
        """
        runs: dict[float, dict[str, Any]] = {}

        def keep(*scales: float) -> list[bool]:
            new = [s for s in scales if s not in runs]
            requests = [replace(self.request, scale=s) for s in new]
            for s, facts in zip(new, replays(requests, self.where, lambda text: None, end), strict=True):
                if "error" in facts:
                    raise RackmathError(facts["error"])
                runs[s] = facts
                self.count += 1
            low, high = (self.base * pick(scales) for pick in (min, max))
            self.progress(f"{self.count} runs, {low:.4g} to {high:.4g} requests/s")
            return [self._kept(runs[s]) for s in scales]

        low, high = _bracket(keep, scale)
        while high / low > close:
            third = (high / low) ** (1 / 3)
            lower, upper = low * third, low * third**2
            meets_limits = keep(lower, upper)
            low, high = (low, lower) if not meets_limits[0] else (upper, high) if meets_limits[1] else (lower, upper)
        return low, high, runs

    def _kept(self, facts: Mapping[str, Any]) -> bool:
        """Whether a run keeps all limits, and refuses no more requests than a percentile leaves out."""
        refused_share = facts.get("refused", {"share": 0.0})["share"]
        return 100 * (1 - refused_share) >= float(self.percentile.removeprefix("p")) and all(
            facts[key] is None or facts[key][self.percentile] <= limit for _, key, limit in self.limits
        )

    def end(self, scale: float, end: int) -> float | None:
        """Highest rate at an end of the engine's range; None where no rate keeps the limits, or every one does."""
        try:
            return self.base * self.highest(scale, _CLOSE_END, end)[0]
        except DoesNotFit:
            return None


def _bracket(keep: Callable[..., list[bool]], scale: float) -> tuple[float, float]:
    """A scale that keeps the limits and its double, which does not."""
    low, meets_limits = scale, keep(scale, 2 * scale)
    for _ in range(_FARTHEST):
        if meets_limits[0] and not meets_limits[1]:
            return low, 2 * low
        low = 2 * low if meets_limits[0] else low / 2
        # One of the pair is known already.
        meets_limits = keep(low, 2 * low)
    if meets_limits[0]:
        raise DoesNotFit("every rate keeps the limits", "give more requests, so that a queue can grow")
    raise DoesNotFit("no rate keeps the limits", "see the times at a low rate: --scale 0.001")
