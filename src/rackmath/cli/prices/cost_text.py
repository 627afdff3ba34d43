"""How ``prices cost`` prints and draws its page."""

from __future__ import annotations

from collections.abc import Mapping
from math import isinf
from typing import Any

from rackmath.api.study_summaries import page_summary
from rackmath.cli import render
from rackmath.cli.estimate_text import energy_text
from rackmath.prices.forward import CostCurve, PricePage
from rackmath.units import counted, show


def show_cost(facts: Mapping[str, Any], explain: bool) -> None:
    """Curve, page, rates, margin."""
    costs: CostCurve = facts["curve"]
    end = facts["servable_to"]
    render.show_lines("in short", page_summary(facts["page"]))
    render.show_table(
        f"{facts['model']} on {facts['system']}: $ per million tokens by context, with the engine's 90 % range",
        [">context", ">input", ">from", ">to", ">output", ">from", ">to", ">output / input"],
        [
            (
                f"{costs.contexts[i]:,.0f}",
                *(
                    f"{side[i]:.3g}"
                    for side in (
                        costs.input,
                        costs.input_low,
                        costs.input_high,
                        costs.output,
                        costs.output_low,
                        costs.output_high,
                    )
                ),
                f"{costs.output[i] / costs.input[i]:.3g}",
            )
            for i in range(0, len(costs.contexts), 2)
        ],
        "" if isinf(end) else f"answers are servable to {end:,.0f} tokens of context",
    )
    render.show_pairs("a page that covers this cost, $ per million tokens", _lines(facts))
    rates = facts["rates"]
    render.show_pairs(
        "one accelerator while it works",
        [
            ("reads", f"{_range(rates, 'input')} tokens/s, cached ones included, in {facts['prefill_layout']}"),
            (
                "writes",
                f"{_range(rates, 'output')} tokens/s in {rates['layout']}, {counted(rates['batch'], 'sequence')}",
            ),
            ("time per token", show(rates["time_per_output_token"], "s")),
        ],
    )
    if facts["energy"]:
        render.show_pairs(
            "energy, idle time included",
            [(kind, energy_text(energy)) for kind, energy in facts["energy"].items()],
        )
    margin = facts["margin"]
    if margin is not None:
        cached_input = "" if margin["cached_input"] is None else f", cached {margin['cached_input']:.0%}"
        render.show_pairs(
            f"against the list of {margin['sold_as']} at {margin['provider']}",
            [
                (
                    "gross margin",
                    f"{margin['margin']:.0%}: {margin['cost']:.3g} $ of {margin['revenue']:.3g} $ a request",
                ),
                ("by kind", f"input {margin['input']:.0%}{cached_input}, output {margin['output']:.0%}"),
            ],
        )
    if explain:
        render.show_lines("equations", _equations(facts))
    render.show_lines("assumed", facts["assumptions"])


def _lines(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    page: PricePage = facts["page"]
    tiers = page.tiers
    multiples = [above / below for above, below in zip(tiers.above, tiers.below, strict=True)]
    low, high = (
        ", ".join(f"{kind} {price:.3g}" for kind, price in zip(("input", "output"), side, strict=True))
        for side in (tiers.below, tiers.above)
    )
    write_ratios = [
        (f"{rate.write:.4g} (x{rate.write / page.input:.4g} of input), in {rate.tier}")
        for rate in (page.minutes, page.hour)
    ]
    load_text = f"x{page.cached_over_input:.2g} of input if the load overlaps, x{page.waited_over_input:.2g} if not"
    lines = [
        ("mean cost", f"input {page.input:.3g}, output {page.output:.3g}: output / input {page.output_over_input:.3g}"),
        (f"up to {tiers.start:,.0f}", low),
        ("above", f"{high} (x{multiples[0]:.3g}, x{multiples[1]:.3g})"),
        ("requests overpay", f"{tiers.overcharge:.0%} in the mean; without tiers {tiers.flat_overcharge:.0%}"),
        ("cached input", f"{page.minutes.read:.2g}: {load_text}; from {page.minutes.tier}"),
        ("write, 5 minutes", write_ratios[0]),
        ("write, 1 hour", write_ratios[1]),
        ("storage", f"{page.hour.storage:.2g} per hour in {page.hour.tier}"),
    ]
    if page.batch is not None:
        lines.append(("batch tier", f"output x{page.batch:.3g} by larger batches; idle hours come on top"))
        fast = f"output x{page.fast:.3g}" if page.fast is not None else "no layout of these accelerators is as fast"
        lines.append((f"fast tier, {facts['fast_speed']:g}x", fast))
    return lines


def _range(rates: Mapping[str, Any], name: str) -> str:
    return f"{rates[name]:,.0f} ({rates[f'{name}_low']:,.0f} to {rates[f'{name}_high']:,.0f})"


def _equations(facts: Mapping[str, Any]) -> tuple[str, ...]:
    page: PricePage = facts["page"]
    rates = facts["rates"]
    return (
        "cost = accelerators x time of the pass / tokens x rent / (part of the time in use x (1 - margin))",
        f"writing: 1 / {rates['output']:,.0f} tokens/s, at {counted(rates['batch'], 'sequence')}: {page.output:.3g} $",
        "tiers: a price is the highest cost of its tier; the cliff stands where requests overpay least",
        "cached = KV bytes / bandwidth x rent of the device; the load overlaps other work",
        f"write = input + KV bytes x rent x 5 minutes = {page.input:.3g} + {page.minutes.write - page.input:.2g} $",
    )
