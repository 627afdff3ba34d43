"""``fleet`` and ``sparsity``: what the world's tokens take, and how sparse a model should be for them."""

from __future__ import annotations

from math import isinf
from typing import Any

import click

from rackmath.api.lists import numbers
from rackmath.api.plan_question import PlanRequest, question_of
from rackmath.api.rates import tokens_per_second as in_tokens
from rackmath.cli import render
from rackmath.cli.options import request_options
from rackmath.cli.quantities import BYTES, NUMBER, TOKEN_RATE
from rackmath.errors import DoesNotFit, InputError
from rackmath.io import catalogue
from rackmath.models.formats import weight_format
from rackmath.serving.choice import describe
from rackmath.serving.fleet import fleet as sized
from rackmath.serving.fleet import memory_price
from rackmath.serving.plan import plan
from rackmath.serving.sparsity import cost_by_sparsity
from rackmath.training.routed import LAWS, equivalent_active, total_size, within_fit
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
    found = plan(question.system, question.work, question.limits, question.space, question.losses, question.scheduling)
    if found.best is None:
        raise DoesNotFit("no deployment keeps the limits", "see `rackmath plan` for how near the nearest comes")
    p, i = found.found.points, found.best
    per_unit = float(p.rate[i] / p.units[i]) * question.work.output
    stems = {catalogue.system(name).name: name for name in catalogue.bills()}
    bill = catalogue.bills().get(stems.get(question.system.name, ""))
    low, high = question.range("throughput")

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
        "unit": describe(found.found.layouts, p, i),
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


@click.command(epilog="Example: rackmath lecture sparsity --on gb200-nvl72 --dense 70e9")
@click.option("--on", "on", required=True, metavar="SYSTEM", help="Catalogue name, or path of a TOML file.")
@click.option("--dense", type=NUMBER, required=True, help="Parameters of the dense model whose quality is to be kept.")
@click.option("--users", default="1,100,1000,10000,100000", show_default=True, help="Users at a time.")
@click.option("--experts", default="1,2,4,8,16,32,64,128,256,512", show_default=True, help="Experts to try.")
@click.option("--router", type=click.Choice(sorted(LAWS)), default="s-base", show_default=True)
@click.option("--weights", default="fp8", show_default=True, help="Format of the weights.")
@click.option("--context", type=NUMBER, default=8192.0, show_default=True, help="Tokens of a request.")
@click.option("--kv-bytes", type=BYTES, default=70_000.0, show_default=True, help="Cache bytes per token.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def sparsity(
    on: str,
    dense: float,
    users: str,
    experts: str,
    router: str,
    weights: str,
    context: float,
    kv_bytes: float,
    as_json: bool,
) -> None:
    """Find the mixture of least cost among those worth one dense model, for each number of users.

    Sizes follow the routed law of Clark et al.; costs are the ideal bound on one scale-up
    domain.
    """
    system, form, law = catalogue.system(on), weight_format(weights), LAWS[router]
    if not 1e6 <= dense <= 1e15 or not 0 < context <= 1e9 or not 0 < kv_bytes <= 1e9:
        raise InputError("--dense", dense, "write 1e6 to 1e15 parameters, and positive --context and --kv-bytes")
    wanted = numbers(users, "--users", 1, 1e9)
    tried = numbers(experts, "--experts", 1, 1e6)
    actives = [float(equivalent_active(dense, e, law)) for e in tried]
    totals = [float(total_size(a, e)) for a, e in zip(actives, tried, strict=True)]
    cost = cost_by_sparsity(system, totals, actives, wanted, form, context=context, kv_bytes_per_token=kv_bytes)
    ratio = system.chip.ratio(form.compute)
    models = [
        {
            "experts": e,
            "active_params": a,
            "total_params": t,
            "memory_share": t * form.bytes_per_element / system.domain_capacity,
            "balance_batch": ratio * t / a,
            "within_fit": within_fit(a, e),
            "gpu_seconds": cost.gpu_seconds[i],
            "time": cost.time[i],
        }
        for i, (e, a, t) in enumerate(zip(tried, actives, totals, strict=True))
    ]
    facts = {
        "system": system.name,
        "router": router,
        "dense_params": dense,
        "users": wanted,
        "models": models,
        "best_experts": [None if b is None else tried[b] for b in cost.best],
    }
    if as_json:
        render.show_json(facts)
        return
    _show_sparsity(facts, models, wanted)


def _show_sparsity(facts: dict[str, Any], models: list[dict[str, Any]], users: list[float]) -> None:
    best = facts["best_experts"]
    render.show_table(
        f"mixtures worth {facts['dense_params'] / 1e9:g} G dense parameters on one domain of {facts['system']}:"
        " GPU time per token (* least)",
        [">experts", ">active", ">total", ">memory", ">balance batch", *(f">{u:,.0f} users" for u in users), "law"],
        [
            (
                f"{m['experts']:g}",
                show(m["active_params"]),
                show(m["total_params"]),
                f"{m['memory_share']:.0%}",
                f"{m['balance_batch']:,.0f}",
                *(_cell(m["gpu_seconds"][j], best[j] == m["experts"]) for j in range(len(users))),
                "fitted" if m["within_fit"] else "beyond",
            )
            for m in models
        ],
        note="few users read only the experts they choose; users beyond the memory wait; law: inside its fit or beyond",
    )


def _cell(seconds: float, least: bool) -> str:
    return "-" if isinf(seconds) else f"{show(seconds, 's')}{'*' if least else ''}"
