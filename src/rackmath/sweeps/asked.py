"""Plain values, as a command or a row of a sweep holds them -> the question behind a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rackmath import catalogue, constants_file
from rackmath.drafts import MOST, drafting
from rackmath.engine import Losses
from rackmath.engine.constants import Engine
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.formats import cache_format, weight_format
from rackmath.rates import requests_per_second
from rackmath.serving import Scheduling
from rackmath.serving.launch_boxes import rented_together
from rackmath.serving.plan import space_of
from rackmath.serving.workload import Limits, Space, Workload
from rackmath.units import parse


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The question behind a plan, ready for :func:`rackmath.serving.plan.plan`."""

    architecture: Architecture
    system: System
    work: Workload
    limits: Limits
    space: Space
    losses: Losses | None
    scheduling: Scheduling
    engine: Engine
    draft_model: str | None
    """Name of the model that drafts."""
    price: float | None
    """Of one accelerator. [USD/s]"""
    notes: tuple[str, ...]

    def range(self, kind: str) -> tuple[float, float]:
        """90 % range of measured over predicted values of a class; none of the pure bound."""
        if self.losses is None:
            return 1.0, 1.0
        return constants_file.range_of(self.system, self.engine, kind)


def asked(model: str, on: str, given: Mapping[str, Any]) -> Asked:
    """Read a model, a system, and what was given by the names of the options.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range.
    """
    architecture, system = catalogue.model(model), catalogue.system(on)
    work = Workload(
        input=given["input_"],
        output=given["output"],
        cached=given["cached_prefix"],
        rate=float("inf") if given["rate"] is None else requests_per_second(given["rate"], given["output"]),
    )
    limits = Limits(
        **{
            field: given[option]
            for field, option in (("time_to_first_token", "ttft"), ("time_per_output_token", "tpot"))
            if given[option] is not None
        }
    )
    space = space_of(
        architecture,
        system,
        given["gpus"],
        weights=[weight_format(name).name for name in names(given["weights"], "--weights")],
        kv=[cache_format(name) and name for name in names(given["kv"], "--kv")],
        drafted=numbers(given["drafted"], "--drafted", 0, MOST),
        draft=catalogue.model(given["draft_model"]) if given["draft_model"] else None,
        pools=not given["one_pool"],
        box=1 if given["bill_used"] else rented_together(system),
    )
    engine = constants_file.engine_of(system, given["engine"], given["year"])
    drafts = drafting(architecture, engine, max(space.drafted), given["acceptance"], space.draft)
    ideal = given["as_ideal"]
    losses = None if ideal else constants_file.losses_of(system, engine, "time per token")
    return Asked(
        architecture=architecture,
        system=system,
        work=work,
        limits=limits,
        space=space,
        losses=losses,
        scheduling=replace(constants_file.scheduling_of(engine), acceptance=drafts.chance),
        engine=engine,
        draft_model=given["draft_model"],
        price=catalogue.price_of(system, given["usd_per_gpu_hour"]),
        notes=(
            *catalogue.price_note(system, given["usd_per_gpu_hour"]),
            *_assumptions(given["engine"], given["year"], drafts.note, ideal),
            _billing(space),
            *(losses.assumptions if losses else ()),
        ),
    )


def _assumptions(engine: str, year: float, drafts: str, ideal: bool) -> list[str]:
    basis = (
        "ideal bound: nothing is lost"
        if ideal
        else f"{engine} of {year:g}: losses and ranges fitted on {constants_file.constants().basis}"
    )
    return [
        basis,
        drafts,
        "a narrower format is taken as given: what it does to answers is not judged",
        "requests are alike, arrive as others finish, and never fail",
    ]


def _billing(space: Space) -> str:
    if space.box == 1:
        return "accelerators in use are paid for, others are not"
    return f"whole boxes of {space.box} are paid for, in use or not, up to --gpus (--bill-used: only what is used)"


def names(text: str | None, field: str) -> list[str]:
    """``a,b,c`` -> its parts; none where nothing was given.

    Errors: :class:`InputError` for text that holds no part.
    """
    if text is None:
        return []
    found = [part.strip().lower() for part in text.split(",") if part.strip()]
    if not found:
        raise InputError(field, text, "write at least one, or leave the option out")
    return found


def numbers(text: str | None, field: str, low: float, high: float) -> list[float]:
    """``1,2,3`` -> numbers from ``low`` to ``high``."""
    found: list[float] = []
    for part in names(text, field):
        try:
            value = parse(part, "1", field)
        except InputError as error:
            raise InputError(field, part, "write numbers with commas between them") from error
        if not low <= value <= high:
            raise InputError(field, part, f"write numbers from {low:g} to {high:g}")
        found.append(value)
    return found
