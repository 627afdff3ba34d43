"""``modes``: what fast, standard and slow cost on a system, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from rackmath.api.plan_points import PointFacts
from rackmath.api.plan_question import PlanQuestion, PlanRequest, question_of
from rackmath.api.study_summaries import modes_summary
from rackmath.cli import render
from rackmath.cli.options import request_options
from rackmath.cli.quantities import NUMBER, SPEED
from rackmath.errors import InputError
from rackmath.serving.modes import SPEEDUP, STANDARD, Modes, levers
from rackmath.serving.modes import modes as run
from rackmath.serving.trains import expected_waits, simulated_waits
from rackmath.units import show

_ARRIVALS = 100_000
_COOLING = 1.3
"""Power of a data centre over that of its machines, as assumed."""


@click.command(
    epilog="Example: rackmath lecture modes deepseek-v3 --on h200-sxm --gpus 32 --input 4000 --output 1000 --ttft 2"
)
@request_options(PlanRequest)
@click.option(
    "--speedup", type=NUMBER, default=SPEEDUP, show_default=True, help="Speed of the fast mode over standard."
)
@click.option("--speed", type=SPEED, default=STANDARD, show_default=True, help="Tokens/s of the standard, per user.")
@click.option(
    "--peak-to-mean", type=NUMBER, default=2.0, show_default=True, help="Daily peak of traffic over its mean."
)
@click.option("--usd-per-kwh", type=NUMBER, default=0.1, show_default=True, help="Price of electricity.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def modes(
    request: PlanRequest,
    speedup: float,
    speed: float,
    peak_to_mean: float,
    usd_per_kwh: float,
    as_json: bool,
) -> None:
    """Say what a fast and a slow mode would cost beside the standard, and why.

    MODEL is a catalogue name, a path to a config.json, or a folder that holds one.
    """
    for field, value, low in (("--peak-to-mean", peak_to_mean, 1.0), ("--usd-per-kwh", usd_per_kwh, 0.0)):
        if not low <= value < 1e6:
            raise InputError(field, value, f"write a number of at least {low:g}")
    if request.grid is not None:
        raise InputError("--grid", request.grid, "leave it out: modes differ in dollars and watts here, not in CO2")
    question = question_of(request)
    inputs = (
        question.system,
        question.work,
        question.limits,
        question.space,
        question.losses,
        question.scheduling,
    )
    result = run(*inputs, speedup=speedup, speed=speed)
    lever_facts = [
        {"opened": x.name, "speed_ratio": x.reached, "price_ratio": x.price, "reached": x.reached >= speedup - 1e-9}
        for x in levers(*inputs, result, speedup=speedup)
    ]
    facts = _facts(question, result, speed, peak_to_mean, usd_per_kwh) | {"levers": lever_facts}
    if as_json:
        render.show_json(facts)
        return
    _show(facts, speedup)


def _facts(question: PlanQuestion, result: Modes, usual: float, peak: float, usd_per_kwh: float) -> dict[str, Any]:
    points = PointFacts(question, result.search)

    def mode(place: int | None, why: str) -> dict[str, Any] | None:
        if place is None:
            return None
        speed, price = result.ratio(place)
        return points.point(place) | {"speed_ratio": speed, "price_ratio": price, "why": why}

    fast = mode(result.fast, _why_fast(result))
    drain = question.system.chip.memory_capacity / question.system.chip.memory_bandwidth
    closed_form, simulation = expected_waits(drain), simulated_waits(drain, 1000 / drain, _ARRIVALS)
    return {
        "model": question.architecture.name,
        "system": question.system.name,
        "fast": fast,
        "standard": mode(result.standard, f"the cheapest that writes {usual:g} tokens/s to each user"),
        "slow": mode(result.slow, "most throughput: what a token costs at least on this system"),
        "latency_floor": mode(result.fastest, "the fastest deployment within the budget"),
        "waiting": {
            "saved_by_amortisation": result.saved_by_waiting,
            "idle_at_mean": 1 - 1 / peak,
            "electricity_share": _electricity(question, usd_per_kwh),
            "reread_when_preempted": result.reread,
        },
        "train": {
            "period": drain,
            "median": closed_form.median,
            "worst": closed_form.worst,
            "simulated_median": simulation.median,
            "simulated_worst": simulation.worst,
            "arrivals": _ARRIVALS,
        },
        "assumptions": [
            *question.notes,
            f"traffic peaks at {peak:g} times its mean; electricity {usd_per_kwh:g} $ per kWh, {_COOLING:g} times the"
            " board's power",
        ],
    }


def _why_fast(result: Modes) -> str:
    p, fast, standard = result.search.points, result.fast, result.standard
    if fast is None:
        return ""
    changes = [f"batch {p.batch[standard]:.0f} to {p.batch[fast]:.0f}"]
    if p.layout[fast] != p.layout[standard] or p.prefill[fast] != p.prefill[standard]:
        changes.append("other parallelism")
    if p.draft_tokens[fast] != p.draft_tokens[standard]:
        changes.append(f"{p.draft_tokens[standard]:.0f} to {p.draft_tokens[fast]:.0f} draft tokens")
    if p.variant[fast] != p.variant[standard]:
        changes.append("other formats")
    return ", ".join(changes)


def _electricity(question: PlanQuestion, usd_per_kwh: float) -> float | None:
    """Electricity's part of an accelerator's price; None where power or price is unknown."""
    if question.system.chip.power is None or question.price is None:
        return None
    return question.system.chip.power * _COOLING / 1000 * usd_per_kwh / (question.price * 3600)


def _show(facts: Mapping[str, Any], speedup: float) -> None:
    rows = [(name, facts[key]) for name, key in _MODES if facts[key] is not None]
    render.show_lines("in short", modes_summary(facts))
    render.show_table(
        f"{facts['model']} on {facts['system']}",
        ["mode", ">speed", ">x", ">$/M out", ">price x", ">TTFT", ">batch", ">draft", "deployment"],
        [
            (
                name,
                f"{m['tokens_per_second_per_user']:.1f}",
                f"{m['speed_ratio']:.2f}",
                "-" if m["usd_per_million_output_tokens"] is None else f"{m['usd_per_million_output_tokens']:.2f}",
                f"{m['price_ratio']:.2f}",
                show(m["time_to_first_token"], "s"),
                f"{m['batch']:.0f}",
                f"{m['draft_tokens']:.0f}",
                f"{m['units']:.0f} x ({m['layout']}) {m['weights']},{m['kv']}",
            )
            for name, m in rows
        ],
    )
    fast = facts["fast"]
    render.show_lines(
        "fast",
        [
            f"no deployment within the budget is {speedup:g} times as fast as the standard"
            if fast is None
            else (
                f"{fast['speed_ratio']:.2f} times the speed at {fast['price_ratio']:.2f} times the cost: {fast['why']}"
            ),
            "the lecture reads 6 times the price for 2.5 times the speed; price pages have since gone to 2 times",
        ],
    )
    render.show_table(
        f"what {speedup:g} times the speed costs as choices are opened one after the other",
        ["opened", ">speed x", ">cost x", ""],
        [
            (x["opened"], f"{x['speed_ratio']:.2f}", f"{x['price_ratio']:.2f}", "" if x["reached"] else "the fastest")
            for x in facts["levers"]
        ],
    )
    _show_waiting(facts)
    render.show_lines("assumed", facts["assumptions"])


_MODES = (("latency floor", "latency_floor"), ("fast", "fast"), ("standard", "standard"), ("slow", "slow"))


def _show_waiting(facts: Mapping[str, Any]) -> None:
    waiting, train = facts["waiting"], facts["train"]
    share = waiting["electricity_share"]
    render.show_lines(
        "slow: what waiting saves",
        [
            f"a larger batch saves {waiting['saved_by_amortisation']:.0%} of the standard's cost, then nothing more",
            f"capacity bought for the peak stands idle {waiting['idle_at_mean']:.0%} of the time; work that waits for"
            " it costs " + ("its electricity" if share is None else f"electricity, {share:.1%} of the price"),
            f"a request that is preempted halfway is read again: {waiting['reread_when_preempted']:.0%} on top",
        ],
    )
    render.show_lines(
        f"a train that leaves every {show(train['period'], 's')} (the time to read the whole memory)",
        [
            f"arrival to the end of the ride: median {show(train['median'], 's')}, worst {show(train['worst'], 's')}",
            f"{train['arrivals']:,} simulated arrivals: median {show(train['simulated_median'], 's')}, "
            f"worst {show(train['simulated_worst'], 's')}",
        ],
    )
