"""From engine and workload to the price page of a provider that knows its costs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import numpy as np

from rackmath import units
from rackmath.api import kinds, options
from rackmath.api.deployment_costs import SLOWEST, AnswerCosts, CostedDeployment, prompt_costs
from rackmath.api.energy import NOTE, energy_of_service
from rackmath.api.fields import Option, read_fields
from rackmath.api.result import Result
from rackmath.api.subjects import load_model, system_of
from rackmath.caching.tiers import TierCost, tier_costs
from rackmath.engine import Losses
from rackmath.errors import InputError
from rackmath.figures.token_costs import token_cost_figure
from rackmath.hardware import Chip, System
from rackmath.io import catalogue, constants_file, price_book
from rackmath.io.constants_file import DEFAULT_ENGINE, FAMILIES, NOW
from rackmath.models.architecture import Architecture
from rackmath.models.cache import cache_bytes
from rackmath.prices.forward import CostCurve, curve, margin_of, rational_page
from rackmath.serving.contexts import ContextCost
from rackmath.serving.token_costs import Demand, PromptCost
from rackmath.serving.variants import as_read

_SHORTEST = 500.0
_PER_DECADE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRequest:
    """A deployment, its requests, and a list to hold against their cost."""

    model: Annotated[str | Architecture, options.MODEL]
    on: Annotated[str | System, options.SYSTEM]
    gpus: Annotated[int, options.GPUS.but(help="Accelerators of a copy that answers.", kind=kinds.whole(1, 100000))]
    prefill_gpus: Annotated[
        int | None,
        Option(help="Accelerators of a copy that reads prompts (default: as many).", kind=kinds.whole(1, 100000)),
    ] = None
    layout: Annotated[str | None, options.LAYOUT.but(help="Layout that answers (default: the cheapest).")] = None
    prefill_layout: Annotated[
        str | None, options.LAYOUT.but(help="Layout that reads prompts (default: the cheapest).")
    ] = None
    weights: Annotated[str | None, options.WEIGHTS] = None
    kv: Annotated[str | None, options.CACHE] = None
    two_batch: Annotated[
        bool, Option(help="Two half-batches overlap computation and expert exchange.", kind=kinds.FLAG)
    ] = False
    batch: Annotated[
        float | None, Option(help="Sequences of a copy that answers, instead of --speed.", kind=kinds.NUMBER)
    ] = None
    speed: Annotated[float, Option(help="Tokens per second that a reader gets.", kind=kinds.SPEED)] = 20.0
    fast: Annotated[float, Option(help="Speed of the fast tier over that.", kind=kinds.NUMBER)] = 2.5
    input: Annotated[float, Option(help="Mean tokens of a prompt.", kind=kinds.NUMBER)] = 2900.0
    output: Annotated[float, Option(help="Mean tokens of an answer.", kind=kinds.NUMBER)] = 400.0
    hit: Annotated[
        float,
        Option(
            help="Part of prompts that is found in a cache.", kind=kinds.NUMBER, names=("--hit", "--cache-hit-rate")
        ),
    ] = 0.0
    spread: Annotated[float, Option(help="Deviation of ln prompt length.", kind=kinds.NUMBER)] = 0.9
    to: Annotated[float, Option(help="Longest context sold, in tokens.", kind=kinds.NUMBER)] = 131072.0
    utilisation: Annotated[float, Option(help="Part of the time in use.", kind=kinds.NUMBER)] = 0.8
    margin: Annotated[float, Option(help="Part of the price that is kept.", kind=kinds.NUMBER)] = 0.0
    engine: Annotated[str, options.ENGINE.but(kind=kinds.choice(*FAMILIES, "other"))] = DEFAULT_ENGINE
    year: Annotated[float, options.YEAR] = NOW
    usd_per_gpu_hour: Annotated[float | None, options.USD_PER_GPU_HOUR] = None
    grid: Annotated[float | None, options.GRID] = None
    sold_as: Annotated[str | None, Option(help="Model of genai-prices whose list is held against the cost.")] = None
    provider: Annotated[
        str | None, Option(help="Provider that sells it (default: who has the fullest price list of it).")
    ] = None
    date: Annotated[str | None, Option(help="Day of that list, as in 2026-11-21 (default: today).")] = None
    ideal: Annotated[bool, options.IDEAL] = False

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)


def run_cost(r: CostRequest) -> Result:
    """Cost of input, cached and output tokens by context, and the page that covers it: tiers, cache, batch, fast.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range.
    """
    family, system = "" if r.ideal else r.engine, system_of(r.on)
    architecture, notes = as_read(load_model(r.model), family, r.weights, r.kv)
    price = catalogue.price_of(system, r.usd_per_gpu_hour)
    if price is None:
        raise InputError("--usd-per-gpu-hour", None, f"no price of {system.name} is known: give one")
    for field, value, low, high in (
        ("--speed", r.speed, 1e-3, 1e5),
        ("--fast", r.fast, 1.0, 100.0),
        ("--to", r.to, 2 * _SHORTEST, 1e9),
        ("--batch", r.batch, 1.0, 1e9),
    ):
        if value is not None and not low <= value <= high:
            raise InputError(field, value, f"write a number from {low:g} to {high:g}")
    demand = Demand(prompt=r.input, answer=r.output, hit=r.hit, spread=r.spread, longest=r.to)
    version = constants_file.engine_of(system, r.engine, r.year)
    losses: dict[str, Losses | None] = {
        kind: None if r.ideal else constants_file.losses_of(system, version, kind)
        for kind in ("prompt pass", "time per token")
    }
    decode = CostedDeployment(
        architecture=architecture,
        system=system,
        gpus=r.gpus,
        layout=r.layout,
        two_batch=float(r.two_batch),
        losses=losses["time per token"],
        family=family,
    )
    prefill = replace(decode, gpus=r.prefill_gpus or r.gpus, layout=r.prefill_layout, losses=losses["prompt pass"])
    # A batch that is given is the mean one, so idle places are in it already.
    duty = r.utilisation, 1.0 if r.batch else r.utilisation
    facts = _facts(prefill, AnswerCosts(decode, r.batch), demand, price, (1 / r.speed, r.fast), duty, r.margin, r.grid)
    facts["assumptions"] = [
        *notes,
        *catalogue.price_note(system, r.usd_per_gpu_hour),
        f"accelerators that read work {duty[0]:.0%} of the time, those that write {duty[1]:.0%}; margin {r.margin:.0%}",
        f"prompts of {r.input:g} tokens in the mean, log-normal with deviation {r.spread:g}; {r.hit:.1%} of them found",
        f"answers of {r.output:g} tokens, read and written on machines of their own",
        "the bound, without losses"
        if r.ideal
        else f"{'an engine of its own' if r.engine == 'other' else r.engine} of {r.year:g}",
        "an answer's cost is that of a batch of its own context; caches wait beside the accelerators",
        *([f"{NOTE}; an idle accelerator runs and waits"] if facts["energy"] else []),
    ]
    if r.sold_as is not None:
        at = units.day(r.date, "--date") if r.date else None
        prices = price_book.price_list(r.sold_as, r.provider, at)
        facts["margin"] = {
            "sold_as": prices.model,
            "provider": prices.provider,
            **asdict(margin_of(prices, demand, facts["page"])),
        }
    return Result(request=r, facts=facts, draw=lambda: token_cost_figure(facts))


def _facts(
    prefill: CostedDeployment,
    answers: AnswerCosts,
    demand: Demand,
    price: float,
    pace: tuple[float, float],
    duty: tuple[float, float],
    margin: float,
    grid: float | None,
) -> dict[str, Any]:
    """Curve, page, rates and energy; ``pace``: time per token and the fast tier's speed; ``duty``: parts of time."""
    slowest, fast = pace
    contexts = np.geomspace(_SHORTEST, demand.longest, int(np.log10(demand.longest / _SHORTEST) * _PER_DECADE) + 2)
    decode = answers.deployment
    read_costs = prompt_costs(prefill, contexts, demand.parts(contexts), demand.hit)
    answer_costs = answers.at(contexts, slowest)
    costs = curve(contexts, read_costs, answer_costs, price, duty, margin)
    here = np.array([demand.context])
    usual = answers.at(here, slowest)
    standard = float(usual.gpu_seconds[0])
    exact = prompt_costs(prefill, *demand.lengths(), demand.hit, read_costs.layout)
    page = rational_page(
        costs,
        demand,
        _tiers(decode, demand, costs, price, True),
        _tiers(decode, demand, costs, price, False),
        batch=None if answers.batch else float(answers.at(here, SLOWEST).gpu_seconds[0]) / standard,
        fast=None if answers.batch else answers.ratio(here, slowest / fast, standard),
    )
    return {
        "model": decode.architecture.name,
        "system": decode.system.name,
        "gpus": decode.gpus,
        "prefill_layout": read_costs.layout.text(),
        "curve": costs,
        "servable_to": answer_costs.servable_to,
        "page": page,
        "rates": _rates(exact, demand, usual),
        "energy": _energy(exact, demand, usual, duty, decode.system.chip, grid),
        "fast_speed": fast,
        "margin": None,
    }


def _rates(exact: PromptCost, demand: Demand, answers: ContextCost) -> dict[str, Any]:
    """Tokens per second of one accelerator, as engineers measure them: found tokens count as read."""
    lengths, parts = demand.lengths()
    new = parts * lengths * (1 - demand.hit)

    def rate(seconds: Any) -> float:
        return float(np.sum(parts * lengths) / np.sum(new * seconds))

    return {
        "input": rate(exact.seconds),
        "input_low": rate(exact.high),
        "input_high": rate(exact.low),
        "output": 1 / float(answers.gpu_seconds[0]),
        "output_low": 1 / float(answers.high[0]),
        "output_high": 1 / float(answers.low[0]),
        "layout": answers.layout[0],
        "batch": float(answers.batch[0]),
        "time_per_output_token": float(answers.time[0]),
    }


def _energy(
    exact: PromptCost,
    demand: Demand,
    answers: ContextCost,
    duty: tuple[float, float],
    chip: Chip,
    grid: float | None,
) -> dict[str, Any] | None:
    """Energy of a token that is read, found ones not counted, and of one that is written; idle time included."""
    if chip.power is None:
        return None
    lengths, parts = demand.lengths()
    share = parts * lengths / np.sum(parts * lengths)
    times_read = (exact.seconds, exact.low, exact.high, exact.memory_time, exact.compute_time)
    times_written = (answers.gpu_seconds, answers.low, answers.high, answers.memory_time, answers.compute_time)
    prompt_times, answer_times = [float(t @ share) for t in times_read], [float(t[0]) for t in times_written]
    return {
        kind: energy_of_service(total, memory, compute, (low / total, high / total), chip, grid, part)
        for kind, (total, low, high, memory, compute), part in zip(
            ("input", "output"), (prompt_times, answer_times), duty, strict=True
        )
    }


def _tiers(decode: CostedDeployment, demand: Demand, costs: CostCurve, price: float, overlap: bool) -> list[TierCost]:
    """Where a prompt's cache can wait; its load overlaps other work, or the accelerator waits for it."""
    into, _ = costs.at(min(demand.prompt, float(costs.contexts[-1])))
    return tier_costs(
        decode.system,
        catalogue.tiers().values(),
        kv_bytes=float(cache_bytes(decode.architecture, demand.prompt)) / demand.prompt,
        prefill_time=into / 1e6 / price,
        price=price,
        overlap=overlap,
    )
