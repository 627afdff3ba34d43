"""What is asked of a plan, and the records of the engine and of the search behind it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Annotated

from rackmath.api import kinds, options
from rackmath.api.apart import AFD_NOTE, apart_range
from rackmath.api.drafts import MOST, draft_model_of, drafting
from rackmath.api.fields import Option, read_fields
from rackmath.api.images import PromptFields, image_tokens, prompt_notes, served_model
from rackmath.api.lists import names, numbers
from rackmath.api.near_points import CLASSES, PointsNear
from rackmath.api.near_service import Service, service_near
from rackmath.api.rates import requests_per_second
from rackmath.api.rented import accelerators, billing_note
from rackmath.api.subjects import system_of
from rackmath.engine import Losses
from rackmath.engine.constants import EngineVersion
from rackmath.engine.layout import expert_count
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.hardware.power import cap_note
from rackmath.io import catalogue, constants_file
from rackmath.io.constants_file import DEFAULT_ENGINE, NOW
from rackmath.models.architecture import Architecture
from rackmath.models.formats import weight_format
from rackmath.serving import Scheduling
from rackmath.serving.corrections import Corrector
from rackmath.serving.engines import deals_layers
from rackmath.serving.launch_boxes import rented_together
from rackmath.serving.plan import space_of
from rackmath.serving.search import SearchResult
from rackmath.serving.startup.rules import memory_note
from rackmath.serving.variants import format_notes
from rackmath.serving.workload import Limits, PlanWorkload, Space

_PERCENTILE = "Limit on the {} percentile of the {}, in seconds."
PERCENTILE_LIMITS = tuple((quantity, p) for quantity in ("ttft", "tpot") for p in ("p90", "p95", "p99"))
"""Quantities and percentiles that may be limited: the parts of the names of their fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest(PromptFields):
    """A model, a system, requests, limits, and the choices that are open."""

    model: Annotated[str | Architecture, options.MODEL]
    on: Annotated[str | System, options.SYSTEM]
    gpus: Annotated[
        int | None,
        options.GPUS.but(help="Accelerators at most; with --rate and limits on percentiles the fewest are searched."),
    ] = None
    usd_per_hour: Annotated[
        float | None,
        Option(
            help="Dollars per hour to spend, instead of --gpus, as 100$/h.",
            kind=kinds.DOLLARS_PER_HOUR,
            names=("--budget",),
        ),
    ] = None
    input: Annotated[float, options.INPUT]
    output: Annotated[float, options.OUTPUT]
    ttft: Annotated[float | None, options.TTFT] = None
    tpot: Annotated[float | None, options.TPOT] = None
    ttft_p90: Annotated[float | None, options.TTFT.but(help=_PERCENTILE.format("90th", "time to first token"))] = None
    ttft_p95: Annotated[float | None, options.TTFT.but(help=_PERCENTILE.format("95th", "time to first token"))] = None
    ttft_p99: Annotated[float | None, options.TTFT.but(help=_PERCENTILE.format("99th", "time to first token"))] = None
    tpot_p90: Annotated[float | None, options.TPOT.but(help=_PERCENTILE.format("90th", "time per token"))] = None
    tpot_p95: Annotated[float | None, options.TPOT.but(help=_PERCENTILE.format("95th", "time per token"))] = None
    tpot_p99: Annotated[float | None, options.TPOT.but(help=_PERCENTILE.format("99th", "time per token"))] = None
    cached_prefix: Annotated[float, options.CACHED_PREFIX] = 0.0
    rate: Annotated[float | None, options.RATE] = None
    weights: Annotated[
        str | None,
        options.WEIGHTS.but(help="Formats of the weights to try, such as fp8,nvfp4 (default: what the chip has)."),
    ] = None
    kv: Annotated[
        str | None,
        options.CACHE.but(help="Formats of the cache to try, such as bf16,fp8 (default: what the chip has)."),
    ] = None
    draft_tokens: Annotated[
        str | None,
        options.DRAFT_TOKENS.but(
            help="Tokens to speculate, such as 0,1,3 (default: 0 to 3 where the model has MTP).", kind=kinds.NUMBERS
        ),
    ] = None
    acceptance: Annotated[
        str | None,
        options.ACCEPTANCE.but(
            help="Chance that a drafted token is accepted, given those before it (default: as measured)."
        ),
    ] = None
    draft_model: Annotated[
        str | Architecture | None, options.DRAFT_MODEL.but(help="Model that drafts, as in --draft-model llama-3.2-1b.")
    ] = None
    bill_used: Annotated[
        bool, Option(help="Pay for accelerators in use only, not for whole boxes.", kind=kinds.FLAG)
    ] = False
    one_pool: Annotated[
        bool,
        Option(
            help="Leave out prompts that are read on accelerators of their own.",
            kind=kinds.FLAG,
            names=("--one-pool", "--no-disaggregation"),
        ),
    ] = False
    afd: Annotated[
        bool,
        Option(
            help="Also try routed experts on accelerators of their own (attention-FFN disaggregation).",
            kind=kinds.FLAG,
        ),
    ] = False
    grid: Annotated[float | None, options.GRID] = None
    engine: Annotated[str, options.ENGINE] = DEFAULT_ENGINE
    year: Annotated[float, options.YEAR] = NOW
    usd_per_gpu_hour: Annotated[float | None, options.USD_PER_GPU_HOUR] = None
    ideal: Annotated[bool, options.IDEAL] = False
    no_evidence: Annotated[bool, options.NO_EVIDENCE] = False

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)
        if self.gpus is not None and self.usd_per_hour is not None:
            raise InputError("--budget", self.usd_per_hour, "give --gpus or --budget, not both")
        if self.afd and self.one_pool:
            raise InputError("--afd", self.afd, "prompts are read elsewhere then: leave --one-pool out")

    @property
    def asks_for_size(self) -> bool:
        """Whether the fewest accelerators are asked for, which simulations search."""
        return bool(self.percentiles) or (self.rate is not None and self.gpus is None and self.usd_per_hour is None)

    @property
    def percentiles(self) -> dict[tuple[str, str], float]:
        """Limits on percentiles: quantity and percentile -> limit. [s]"""
        limits = {name: getattr(self, "_".join(name)) for name in PERCENTILE_LIMITS}
        return {name: limit for name, limit in limits.items() if limit is not None}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanQuestion:
    """The question behind a plan, ready for :func:`rackmath.serving.plan.plan`."""

    request: PlanRequest
    architecture: Architecture
    system: System
    work: PlanWorkload
    limits: Limits
    space: Space
    losses: Losses | None
    scheduling: Scheduling
    engine: EngineVersion
    price: float | None
    """Of one accelerator. [USD/s]"""
    notes: tuple[str, ...]
    near: Service | None = None
    """What measurements near it say as a whole, where they were asked: what the search is corrected by."""
    points_near: PointsNear | None = None
    """What measurements near single points say, where they were asked."""

    def range(self, kind: str) -> tuple[float, float]:
        """90 % range of measured over predicted values of a class; none of the pure bound."""
        if self.losses is None:
            return 1.0, 1.0
        computed_range = constants_file.range_of(self.system, self.engine, kind)
        return computed_range if self.near is None else self.near.range(kind, computed_range)

    def range_at(self, search: SearchResult, place: int, kind: str) -> tuple[float, float]:
        """The same of one point of a search, which may have a range of its own."""
        if search.corrections is None:
            layout = search.layouts[int(search.points.layout[place])]
            return self.range(kind) if self.losses is None else apart_range(layout, kind, self.range(kind))
        low, high = search.corrections.ranges[kind][place]
        return float(low), float(high)

    @property
    def correct(self) -> Corrector | None:
        """Says what measurements near points say; None where they were not asked."""
        return None if self.points_near is None else self.points_near.corrections


def question_of(r: PlanRequest) -> PlanQuestion:
    """Read the model, the system and the choices of a request.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range.
    """
    system = system_of(r.on)
    architecture = served_model(r, r.model, system)
    gpus, family = accelerators(r, system), "" if r.ideal else r.engine
    if r.afd and not expert_count(architecture):
        raise InputError("--afd", r.afd, f"{architecture.name} has no routed experts")
    work, limits = _asked(r, image_tokens(architecture))
    space = space_of(
        architecture,
        system,
        gpus,
        weights=[weight_format(name).name for name in names(r.weights, "--weights")],
        kv=names(r.kv, "--kv"),
        draft_tokens=numbers(r.draft_tokens, "--draft-tokens", 0, MOST),
        draft=draft_model_of(r.draft_model, architecture),
        pools=not (r.one_pool or deals_layers(family)),
        afd=r.afd,
        box=1 if r.bill_used else rented_together(system),
        engine=family,
        graphs=not r.enforce_eager,
    )
    engine = constants_file.engine_of(system, r.engine, r.year, r.enforce_eager)
    drafts = drafting(architecture, engine, max(space.draft_tokens), r.acceptance, space.draft)
    losses = None if r.ideal else constants_file.losses_of(system, engine, "time per token")
    at = None
    if losses is not None and not (r.no_evidence or r.enforce_eager or r.afd):
        first = space.variants[0].architecture
        at = service_near(
            first,
            system,
            engine=r.engine,
            year=r.year,
            gpus=float(gpus),
            input=work.input,
            output=work.output,
            cached_prefix=work.cached_prefix,
        )
        losses = at.corrected(losses)
    return PlanQuestion(
        request=r,
        architecture=architecture,
        system=system,
        work=work,
        limits=limits,
        space=space,
        losses=losses,
        scheduling=replace(constants_file.scheduling_of(engine), acceptance=drafts.chance),
        engine=engine,
        price=catalogue.price_of(system, r.usd_per_gpu_hour),
        near=at,
        points_near=None if at is None else _points_near(r, system, work, space, engine),
        notes=(
            *catalogue.price_note(system, r.usd_per_gpu_hour),
            *_assumptions(r, drafts.note),
            billing_note(space),
            *prompt_notes(r, architecture),
            *cap_note(system.chip),
            *([AFD_NOTE] if r.afd else []),
            *(losses.assumptions if losses else ()),
        ),
    )


def _asked(r: PlanRequest, images: float) -> tuple[PlanWorkload, Limits]:
    """Requests, with so many tokens of images in each prompt, and the limits on averages of their times."""
    if r.percentiles:
        raise InputError("--rate", "", "limits on percentiles need a rate, and are what rackmath.size searches")
    prompt = r.input + images
    work = PlanWorkload(
        input=prompt,
        output=r.output,
        # What the cache holds of a prompt is text; a prompt below one token is refused.
        cached_prefix=r.cached_prefix * r.input / max(prompt, 1.0),
        rate=inf if r.rate is None else requests_per_second(r.rate, r.output),
    )
    limits = Limits(
        time_to_first_token=inf if r.ttft is None else r.ttft,
        time_per_output_token=inf if r.tpot is None else r.tpot,
    )
    return work, limits


def _points_near(r: PlanRequest, system: System, work: PlanWorkload, space: Space, engine: EngineVersion) -> PointsNear:
    return PointsNear(
        system=system,
        work=work,
        space=space,
        engine=r.engine,
        year=r.year,
        computed={name: constants_file.range_of(system, engine, name) for name in CLASSES},
    )


def _assumptions(r: PlanRequest, drafts: str) -> list[str]:
    basis = (
        "ideal bound: nothing is lost"
        if r.ideal
        else f"{r.engine} of {r.year:g}: losses and ranges fitted on {constants_file.constants().basis}"
    )
    return [
        basis,
        drafts,
        "a narrower format is taken as given: what it does to answers is not judged",
        "requests are alike, arrive as others finish, and never fail",
        *format_notes("" if r.ideal else r.engine, names(r.weights, "--weights"), names(r.kv, "--kv")),
        *memory_note("" if r.ideal else r.engine),
    ]
