"""``fleet``: what the world's tokens take."""

from __future__ import annotations

from typing import Any

import click

from rackmath.api.plan_question import PlanRequest, question_of
from rackmath.api.rates import tokens_per_second as in_tokens
from rackmath.cli import render
from rackmath.cli.options import request_options
from rackmath.cli.quantities import NUMBER, TOKEN_RATE
from rackmath.errors import DoesNotFit
from rackmath.io import catalogue
from rackmath.serving.choice import describe
from rackmath.serving.fleet import fleet as sized
from rackmath.serving.fleet import memory_price
from rackmath.serving.plan import plan
from rackmath.units import show

_BARS = 40


@click.command(
    epilog="Example: rackmath lecture fleet deepseek-v3 --on gb200-nvl72 --gpus 16 --input 4000 --output 1000 --ttft 2 "
    "--tpot 0.05 --one-pool --tokens-per-second 1e8"
)
@request_options(PlanRequest)
@click.option(
    "--tokens-per-second", type=TOKEN_RATE, required=True, help="Output tokens of all users, mean over the day."
)
@click.option(
    "--peak-to-mean", type=NUMBER, default=2.0, show_default=True, help="Daily peak of traffic over its mean."
)
@click.option("--headroom", type=NUMBER, default=1.2, show_default=True, help="Capacity over the peak.")
@click.option("--cooling", type=NUMBER, default=1.3, show_default=True, help="Power of the site over accelerators'.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def fleet(
    request: PlanRequest,
    tokens_per_second: float,
    peak_to_mean: float,
    headroom: float,
    cooling: float,
    as_json: bool,
) -> None:
    """Size a fleet for a load: replicas, racks, megawatts, capital, dollars per million tokens.

    One unit is the best deployment of `rackmath plan` under the limits on up to --gpus
    accelerators; the fleet repeats it. Rent is paid for the whole fleet all day.
    """
    question = question_of(request)
    load = in_tokens(tokens_per_second, question.work.output)
    q = question
    answer = plan(q.system, q.work, q.limits, q.space, q.losses, q.scheduling, q.correct)
    if answer.best is None:
        raise DoesNotFit("no deployment keeps the limits", "see `rackmath plan` for how near the nearest comes")
    p, i = answer.found.points, answer.best
    per_unit = float(p.rate[i] / p.units[i]) * question.work.output
    stems = {catalogue.system(name).name: name for name in catalogue.bills()}
    bill = catalogue.bills().get(stems.get(question.system.name, ""))
    low, high = question.range_at(answer.found, i, "throughput")

    def at(factor: float) -> Any:
        return sized(
            question.system,
            tokens_per_second=load,
            unit_tokens_per_second=per_unit * factor,
            unit_gpus=float(p.gpus[i] / p.units[i]),
            peak_to_mean=peak_to_mean,
            headroom=headroom,
            cooling=cooling,
            price=question.price,
            bill=bill,
        )

    middle, most, least = at(1.0), at(low), at(high)
    facts = {
        "model": question.architecture.name,
        "system": question.system.name,
        "unit": describe(answer.found.layouts, p, i),
        "unit_gpus": float(p.gpus[i] / p.units[i]),
        "unit_tokens_per_second": per_unit,
        **{
            name: {"value": getattr(middle, name), "low": getattr(least, name), "high": getattr(most, name)}
            for name in ("replicas", "gpus", "racks", "megawatts", "usd_per_million")
        },
        "utilisation": middle.utilisation,
        "capital": middle.capital,
        "memory_capital": middle.memory_capital,
        "memory_price": None if bill is None else memory_price(question.system, bill),
        "hours": middle.hours,
        "assumptions": [
            *question.notes,
            f"traffic peaks at {peak_to_mean:g} times its mean; capacity is {headroom:g} times the peak",
            "capital and memory: published bills of racks"
            if bill
            else "capital: no bill of this system's racks is known",
        ],
    }
    if as_json:
        render.show_json(facts)
        return
    _show_fleet(facts, load)


def _show_fleet(facts: dict[str, Any], load: float) -> None:
    def ranged(name: str, form: str) -> str:
        f = facts[name]
        if f["value"] is None:
            return "unknown"
        return f"{f['value']:{form}} ({f['low']:{form}} to {f['high']:{form}})"

    capital, memory = facts["capital"], facts["memory_capital"]
    render.show_pairs(
        f"{facts['model']} on {facts['system']} for {load:,.0f} output tokens per second",
        [
            (
                "unit",
                f"{facts['unit']}, {facts['unit_gpus']:.0f} GPUs, {facts['unit_tokens_per_second']:,.0f} tokens/s",
            ),
            ("replicas", ranged("replicas", ",.0f")),
            ("accelerators", ranged("gpus", ",.0f")),
            ("racks", ranged("racks", ",.1f")),
            ("megawatts at full load", ranged("megawatts", ",.3g")),
            ("utilisation", f"{facts['utilisation']:.0%} over the day"),
            ("$ per million tokens", ranged("usd_per_million", ".3g")),
            ("capital", "unknown" if capital is None else f"{show(capital[0])} to {show(capital[1])} $"),
            ("of which memory", "unknown" if memory is None else f"{show(memory[0])} to {show(memory[1])} $"),
            ("memory price implied", _per_gigabyte(facts["memory_price"])),
        ],
    )
    render.show_lines(
        "load over capacity by hour",
        [f"{hour:02d}:00  {share:4.0%}  {'#' * round(_BARS * share)}" for hour, share in enumerate(facts["hours"])],
    )
    render.show_lines("assumed", facts["assumptions"])


def _per_gigabyte(price: tuple[float, float] | None) -> str:
    return (
        "unknown" if price is None else f"{price[0] * 1e9:.2g} to {price[1] * 1e9:.2g} $ per GB, HBM and host together"
    )
