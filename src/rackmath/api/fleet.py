"""What a load of tokens takes: replicas, racks, megawatts, capital and dollars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from rackmath.api import kinds
from rackmath.api.energy import NOTE
from rackmath.api.fields import Option
from rackmath.api.plan_energy import energy_of_point
from rackmath.api.plan_question import PlanRequest, question_of
from rackmath.api.rates import tokens_per_second
from rackmath.api.result import Result
from rackmath.errors import DoesNotFit, InputError
from rackmath.figures import Figure, Panel, Series
from rackmath.io import catalogue
from rackmath.serving.choice import describe
from rackmath.serving.fleet import DayFleet, memory_price
from rackmath.serving.fleet import fleet as sized
from rackmath.serving.plan import plan

_RANGED = ("replicas", "gpus", "racks", "megawatts", "usd_per_million")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRequest(PlanRequest):
    """A load of a whole service, and the deployment that a fleet repeats."""

    tokens_per_second: Annotated[
        float, Option(help="Output tokens of all users, mean over the day.", kind=kinds.TOKEN_RATE)
    ]
    peak_to_mean: Annotated[float, Option(help="Daily peak of traffic over its mean.", kind=kinds.NUMBER)] = 2.0
    headroom: Annotated[float, Option(help="Capacity over the peak.", kind=kinds.NUMBER)] = 1.2
    cooling: Annotated[float, Option(help="Power of the site over accelerators'.", kind=kinds.NUMBER)] = 1.3


def run_fleet(r: FleetRequest) -> Result:
    """Size a fleet of the best deployment under the limits; ``details`` is the load in tokens. [tokens/s]

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range and for limits on percentiles;
    :class:`~rackmath.errors.DoesNotFit` where no deployment keeps the limits.
    """
    for name in r.percentiles:
        way_out = "limits here are on means: `rackmath plan` sizes a fleet by its percentiles"
        raise InputError("--" + "-".join(name), r.percentiles[name], way_out)
    q = question_of(r)
    load = tokens_per_second(r.tokens_per_second, q.work.output)
    answer = plan(q.system, q.work, q.limits, q.space, q.losses, q.scheduling, q.correct)
    if answer.best is None:
        raise DoesNotFit("no deployment keeps the limits", "see `rackmath plan` for how near the nearest comes")
    p, i = answer.search.points, answer.best
    unit_rate = float(p.rate[i] / p.units[i]) * q.work.output
    unit_gpus = float(p.gpus[i] / p.units[i])
    stems = {catalogue.system(name).name: name for name in catalogue.bills()}
    bill = catalogue.bills().get(stems.get(q.system.name, ""))

    def at(factor: float) -> DayFleet:
        return sized(
            q.system,
            tokens_per_second=load,
            unit_tokens_per_second=unit_rate * factor,
            unit_gpus=unit_gpus,
            peak_to_mean=r.peak_to_mean,
            headroom=r.headroom,
            cooling=r.cooling,
            price=q.price,
            bill=bill,
        )

    low, high = q.range_at(answer.search, i, "throughput")
    middle, most, least = at(1.0), at(low), at(high)
    energy = energy_of_point(q, answer.search, i, middle.utilisation)
    facts: dict[str, Any] = {
        "model": q.architecture.name,
        "system": q.system.name,
        "unit": describe(answer.search.layouts, p, i),
        "unit_gpus": unit_gpus,
        "unit_tokens_per_second": unit_rate,
        **{
            name: {"value": getattr(middle, name), "low": getattr(least, name), "high": getattr(most, name)}
            for name in _RANGED
        },
        "utilisation": middle.utilisation,
        "energy": energy,
        "capital": middle.capital,
        "memory_capital": middle.memory_capital,
        "memory_price": None if bill is None else memory_price(q.system, bill),
        "hours": middle.hours,
        "assumptions": [
            *q.notes,
            *([f"{NOTE}; megawatts count cooling"] if energy else []),
            f"traffic peaks at {r.peak_to_mean:g} times its mean; capacity is {r.headroom:g} times the peak",
            "capital and memory: published bills of racks"
            if bill
            else "capital: no bill of this system's racks is known",
        ],
    }
    return Result(request=r, facts=facts, draw=lambda: _day(facts), details=load)


def _day(facts: dict[str, Any]) -> Figure:
    """Load over capacity through the day."""
    hours = list(range(len(facts["hours"])))
    load = Series(name="load over capacity", x=hours, y=list(facts["hours"]), kind="bars", named=False)
    return Figure(
        title=f"{facts['replicas']['value']:,.0f} replicas of {facts['model']} on {facts['system']}",
        panels=[Panel(across="hour of the day", up="load over capacity", series=[load])],
    )
