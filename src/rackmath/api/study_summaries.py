"""The first sentences of studies: what each says to somebody who reads no table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rackmath.caching.tiers import RECOMPUTE
from rackmath.prices.decode import DecodedPrice
from rackmath.prices.forward import PricePage
from rackmath.prices.trend import Decline
from rackmath.training.rollouts import LoopCost
from rackmath.units import counted, short_count, show

Facts = Mapping[str, Any]

_SAME = 1.005
"""Ratio that three digits call one."""


def rl_summary(f: Facts, gpus: int) -> list[str]:
    """What ``rackmath train rl --json`` says."""
    cost: LoopCost = f["cost"]
    price = "no price is known" if f["usd"] is None else f"{f['usd']:,.0f} $"
    early, late = f["days_range"]
    return [
        f"{f['days']:.3g} days ({early:.3g} to {late:.3g}) on {gpus:,} {f['system']}: {price}.",
        f"Writing answers takes {cost.writing_share:.0%} of the accelerator time.",
        f"An accelerator that writes does {cost.decode_efficiency:.0%} of the FLOP/s of one that trains.",
    ]


def session_summary(f: Facts) -> list[str]:
    """What ``rackmath prices agent --json`` says of a session."""
    by_name = {entry["lever"]: entry for entry in f["levers"]}
    best = by_name[f["cheapest"]]
    sentences = [
        f"A session of {f['turns']:,} turns of {f['model']} costs {_dollars(f['levers'][0])} by the list.",
        f"{f['cheapest'].capitalize()} saves most: {_dollars(best)}, {best['saved']:.0%} less.",
    ]
    hardware = f.get("own")
    if hardware:
        sentences.append(
            f"{hardware['model']} on {hardware['gpus']:.0f} {hardware['system']} costs {_dollars(hardware)} a session "
            "if never idle; its rent is below the list's bill from "
            f"{hardware['sessions_per_day_break_even']:,.0f} sessions a day on."
        )
    return sentences


def _dollars(session: Facts) -> str:
    return f"{session['usd_per_session']:.3g} $"


def decode_summary(d: DecodedPrice) -> list[str]:
    """What the offers of one model say of it."""
    active, total, margin = d.active_params, d.total_params, d.margin
    return [
        f"{d.model} is priced as open models of {_billions(active.median)} B active parameters are "
        f"(90 %: {_billions(active.low90)} to {_billions(active.high90)} B).",
        f"Its price says less of all parameters ({_billions(total.low90)} to {_billions(total.high90)} B) and of its "
        f"margin (price over cost {margin.low90:.2g} to {margin.high90:.2g}), and nothing of its cache.",
    ]


def _billions(size: float) -> str:
    return f"{size / 1e9:,.3g}" if size < 1e12 else f"{size / 1e9:,.0f}"


def page_summary(page: PricePage) -> list[str]:
    """What ``rackmath prices cost`` says."""
    tiers = page.tiers
    return [
        f"Input costs {page.input:.3g} $ per million tokens and output {page.output:.3g}: output is "
        f"{page.output_over_input:.2g} times as dear.",
        f"Cached input costs {page.cached_over_input:.2g} of input where its load overlaps other work, "
        f"{page.waited_over_input:.2g} where it is waited for.",
        f"One price for all contexts would overcharge the mean request by {tiers.flat_overcharge:.0%}; two, with a "
        f"step at {tiers.start:,.0f} tokens, by {tiers.overcharge:.0%}.",
    ]


def fleet_summary(f: Facts, demand: float) -> list[str]:
    """What ``rackmath lecture fleet --json`` says."""
    price = f["usd_per_million"]
    cost = "" if price is None else f", {price['value']:.3g} $ per million tokens"
    gpus, power = f["gpus"], f["megawatts"]
    watts = "" if power is None else f" and {power['value']:.3g} MW"
    return [
        f"{demand:,.0f} tokens per second take {gpus['value']:,.0f} {f['system']} ({gpus['low']:,.0f} to "
        f"{gpus['high']:,.0f}){watts}{cost}.",
        f"They are in {f['racks']['value']:,.0f} racks, and busy {f['utilisation']:.0%} of the day.",
    ]


def context_summary(models: Sequence[Facts], price: float | None) -> list[str]:
    """What ``rackmath lecture context --json`` says, a sentence for each model."""
    unit = "GPU-s per token" if price is None else "$ per million tokens"
    return [
        f"{f['model']}: {f['cost'][0]:.3g} {unit} at {f['contexts'][0]:,.0f} tokens of context, "
        f"{_doubling(f)}{_end(f)}."
        if f["fits"]
        else f"{f['model']} does not fit."
        for f in models
    ]


def _doubling(f: Facts) -> str:
    if f["doubles_at"] is None:
        return f"less than twice that at {show(f['contexts'][-1])}"
    return f"twice that at {show(f['doubles_at'])}"


def _end(f: Facts) -> str:
    return f"; {f['stopped_by']} ends it at {show(f['servable_to'])}" if f["stopped_by"] else ""


def cache_summary(f: Facts) -> list[str]:
    """What ``rackmath lecture cache --json`` says."""
    again = next(iter(f["products"].values()))["recompute_usd_per_million"]
    hour = f["products"]["1 hour"]
    last = f["cheapest"][-1]
    sentences = [
        f"Reading a prefix of {f['context']:,.0f} tokens again costs {again:.3g} $ per million tokens.",
        f"Kept for an hour and used once it costs {hour['usd_per_million']:.2g} $, in the cheapest place, "
        f"{hour['cheapest']}.",
    ]
    if last["tier"] == RECOMPUTE:
        sentences.append(f"Reading it again is cheapest once it is used less than every {_span(last['from'])}.")
    return sentences


def _span(seconds: float) -> str:
    return f"{seconds / 86_400:,.3g} days" if seconds >= 86_400 else show(seconds, "s")


def experts_summary(f: Facts) -> list[str]:
    """What ``rackmath lecture experts --json`` says."""
    sentences = [
        f"Each of {f['ranks']:,} {f['system']} holds {f['experts_per_rank']} of {f['experts']} experts of "
        f"{f['layers']} layers, {f['memory_share']:.0%} of its memory.",
        f"The fullest has {f['heaviest_load']:.2f} times the mean's tokens"
        + (f", with {f['redundant']} copies." if f["redundant"] else ", without copies."),
    ]
    if f["placements"]:
        worst, best = (pick(f["placements"], key=lambda way: way["heaviest_load"]) for pick in (max, min))
        sentences.append(
            f"Placed {worst['placed']} it would have {worst['heaviest_load']:.2f} times; {best['redundant']} copies "
            f"placed by load bring it to {best['heaviest_load']:.2f}."
        )
    return sentences


def sparsity_summary(f: Facts) -> list[str]:
    """What ``rackmath lecture sparsity --json`` says."""
    few, many = f["best_experts"][0], f["best_experts"][-1]
    return [
        f"For {counted(f['users'][0], 'user')} at a time {_mixture(few)} costs least on one domain of {f['system']}, "
        f"for {counted(f['users'][-1], 'user')} {_mixture(many)}."
    ]


def _mixture(experts: float | None) -> str:
    if experts is None:
        return "nothing that fits"
    return "a dense model" if experts == 1 else f"a mixture of {experts:,.0f} experts"


def budget_summary(f: Facts) -> list[str]:
    """What ``rackmath train budget --json`` says."""
    ends = f["ranges"]
    size = (
        "" if ends is None else f" ({short_count(ends['params']['low90'])} to {short_count(ends['params']['high90'])})"
    )
    ratio = f["overtraining"]
    more = f"{ratio:.3g} times as many tokens per parameter as" if ratio > _SAME else "as many tokens per parameter as"
    sentences = [
        f"Least is spent on {short_count(f['params'])} parameters{size} and {short_count(f['tokens'])} tokens: "
        f"loss {f['loss']:.3f}.",
        f"That is {more} training alone would cost least with.",
    ]
    base = f["given"]
    if base["total"] > _SAME * f["total"]:
        sentences.append(
            f"{short_count(base['params'])} parameters on {short_count(base['tokens'])} tokens cost "
            f"{base['total'] / f['total'] - 1:.0%} more."
        )
    return sentences


def modes_summary(f: Facts) -> list[str]:
    """What ``rackmath lecture modes --json`` says."""
    standard, slow, floor = f["standard"], f["slow"], f["latency_floor"]
    sentences: list[str] = []
    if standard is not None:
        price = standard["usd_per_million_output_tokens"]
        cost = "" if price is None else f" for {price:.3g} $ per million"
        sentences.append(f"The standard writes {standard['tokens_per_second_per_user']:.3g} tokens/s{cost}.")
    for name, mode in (("Waiting", slow), ("The fastest deployment", floor)):
        if mode is not None and mode["price_ratio"] is not None:
            sentences.append(
                f"{name} costs {mode['price_ratio']:.2g} times as much at {mode['speed_ratio']:.2g} times the speed."
            )
    return sentences


def trend_summary(benchmark: str, declines: Sequence[Decline]) -> list[str]:
    """How prices of equal scores fell."""
    rates = sorted((d.per_year, d.score) for d in declines if d.per_year is not None)
    if not rates:
        return [f"No score of {benchmark} has prices over more than a year."]
    (low, slow), (high, fast) = rates[0], rates[-1]
    return [
        f"A token of an equal {benchmark} score became {low:.2g} to {high:.2g} times cheaper a year: slowest at "
        f"{slow:.0%}, fastest at {fast:.0%}.",
    ]
