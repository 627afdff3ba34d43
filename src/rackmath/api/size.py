"""The fewest accelerators that serve a rate within limits on percentiles, checked event by event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from rackmath.api.plan import PlanResult, request_of, run_plan
from rackmath.api.plan_launch import launched
from rackmath.api.plan_question import PlanRequest
from rackmath.api.rates import requests_per_second
from rackmath.api.rented import accelerators
from rackmath.api.result import Result
from rackmath.api.simulation.copies import KEYS, Copies, Facts, Limits
from rackmath.api.subjects import Cluster, Engine, Workload, system_of
from rackmath.errors import DoesNotFit, InputError
from rackmath.figures import Figure, Panel, Series
from rackmath.hardware import System
from rackmath.io import catalogue
from rackmath.models.architecture import Architecture
from rackmath.serving.launch_boxes import rented_together

_TRIED = (4, 2)
"""Deployments of two pools and of one whose fleets are simulated."""
_UNITS = (1, 2, 4, 8, 16)
"""Boxes that one copy may span."""
_LARGEST = 65_536
"""Boxes at which a search gives up."""
_SLACK = 1.25
"""Factor on a limit by which it is told what the limit costs."""
_WIDER = 8
"""Times the copies up to which the ends of the range are searched."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Candidate:
    """A deployment to copy, and where it stands in its plan."""

    copies: Copies
    plan: PlanResult
    place: int

    @property
    def launch(self) -> dict[str, Any]:
        """Commands of one copy."""
        return launched(self.plan.question, self.plan.plan, self.place)


def size(
    model: str | Architecture,
    system: str | System | Cluster,
    workload: Workload,
    *,
    engine: Engine | str | None = None,
    **more: Any,
) -> Result:
    """Search the fewest accelerators for a rate within limits on percentiles, as ``rackmath plan --rate`` does.

    Parameters
    ----------
    model, system
        Names, paths, or what :func:`load_model` and :func:`load_system` return; accelerators of a cluster are the most.
    workload
        Requests, their rate, and limits on averages.
    **more
        Other fields of :class:`PlanRequest`, among them ``ttft_p99`` and ``tpot_p95``.

    Errors: as of :func:`run_size`.
    """
    return run_size(request_of(model, system, workload, engine, more))


def run_size(r: PlanRequest, progress: Callable[[str], None] = lambda text: None) -> Result:
    """Search the fewest accelerators, in whole boxes, that serve ``r.rate`` within all limits.

    Deployments of one box (or of as few as hold the model) are planned with the limits on averages; the best few are
    copied and simulated with Poisson arrivals until percentiles keep their limits.

    Errors: :class:`InputError` without a rate or a limit; :class:`DoesNotFit` where no deployment, or no number of
    copies of it, keeps the limits.
    """
    system = system_of(r.on)
    if r.rate is None:
        raise InputError("--rate", "", "say how many requests arrive, as --rate 167")
    rate = requests_per_second(r.rate, r.output)
    limits = r.percentiles | {(q, "mean"): v for q in KEYS if (v := getattr(r, q)) is not None}
    if not limits:
        raise InputError("--ttft-p99", "", "give a limit to keep, such as --ttft-p99 1s or --tpot-p95 50ms")
    box = 1 if r.bill_used else rented_together(system)
    most = _LARGEST if r.gpus is None and r.usd_per_hour is None else accelerators(r, system) // box
    plans = _plans(r, limits, box, most, progress)
    candidates = _fleets(plans, rate, box)
    best: tuple[int, _Candidate, int] | None = None
    trials: list[Facts] = []
    for count, candidate in enumerate(candidates):
        progress(f"size: {count} of {len(candidates)} deployments")
        fleet = candidate.copies
        start = max(ceil(rate / fleet.point["requests_per_second"]), 1)
        room = (most if best is None else min(most, best[0] - 1)) // fleet.boxes
        copies = fleet.fewest(start, limits, room) if room else 0
        trials.append(_tried(fleet, copies, box))
        if copies:
            best = (copies * fleet.boxes, candidate, copies)
    if best is None:
        raise DoesNotFit(
            f"no deployment of {most * box:,} accelerators keeps the limits at {rate:g} requests/s",
            "allow longer times, or more accelerators",
        )
    _, candidate, copies = best
    facts = _facts(r, system, rate, limits, candidate.copies, copies, box, most)
    facts |= {"tried": trials, "launch": candidate.launch, "assumptions": _assumptions(facts, box, plans[0])}
    return Result(request=r, facts=facts, draw=lambda: _figure(facts))


def run_planning(r: PlanRequest) -> PlanResult | Result:
    """Answer a request for a plan: the fewest accelerators for a rate where that is asked, else the frontier.

    Errors: as of :func:`run_size` and :func:`~rackmath.api.plan.run_plan`.
    """
    return run_size(r) if r.asks_for_size else run_plan(r)


def _plans(r: PlanRequest, limits: Limits, box: int, most: int, progress: Callable[[str], None]) -> list[PlanResult]:
    """Plans of the smallest units that keep the limits on average, and of the next larger."""
    averages = {q: min((v for (name, _), v in limits.items() if name == q), default=None) for q in KEYS}
    plans: list[PlanResult] = []
    reason = DoesNotFit(f"{most * box} accelerators are less than a box", "allow more")
    for boxes in _UNITS:
        if boxes > most or len(plans) == 2:
            break
        progress(f"size: plans of {boxes * box} accelerators")
        bare = {"rate": None, "usd_per_hour": None, **averages} | {"_".join(name): None for name in r.percentiles}
        try:
            plan = run_plan(replace(r, gpus=boxes * box, **bare))
        except DoesNotFit as error:
            reason = error
            continue
        if plan.best is None:
            reason = DoesNotFit(plan.reason, "allow longer times, or more accelerators")
            continue
        plans.append(plan)
    if not plans:
        raise reason
    return plans


def _fleets(plans: Sequence[PlanResult], rate: float, box: int) -> list[_Candidate]:
    """The deployments of most requests per accelerator billed, one of each layout and format."""
    distinct: dict[tuple[str, ...], _Candidate] = {}
    for plan in plans:
        request, best = plan.question.request, plan.plan.best
        points = list(zip(plan.points, map(int, plan.plan.frontier), strict=True))
        fast_points = [(p, i) for p, i in points if request.tpot is None or p["time_per_output_token"] <= request.tpot]
        fast_points.sort(key=lambda entry: -entry[0]["tokens_per_second_per_gpu"])
        best_points = [] if plan.best is None or best is None else [(plan.best.planned, best)]
        for point, place in [*best_points, *fast_points]:
            key = (
                *(point[name] for name in ("layout", "weights", "kv")),
                str(point["draft_tokens"]),
                str(point.get("encoders")),
            )
            boxes = max(round(point["billed_gpus"] / box), 1)
            copies = Copies(request=request, point=point, boxes=boxes, rate=rate)
            distinct.setdefault(key, _Candidate(copies=copies, plan=plan, place=place))
    cheapest_first = sorted(distinct.values(), key=_per_request)
    by_pools = ([c for c in cheapest_first if bool(c.copies.point["pools"]) == pools] for pools in (True, False))
    first_candidates = (c for kind, most in zip(by_pools, _TRIED, strict=True) for c in kind[:most])
    return sorted(first_candidates, key=_per_request)


def _per_request(candidate: _Candidate) -> float:
    """Boxes for each request per second."""
    return candidate.copies.boxes / float(candidate.copies.point["requests_per_second"])


def _tried(fleet: Copies, copies: int, box: int) -> Facts:
    names = ("layout", "units", "weights", "kv", "batch", "draft_tokens")
    return {
        **{name: fleet.point[name] for name in names},
        "copies": copies,
        "accelerators": copies * fleet.boxes * box if copies else None,
    }


def _facts(
    r: PlanRequest,
    system: System,
    rate: float,
    limits: Limits,
    fleet: Copies,
    copies: int,
    box: int,
    most: int,
) -> Facts:
    unit = fleet.boxes * box
    room = most // fleet.boxes
    price = catalogue.price_of(system, r.usd_per_gpu_hour)
    low, high = (fleet.fewest(copies, limits, min(_WIDER * copies, room), end) for end in (0, 1))
    changes = [
        {
            "change": f"{quantity} {percentile} of {limit * _SLACK:.3g} s instead of {limit:.3g} s",
            "accelerators": unit * fleet.fewest(copies, {**limits, (quantity, percentile): limit * _SLACK}, room),
        }
        for (quantity, percentile), limit in limits.items()
    ]
    return {
        "model": fleet.request.model if isinstance(fleet.request.model, str) else fleet.request.model.name,
        "system": system.name,
        "rate": rate,
        "accelerators": copies * unit,
        "boxes": copies * fleet.boxes,
        "copies": copies,
        "accelerators_per_copy": unit,
        "accelerators_range": [unit * low, unit * high if high else None],
        "usd_per_hour": None if price is None else price * 3600 * copies * unit,
        "deployment": {name: value for name, value in fleet.point.items() if name != "pools"},
        "chosen": _at(fleet, copies, unit, limits),
        "smaller": _at(fleet, copies - 1, unit, limits) if copies > 1 else None,
        "larger": _at(fleet, copies + 1, unit, limits) if copies < room else None,
        "changes": changes,
    }


def _assumptions(f: Facts, box: int, plan: PlanResult) -> list[str]:
    boxes = "accelerators one by one" if box == 1 else f"whole boxes of {box}"
    return [f"Poisson arrivals, {f['chosen']['requests']:,} requests of equal lengths; {boxes}", *plan.assumptions]


def _at(fleet: Copies, copies: int, unit: int, limits: Limits) -> Facts:
    """What users of a number of copies see, limit by limit."""
    facts = fleet.facts(copies)
    rows = [
        {
            "quantity": KEYS[name[0]],
            "percentile": name[1],
            "limit": limit,
            "value": fleet.reached(copies, *name),
            "range": [fleet.reached(copies, *name, 0), fleet.reached(copies, *name, 1)],
            "kept": fleet.reached(copies, *name) <= limit,
        }
        for name, limit in limits.items()
    ]
    return {
        "accelerators": copies * unit,
        "requests": facts["requests"],
        "limits": rows,
        "utilisation": facts["utilisation"],
        "usd_per_million_tokens": facts["usd_per_million_tokens"],
        "kilowatts": None if facts["energy_kwh"] is None else facts["energy_kwh"] * 3600 / facts["span"],
    }


def _figure(f: Facts) -> Figure:
    """Percentiles over their limits against accelerators: what is below one is kept."""
    sizes = [part for part in (f["smaller"], f["chosen"], f["larger"]) if part is not None]
    series = [
        Series(
            name=f"{row['quantity'].replace('_', ' ')} {row['percentile']}",
            x=[float(size["accelerators"]) for size in sizes],
            y=[size["limits"][i]["value"] / row["limit"] for size in sizes],
            low=[size["limits"][i]["range"][0] / row["limit"] for size in sizes],
            high=[size["limits"][i]["range"][1] / row["limit"] for size in sizes],
        )
        for i, row in enumerate(f["chosen"]["limits"])
    ]
    ends = [float(size["accelerators"]) for size in (sizes[0], sizes[-1])]
    series.append(Series(name="limit", x=ends, y=[1.0, 1.0], colour=5))
    return Figure(
        title=f"{f['model']} at {f['rate']:g} requests/s on {f['system']}: {f['accelerators']} accelerators",
        panels=[Panel(across="accelerators", up="reached / limit", series=series, log_up=True)],
        note="below 1 a limit is kept; ends are those of the range of steps",
    )
