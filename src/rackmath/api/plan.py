"""Every deployment of a model on a budget of accelerators: the request's answer and what can be done with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isinf
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from rackmath.api.deployment import Deployment, deployment_of
from rackmath.api.measured_points import measured_services
from rackmath.api.near_service import Service
from rackmath.api.plain import to_plain
from rackmath.api.plan_energy import energy_of_point
from rackmath.api.plan_launch import launched
from rackmath.api.plan_points import PointFacts
from rackmath.api.plan_question import PlanQuestion, PlanRequest, question_of
from rackmath.api.plan_verify import verification
from rackmath.api.shown import Shown
from rackmath.api.subjects import Cluster, Engine, Workload, engine_of, system_of
from rackmath.errors import InputError
from rackmath.figures import Figure, pictures
from rackmath.figures.plotly import plotly_figure
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.serving.plan import Plan
from rackmath.serving.plan import plan as search
from rackmath.serving.workload import Limits
from rackmath.units import show

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PlanResult(Shown):
    """The frontier of a search, the best point under limits, and why others lose."""

    question: PlanQuestion
    plan: Plan
    seconds: float
    """That the search took. [s]"""

    @property
    def request(self) -> PlanRequest:
        """What was asked."""
        return self.question.request

    @cached_property
    def points(self) -> list[dict[str, Any]]:
        """Points of the frontier with their ranges, fastest first."""
        return [self._facts.point(int(place)) for place in self.plan.frontier]

    @cached_property
    def frontier(self) -> pl.DataFrame:
        """:attr:`points` as a table of Polars, a row per deployment and batch."""
        import polars as pl

        rows = [{key: value for key, value in point.items() if key != "pools"} for point in self.points]
        return pl.DataFrame(rows, infer_schema_length=None)

    @cached_property
    def best(self) -> Deployment | None:
        """The best deployment under both limits; None where none keeps them, see :attr:`reason`."""
        return None if self.plan.best is None else self.deployment(self.plan.best)

    @property
    def reason(self) -> str:
        """Why no point keeps the limits; empty where one does."""
        return "" if self.plan.best is not None else _unmet(self.plan, self.question.limits)

    @property
    def assumptions(self) -> list[str]:
        """What a reader has to know of the numbers."""
        return [*self.question.notes, *(self.near.sentences if self.near else ())]

    @cached_property
    def near(self) -> Service | None:
        """What measurements near the best point say of it, or of the whole plan where no point keeps the limits."""
        if self.question.points_near is None or self.plan.best is None:
            return self.question.near
        best = self.plan.search.points.taken(np.array([self.plan.best]))
        steps = self.question.points_near.configurations(best, self.plan.search.layouts)[0]
        corrections = self.plan.search.corrections
        return Service.at(steps) if corrections is None else Service.at(steps).applied(corrections, self.plan.best)

    def deployment(self, place: int) -> Deployment:
        """A point of the search as a deployment."""
        return deployment_of(self.question.request, self._facts.point(place), launched(self.question, self.plan, place))

    @property
    def energy(self) -> dict[str, Any] | None:
        """Energy of an output token of the best, with its prompt; None where there is none, or no power is known."""
        best = self.plan.best
        return None if best is None else energy_of_point(self.question, self.plan.search, best)

    def to_dict(self) -> dict[str, Any]:
        """What ``rackmath plan --json`` prints."""
        plan, space = self.plan, self.question.space
        ending = plan.ending
        stop = {} if ending is None else {"stopped_by": ending.stopped_by, "used": ending.use}
        return to_plain(
            {
                "model": self.question.architecture.name,
                "system": self.question.system.name,
                "gpus": space.gpus,
                "engine": space.engine or None,
                "evaluated": plan.search.evaluated,
                "fitting": plan.search.fitting,
                "seconds": self.seconds,
                "frontier": [
                    point | {"launch": launched(self.question, plan, int(place))}
                    for place, point in zip(plan.frontier, self.points, strict=True)
                ],
                "best": None if plan.best is None else self._facts.point(plan.best) | stop,
                "reason": self.reason,
                "spent": dict(plan.seconds_by_use),
                "energy": self.energy,
                "runners_up": [
                    self._facts.point(loser.place)
                    | {
                        "behind": loser.behind,
                        "spends_more_on": loser.spends,
                        "stopped_by": loser.ending.stopped_by,
                    }
                    for loser in plan.losers
                ],
                "launch": {} if plan.best is None else launched(self.question, plan, plan.best),
                "evidence": None if self.near is None else self.near.to_dict(),
                "measured": self.measured,
                "assumptions": self.assumptions,
            }
        )

    @cached_property
    def measured(self) -> list[dict[str, Any]]:
        """Runs of the model on the chip whose lengths are near, as points beside the frontier."""
        q = self.question
        if q.near is None:
            return []
        return measured_services(q.architecture, q.system, q.work.input, q.work.output, gpus=float(q.space.gpus))

    def verification(self) -> dict[str, Any]:
        """Benchmarks of the best deployment, the range expected of each metric, and how to keep what they measure.

        Errors: :class:`~rackmath.errors.InputError` where no deployment keeps the limits.
        """
        if self.plan.best is None:
            raise InputError("--verify", "", self.reason)
        place = self.plan.best
        points = self.plan.search.points
        layout = None if points.prefill[place] >= 0 else self.plan.search.layouts[int(points.layout[place])]
        return verification(self.question, self._facts.point(place), layout)

    def write(self, folder: str | Path) -> list[str]:
        """Write the best deployment as a folder, and return the names of its files.

        Launch scripts, Docker Compose, Kubernetes, Helm values of llm-d, a resource of Dynamo, what to expect and how
        to check it.

        Errors: :class:`~rackmath.errors.InputError` for a folder that is there already or cannot be written, and where
        nothing keeps the limits.
        """
        from rackmath.api.plan_files import write_plan

        return write_plan(self, Path(folder))

    def picture(self) -> Figure:
        """Throughput against speed, and cost, as data."""
        return pictures.frontier_figure(self.to_dict())

    def figure(self) -> Any:
        """Throughput against speed, and cost, as a figure of Plotly."""
        return plotly_figure(self.picture())

    @cached_property
    def _facts(self) -> PointFacts:
        return PointFacts(self.question, self.plan.search)

    def _tables(self) -> list[tuple[str, dict[str, Any]]]:
        facts = self.to_dict()
        return [("plan", facts | {"best": facts["reason"]} if self.best is None else facts["best"])]


def plan(
    model: str | Architecture,
    system: str | System | Cluster,
    workload: Workload,
    *,
    engine: Engine | str | None = None,
    **more: Any,
) -> PlanResult:
    """Search every sensible deployment, as ``rackmath plan`` does.

    Parameters
    ----------
    model, system
        Names, paths, or what :func:`load_model` and :func:`load_system` return.
    workload
        Requests and their limits.
    engine
        Whose losses and scheduling; :meth:`Engine.ideal` is the bound.
    **more
        Other fields of :class:`PlanRequest`, among them ``gpus`` where the system is a name.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range,
    :class:`~rackmath.errors.DoesNotFit` where nothing fits.
    """
    request = request_of(model, system, workload, engine, more)
    if request.gpus is None and request.usd_per_hour is None:
        raise InputError("gpus", None, "say how many, as in load_system(name, gpus=32)")
    return run_plan(request)


def request_of(
    model: str | Architecture,
    system: str | System | Cluster,
    workload: Workload,
    engine: Engine | str | None,
    more: Mapping[str, Any],
) -> PlanRequest:
    """A request with the records of the public interface."""
    w = workload
    fields: dict[str, Any] = {
        "model": model,
        "on": system_of(system),
        "gpus": system.gpus if isinstance(system, Cluster) else None,
        "input": w.input,
        "output": w.output,
        "ttft": w.ttft,
        "tpot": w.tpot,
        "rate": w.rate,
        "cached_prefix": w.cached_prefix,
        **(engine_of(engine).options if engine is not None else {}),
    }
    return PlanRequest(**{**fields, **more})


def run_plan(request: PlanRequest) -> PlanResult:
    """Answer a request.

    Errors: as of :func:`plan`.
    """
    q = question_of(request)
    start = perf_counter()
    answer = search(q.system, q.work, q.limits, q.space, q.losses, q.scheduling, q.correct)
    return PlanResult(question=q, plan=answer, seconds=perf_counter() - start)


def _unmet(result: Plan, limits: Limits) -> str:
    """Why no point keeps the limits, and how near the nearest comes."""
    p = result.search.points
    if not len(result.frontier):
        return (
            f"the shortest time to first token is {show(float(p.time_to_first_token.min()), 's')}:"
            " allow a longer --ttft, or use more --gpus"
        )
    fastest = float(p.time_per_output_token[result.frontier].min())
    within = "" if isinf(limits.time_to_first_token) else f"within {limits.time_to_first_token:g} s to the first token "
    return f"{within}the fastest takes {show(fastest, 's')} per output token: allow a longer --tpot, or use more --gpus"
