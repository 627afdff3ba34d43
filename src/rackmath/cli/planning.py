"""What ``plan`` and its kin ask for: a model, a system, requests, limits, and the choices that are open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from rackmath import catalogue, constants_file
from rackmath.cli.inputs import (
    FAMILIES,
    NOW,
    engine_of,
    losses_of,
    names,
    numbers,
    price_note,
    price_of,
    scheduling_of,
)
from rackmath.engine import Losses
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.formats import cache_format, weight_format
from rackmath.serving import Scheduling
from rackmath.serving.plan import space_of
from rackmath.serving.workload import Limits, Space, Workload

_OPTIONS = (
    click.option("--gpus", type=int, required=True, help="Accelerators at most."),
    click.option("--input", "input_", type=float, required=True, help="Tokens of a prompt."),
    click.option("--output", type=float, required=True, help="Tokens of an answer."),
    click.option("--ttft", type=float, help="Limit on the mean time to first token, in seconds."),
    click.option("--tpot", type=float, help="Limit on the mean time per output token, in seconds."),
    click.option(
        "--cached-prefix", type=float, default=0.0, help="Part of a prompt whose cache is there already, 0 to 1."
    ),
    click.option("--rate", type=float, help="Requests per second to serve; by default as many as possible."),
    click.option("--weights", help="Formats of the weights to try, such as fp8,nvfp4 (default: what the chip has)."),
    click.option("--kv", help="Formats of the cache to try, such as bf16,fp8 (default: what the chip has)."),
    click.option("--drafted", help="Tokens to speculate, such as 0,1,3 (default: 0 to 3 where the model has MTP)."),
    click.option("--one-pool", is_flag=True, help="Leave out prompts that are read on accelerators of their own."),
    click.option("--engine", type=click.Choice(FAMILIES), default="sglang", show_default=True),
    click.option("--year", type=float, default=NOW, show_default=True, help="When the engine's version is from."),
    click.option("--usd-per-gpu-hour", type=float, help="Price of one accelerator, if not the catalogue's."),
    click.option("--ideal", "as_ideal", is_flag=True, help="The pure bound, without an engine's losses."),
)


def planning_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of :class:`Asked`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


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
    price: float | None
    """Of one accelerator. [USD/s]"""
    notes: tuple[str, ...]

    def range(self, kind: str) -> tuple[float, float]:
        """90 % range of measured over predicted values of a class; none of the pure bound."""
        if self.losses is None:
            return 1.0, 1.0
        return constants_file.constants().range(kind, self.system.chip.name)


def asked(model: str, on: str, given: dict[str, Any]) -> Asked:
    """Read a model, a system and the options of :func:`planning_options`.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range.
    """
    architecture, system = catalogue.model(model), catalogue.system(on)
    work = Workload(
        input=given["input_"],
        output=given["output"],
        cached=given["cached_prefix"],
        rate=float("inf") if given["rate"] is None else given["rate"],
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
        weights=[weight_format(name).name for name in names(given["weights"])],
        kv=[cache_format(name) and name for name in names(given["kv"])],
        drafted=numbers(given["drafted"], "--drafted", 0, 16),
        pools=not given["one_pool"],
    )
    engine = engine_of(system, given["engine"], given["year"])
    ideal = given["as_ideal"]
    return Asked(
        architecture=architecture,
        system=system,
        work=work,
        limits=limits,
        space=space,
        losses=None if ideal else losses_of(system, engine, "time per token"),
        scheduling=scheduling_of(engine),
        price=price_of(system, given["usd_per_gpu_hour"]),
        notes=(
            *price_note(system, given["usd_per_gpu_hour"]),
            *_assumptions(given["engine"], given["year"], space, ideal),
        ),
    )


def _assumptions(engine: str, year: float, space: Space, ideal: bool) -> list[str]:
    drafts = (
        "tokens are drafted by the model's own layers; each is accepted with the fitted chance, given those before it"
        if any(space.drafted)
        else "no speculative decoding: the model brings no layers for it (see --drafted)"
    )
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
