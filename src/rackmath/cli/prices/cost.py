"""``prices cost``: from engine and workload to the price page of a provider that knows its costs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click
import numpy as np

from rackmath import catalogue, constants_file, price_book, units
from rackmath.caching.tiers import TierCost, tier_costs
from rackmath.cli import render
from rackmath.cli.figures import save
from rackmath.cli.prices.cost_text import cost_figure, show_cost
from rackmath.cli.quantities import NUMBER, SPEED, Whole
from rackmath.constants_file import DEFAULT_ENGINE, FAMILIES, NOW
from rackmath.engine import Layout, Losses, parse_layout
from rackmath.engine.layout import candidate_layouts
from rackmath.errors import DoesNotFit, InputError
from rackmath.figures.write import check_picture
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.cache import cache_bytes
from rackmath.prices.forward import Curve, curve, margin_of, rational_page
from rackmath.serving.contexts import ContextCost, cost_against_context
from rackmath.serving.token_costs import Demand, Reading, reading

_SHORTEST = 500.0
_SLOWEST = 1e3
"""Time per token that a batch tier may take. [s]"""
_PER_DECADE = 6
_BATCHES = np.unique(np.round(2 ** (np.arange(0, 28 * 8) / 8)))
"""Sequences that are tried, 9 % apart: the limit on time decides between them."""


@click.command("cost", epilog="Example: rackmath prices cost llama-3.1-70b --on h100-sxm --gpus 8 --input 4000")
@click.argument("model")
@click.option("--on", "on", required=True, metavar="SYSTEM", help="Catalogue name, or path of a TOML file.")
@click.option("--gpus", type=Whole(1, 100_000), required=True, help="Accelerators of a copy that answers.")
@click.option("--prefill-gpus", type=Whole(1, 100_000), help="Of one that reads prompts (default: as many).")
@click.option("--layout", help="Layout that answers (default: the cheapest).")
@click.option("--prefill-layout", help="Layout that reads prompts (default: the cheapest).")
@click.option("--two-batch", is_flag=True, help="Two half-batches overlap computation and expert exchange.")
@click.option("--batch", type=NUMBER, help="Sequences of a copy that answers, instead of --speed.")
@click.option("--speed", type=SPEED, default=20.0, show_default=True, help="Tokens per second that a reader gets.")
@click.option("--fast", type=NUMBER, default=2.5, show_default=True, help="Speed of the fast tier over that.")
@click.option("--input", "prompt", type=NUMBER, default=2900.0, show_default=True, help="Mean tokens of a prompt.")
@click.option("--output", type=NUMBER, default=400.0, show_default=True, help="Mean tokens of an answer.")
@click.option("--hit", type=NUMBER, default=0.0, show_default=True, help="Part of prompts that is found in a cache.")
@click.option("--spread", type=NUMBER, default=0.9, show_default=True, help="Deviation of ln prompt length.")
@click.option("--to", type=NUMBER, default=131_072.0, show_default=True, help="Longest context sold, in tokens.")
@click.option("--utilisation", type=NUMBER, default=0.8, show_default=True, help="Part of the time in use.")
@click.option("--margin", type=NUMBER, default=0.0, show_default=True, help="Part of the price that is kept.")
@click.option("--engine", type=click.Choice((*FAMILIES, "other")), default=DEFAULT_ENGINE, show_default=True)
@click.option("--year", type=NUMBER, default=NOW, show_default=True, help="When the engine's version is from.")
@click.option("--usd-per-gpu-hour", type=NUMBER, help="Price of one accelerator, if not the catalogue's.")
@click.option("--sold-as", help="Model of genai-prices whose list is held against the cost.")
@click.option("--provider", help="Who sells it (default: who has the fullest price list of it).")
@click.option("--date", "day", help="Day of that list, as in 2026-11-21 (default: today).")
@click.option("--ideal", is_flag=True, help="The pure bound, without an engine's losses.")
@click.option("--plot", metavar="FILE", help="Draw cost and page: FILE.html, FILE.png or FILE.svg.")
@click.option("--explain", is_flag=True, help="Show the equations with their numbers.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def cost_prices(
    model: str,
    on: str,
    gpus: int,
    prefill_gpus: int | None,
    layout: str | None,
    prefill_layout: str | None,
    two_batch: bool,
    batch: float | None,
    speed: float,
    fast: float,
    prompt: float,
    output: float,
    hit: float,
    spread: float,
    to: float,
    utilisation: float,
    margin: float,
    engine: str,
    year: float,
    usd_per_gpu_hour: float | None,
    sold_as: str | None,
    provider: str | None,
    day: str | None,
    ideal: bool,
    plot: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Cost of input, cached and output tokens by context, and the page that covers it: tiers, cache, batch, fast.

    MODEL is a catalogue name, a path to a config.json, or a folder that holds one.
    """
    drawn = check_picture(plot)
    architecture, system = catalogue.model(model), catalogue.system(on)
    price = catalogue.price_of(system, usd_per_gpu_hour)
    if price is None:
        raise InputError("--usd-per-gpu-hour", None, f"no price of {system.name} is known: give one")
    for field, value, low, high in (
        ("--speed", speed, 1e-3, 1e5),
        ("--fast", fast, 1.0, 100.0),
        ("--to", to, 2 * _SHORTEST, 1e9),
        ("--batch", batch, 1.0, 1e9),
    ):
        if value is not None and not low <= value <= high:
            raise InputError(field, value, f"write a number from {low:g} to {high:g}")
    demand = Demand(prompt=prompt, answer=output, hit=hit, spread=spread, longest=to)
    version = constants_file.engine_of(system, engine, year)
    losses: dict[str, Losses | None] = {
        kind: None if ideal else constants_file.losses_of(system, version, kind)
        for kind in ("prompt pass", "time per token")
    }
    readers = _Readers(
        architecture, system, prefill_gpus or gpus, prefill_layout, float(two_batch), losses["prompt pass"]
    )
    answers = _Answers(architecture, system, gpus, layout, batch, float(two_batch), losses["time per token"])
    # A batch that is given is the mean one, so idle places are in it already.
    used = utilisation, 1.0 if batch else utilisation
    facts = _facts(readers, answers, demand, price, (1 / speed, fast), used, margin)
    facts["assumptions"] = [
        *catalogue.price_note(system, usd_per_gpu_hour),
        f"accelerators that read work {used[0]:.0%} of the time, those that write {used[1]:.0%}; margin {margin:.0%}",
        f"prompts of {prompt:g} tokens in the mean, log-normal with deviation {spread:g}; {hit:.1%} of them found",
        f"answers of {output:g} tokens, read and written on machines of their own",
        "the bound, without losses"
        if ideal
        else f"{'an engine of its own' if engine == 'other' else engine} of {year:g}",
        "an answer's cost is that of a batch of its own context; caches wait beside the accelerators",
    ]
    if sold_as is not None:
        at = units.day(day, "--date") if day else None
        prices = price_book.price_list(sold_as, provider, at)
        facts["margin"] = {
            "sold_as": prices.model,
            "provider": prices.provider,
            **asdict(margin_of(prices, demand, facts["page"])),
        }
    if drawn is not None:
        save(cost_figure(facts), drawn)
    if as_json:
        render.show_json(facts)
        return
    show_cost(facts, explain)


def _facts(
    readers: _Readers,
    answers: _Answers,
    demand: Demand,
    price: float,
    pace: tuple[float, float],
    used: tuple[float, float],
    margin: float,
) -> dict[str, Any]:
    """Curve, page and rates; ``pace`` is time per token and the fast tier's speed, ``used`` is parts of time."""
    slowest, fast = pace
    contexts = np.geomspace(_SHORTEST, demand.longest, int(np.log10(demand.longest / _SHORTEST) * _PER_DECADE) + 2)
    read = readers.at(contexts, demand.parts(contexts), demand.hit)
    written = answers.at(contexts, slowest)
    costs = curve(contexts, read, written, price, used, margin)
    here = np.array([demand.context])
    usual = answers.at(here, slowest)
    standard = float(usual.gpu_seconds[0])
    page = rational_page(
        costs,
        demand,
        _tiers(answers, demand, costs, price, True),
        _tiers(answers, demand, costs, price, False),
        batch=None if answers.fixed else float(answers.at(here, _SLOWEST).gpu_seconds[0]) / standard,
        fast=None if answers.fixed else answers.ratio(here, slowest / fast, standard),
    )
    return {
        "model": answers.architecture.name,
        "system": answers.system.name,
        "gpus": answers.gpus,
        "prefill_layout": read.layout.text(),
        "curve": costs,
        "servable_to": written.servable_to,
        "page": page,
        "rates": _rates(readers, read, demand, usual),
        "fast_speed": fast,
        "margin": None,
    }


class _Answers:
    """Cost of answers in one deployment, whatever the limit on time."""

    def __init__(
        self,
        architecture: Architecture,
        system: System,
        gpus: int,
        layout: str | None,
        batch: float | None,
        two_batch: float,
        losses: Losses | None,
    ) -> None:
        self.architecture, self.system, self.gpus = architecture, system, gpus
        self.fixed = batch is not None
        self._layouts = [parse_layout(layout, gpus, architecture)] if layout else None
        self._batches = np.array([batch]) if batch else _BATCHES
        self._more = {"two_batch": two_batch, "losses": losses}

    def at(self, contexts: Any, slowest: float) -> ContextCost:
        """Cheapest answers at contexts."""
        return cost_against_context(
            self.architecture,
            self.system,
            self.gpus,
            contexts,
            slowest=_SLOWEST if self.fixed else slowest,
            layouts=self._layouts,
            batches=self._batches,
            **self._more,
        )

    def ratio(self, context: Any, slowest: float, standard: float) -> float | None:
        """Cost within another limit over the standard one; None where nothing is as fast."""
        try:
            return float(self.at(context, slowest).gpu_seconds[0]) / standard
        except DoesNotFit:
            return None


class _Readers:
    """Cost of prompts in one deployment."""

    def __init__(
        self,
        architecture: Architecture,
        system: System,
        gpus: int,
        layout: str | None,
        two_batch: float,
        losses: Losses | None,
    ) -> None:
        fixed = [parse_layout(layout, gpus, architecture)] if layout else None
        self._layouts = fixed or list(candidate_layouts(architecture, gpus))
        self._asked = architecture, system
        self._more = {"two_batch": two_batch, "losses": losses}

    def at(self, lengths: Any, parts: Any, hit: float, layout: Layout | None = None) -> Reading:
        """Prompts of given lengths, in the cheapest layout or a given one."""
        layouts = [layout] if layout else self._layouts
        return reading(*self._asked, layouts, lengths, parts, hit=hit, **self._more)


def _rates(readers: _Readers, read: Reading, demand: Demand, written: ContextCost) -> dict[str, Any]:
    """Tokens per second of one accelerator, as engineers measure them: found tokens count as read."""
    lengths, parts = demand.lengths()
    exact = readers.at(lengths, parts, demand.hit, read.layout)
    new = parts * lengths * (1 - demand.hit)

    def rate(seconds: Any) -> float:
        return float(np.sum(parts * lengths) / np.sum(new * seconds))

    return {
        "input": rate(exact.seconds),
        "input_low": rate(exact.high),
        "input_high": rate(exact.low),
        "output": 1 / float(written.gpu_seconds[0]),
        "output_low": 1 / float(written.high[0]),
        "output_high": 1 / float(written.low[0]),
        "layout": written.layout[0],
        "batch": float(written.batch[0]),
        "time_per_output_token": float(written.time[0]),
    }


def _tiers(answers: _Answers, demand: Demand, costs: Curve, price: float, overlapped: bool) -> list[TierCost]:
    """Where a prompt's cache can wait; its load overlaps other work, or the accelerator waits for it."""
    into, _ = costs.at(min(demand.prompt, float(costs.contexts[-1])))
    return tier_costs(
        answers.system,
        catalogue.tiers().values(),
        kv_bytes=float(cache_bytes(answers.architecture, demand.prompt)) / demand.prompt,
        prefill_time=into / 1e6 / price,
        price=price,
        overlapped=overlapped,
    )
