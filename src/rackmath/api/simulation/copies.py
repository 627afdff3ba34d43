"""Copies of one deployment under one traffic, simulated at any number until limits are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from rackmath.api.deployment import deployment_of
from rackmath.api.plan_question import PlanRequest
from rackmath.api.simulation.report import at_end, facts_of
from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.setup import run, setup_of

Facts = dict[str, Any]
Limits = Mapping[tuple[str, str], float]
"""Quantity (ttft or tpot) and percentile (or mean) -> limit. [s]"""

KEYS = {"ttft": "time_to_first_token", "tpot": "time_per_output_token"}
_SECONDS = 60.0
"""Time of traffic that is simulated, at least. [s]"""
_FEWEST, _MOST = 4000, 40_000
"""Requests of a run."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Copies:
    """Copies of a point of a plan under Poisson arrivals.

    Parameters
    ----------
    boxes : int
        Boxes that one copy is billed.
    rate : float
        Of all copies together. [requests/s]
    """

    request: PlanRequest
    point: Mapping[str, Any]
    boxes: int
    rate: float
    runs: dict[tuple[int, int | None], Facts] = field(default_factory=dict[tuple[int, int | None], Facts])
    """Runs so far, by number of copies and end of the range of steps."""

    def facts(self, count: int, end: int | None = None) -> Facts:
        """What users of so many copies see; ``end`` 0 or 1 takes an end of the range of steps."""
        if (count, end) not in self.runs:
            setup = setup_of(self._run(count))
            at = setup if end is None else at_end(setup, end)
            self.runs[count, end] = facts_of(at, run(at))
        return self.runs[count, end]

    def _run(self, count: int) -> SimulateRequest:
        fields = deployment_of(self.request, self.point, {}).simulated
        fields |= {"gpus": fields["gpus"] * count, "ttft": None, "tpot": None}
        fields |= {name: fields[name] * count for name in ("prefill_gpus", "encoder_gpus") if fields[name] is not None}
        requests = int(min(max(_FEWEST, self.rate * _SECONDS), _MOST))
        return SimulateRequest(**fields, poisson=self.rate, requests=requests)

    def reached(self, count: int, quantity: str, percentile: str, end: int | None = None) -> float:
        """Value of one limited quantity; infinite where nobody was served. [s]"""
        spread = self.facts(count, end)[KEYS[quantity]]
        return inf if spread is None else float(spread[percentile])

    def keeps(self, count: int, limits: Limits, end: int | None = None) -> bool:
        """Whether all limits are kept."""
        return all(self.reached(count, *name, end) <= limit for name, limit in limits.items())

    def fewest(self, start: int, limits: Limits, most: int, end: int | None = None) -> int:
        """Fewest copies that keep the limits, sought from ``start`` on; 0 where ``most`` do not.

        More copies are taken never to be slower.
        """
        low, high = 0, min(start, most)
        while not self.keeps(high, limits, end):
            if high == most:
                return 0
            low, high = high, min(2 * high, most)
        step = 1
        while low == 0 and high > 1:
            lower = max(high - step, 1)
            if not self.keeps(lower, limits, end):
                low = lower
            else:
                high, step = lower, 2 * step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.keeps(middle, limits, end) else (middle, high)
        return high
