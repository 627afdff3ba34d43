"""An estimate as text: the result, where the time goes, and how it was computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackmath.api.estimate_result import EstimateResult
from rackmath.api.summary import estimate_summary
from rackmath.cli import render
from rackmath.engine import Estimate, Layout
from rackmath.engine.communication import communication
from rackmath.engine.layout import as_floats
from rackmath.engine.roofline import held_sequences
from rackmath.units import counted, show


def show_estimate(result: EstimateResult) -> None:
    """Print an estimate; the same numbers as in JSON."""
    facts, phase = result.to_dict(), result.request.phase
    memory = facts["memory"]
    title = (
        f"{facts['model']} on {facts['gpus']} x {result.system.chip.name} ({facts['layout']}), {phase}, "
        f"{counted(result.request.batch, 'sequence')}, context {result.request.context:,.0f}"
    )
    render.show_lines(title, estimate_summary(facts, result.narrower))
    memory_text = (
        "memory per GPU",
        f"{show(facts['memory_per_gpu'], 'B')} of {show(memory['capacity'], 'B')}: "
        f"weights {show(memory['weights'], 'B')}, "
        f"cache {show(memory['cache'], 'B')}, activations {show(memory['activations'], 'B')}",
    )
    if not facts["fits"]:
        less = "the prompt in chunks (--cached-tokens)" if phase == "prefill" else "a smaller batch"
        refusal = ("fits", f"no, so no speed: use more GPUs, a narrower format, or {less}")
        render.show_pairs("in numbers", [memory_text, refusal])
        render.show_lines("assumed", facts["assumptions"])
        return
    accepted_tokens = facts["accepted_tokens"]
    subject = "the whole prompt" if phase == "prefill" else "one token of every sequence"
    if accepted_tokens and accepted_tokens > 1:
        subject = f"a step, {accepted_tokens:.2f} tokens of every sequence"
    span = (
        ""
        if facts["time_low"] == facts["time_high"]
        else (f", range {show(facts['time_low'], 's')} to {show(facts['time_high'], 's')}")
    )
    pairs = [
        ("time", f"{show(facts['time'], 's')} for {subject}{span}"),
        (
            "ideal bound",
            f"{show(facts['time_ideal'], 's')} operator by operator, "
            f"{show(facts['time_overlapped'], 's')} if all overlaps",
        ),
        ("bound by", facts["bound_by"]),
        (
            "tokens per second",
            f"{show(facts['tokens_per_second'])}, {show(facts['tokens_per_second_per_gpu'])} per GPU",
        ),
        memory_text,
        ("fits", "yes"),
        ("cost", _cost(facts)),
    ]
    if facts["energy"] is not None:
        pairs.append(("energy", energy_text(facts["energy"])))
    if phase == "decode":
        pairs.insert(1, ("speed", f"{show(facts['tokens_per_second_per_user'])} tokens/s for each user"))
    if "experts_apart" in facts:
        pairs.append(("pools", _pools(facts["experts_apart"], facts["time"])))
    render.show_pairs("in numbers", pairs)
    render.show_bars("where the ideal time goes", facts["terms"], lambda v: show(v, "s"))
    if any(facts["lost"].values()):
        render.show_bars("what is lost beyond it", facts["lost"], lambda v: show(v, "s"))
    render.show_lines("assumed", facts["assumptions"])


def _pools(apart: Mapping[str, Any], time: float) -> str:
    """How busy attention, experts and the network between them are in a pass."""
    parts = ", ".join(f"{name} {seconds / time:.0%}" for name, seconds in apart["busy"].items())
    return (
        f"{apart['attention_gpus']:g} for attention, {apart['expert_gpus']:g} for experts "
        f"({show(apart['memory_per_expert_gpu'], 'B')} each); busy of the time: {parts}"
    )


def _parts(layout: Layout) -> str:
    """What divides the sequences of a group: stages of a pipeline, or micro-batches in turn."""
    return f"mb {layout.micro_batches:g}" if layout.ffn else f"pp {layout.pipeline:g}"


def _turns(e: Estimate) -> list[str]:
    """How long micro-batches in turns take, with numbers, where experts have accelerators of their own."""
    if not e.busy:
        return []
    n = float(e.micro_batches)
    once = [show(float(seconds) / n, "s") for seconds in e.busy.values()]
    all_of_them = ", ".join(show(float(seconds), "s") for seconds in e.busy.values())
    return [
        f"a micro-batch takes {' + '.join(once)} ({', '.join(e.busy)}); a step the longest of their sum and of "
        f"{n:g} times each: {all_of_them}; then host and software"
    ]


def _cost(facts: Mapping[str, Any]) -> str:
    cost, low, high = (facts["usd_per_million_tokens" + end] for end in ("", "_low", "_high"))
    if cost is None:
        return "unknown: give --usd-per-gpu-hour"
    text = f"{cost:.3g} $ per million tokens"
    return text if low == high else f"{text}, range {low:.3g} to {high:.3g}"


def energy_text(energy: Mapping[str, Any]) -> str:
    """Energy of a token, power of an accelerator where it is of one step, and emissions where a grid is known."""
    low, high = energy["joules_per_token_range"]
    parts = [f"{show(energy['joules_per_token'], 'J')} per token ({show(low, 'J')} to {show(high, 'J')})"]
    if "power_per_gpu" in energy:
        parts.append(f"{energy['power_per_gpu']:,.0f} W each")
    parts.append(f"{energy['kwh_per_million_tokens']:.3g} kWh per million tokens")
    if energy["grams_co2_per_million_tokens"] is not None:
        parts.append(f"{energy['grams_co2_per_million_tokens'] / 1000:.3g} kg of CO2")
    return ", ".join(parts)


def run_energy_text(energy: Mapping[str, Any]) -> str:
    """Energy of accelerators over a run, and emissions where a grid is known."""
    low, high = (show(1000 * end, "Wh") for end in energy["kwh_range"])
    text = (
        f"{show(1000 * energy['kwh'], 'Wh')} ({low} to {high}) of accelerators, {energy['power_per_gpu']:,.0f} W each"
    )
    kilograms = energy["kg_co2"]
    if kilograms is None:
        return text
    return f"{text}, {f'{kilograms / 1000:.3g} t' if kilograms >= 1000 else show(1000 * kilograms, 'g')} of CO2"


def explain_estimate(result: EstimateResult) -> None:
    """Print the equations with numbers put in, the operators and the collectives."""
    a, system, layout, e, settings = result.architecture, result.system, result.layout, result.step, result.settings
    wide = as_floats(layout)
    sequences = held_sequences(float(settings["batch"]), wide)
    work, times = result.operators()
    logits = work.sequences * (work.new_tokens if work.phase == "decode" else 1.0)
    exchange = communication(a, wide, system, work.tokens, logits, work.phase == "decode")
    draft = settings["draft"]
    drafts = (
        [] if draft is None else [f"the sum holds {settings['draft_tokens']:g} passes of {draft.name}, not listed here"]
    )
    render.show_lines(
        "how",
        (
            "time of an operator = max(FLOPs / rate, bytes / bandwidth) on the busiest GPU; one follows the other",
            f"sequences per group = ceil({settings['batch']:g} / dp {layout.data:g}) = {sequences:g}; "
            f"in one pass ceil({sequences:g} / {_parts(layout)}) = {work.sequences:g}",
            f"rate = {show(system.chip.rate('bf16'), 'FLOP/s')} at bf16, "
            f"bandwidth = {show(system.chip.memory_bandwidth, 'B/s')}",
            f"sum of operators and collectives = {show(float(e.time_ideal), 's')}; "
            f"with losses of {show(sum(float(v) for v in e.lost.values()), 's')} it is {show(float(e.time), 's')}",
            *drafts,
            *_turns(e),
        ),
    )
    render.show_table(
        "operators, all layers, one GPU",
        ["operator", ">layers", "rate", ">FLOPs each", ">weights each", ">compute", ">memory", ">time"],
        [
            (
                t.operator.name,
                t.operator.count,
                system.chip.runs_at(t.operator.compute),
                show(float(t.operator.flops), "FLOP"),
                show(float(t.operator.weight_bytes), "B"),
                show(float(t.compute), "s"),
                show(float(t.memory), "s"),
                show(float(t.time), "s"),
            )
            for t in times
            if float(t.time) > 0
        ],
    )
    kinds = {k: float(getattr(exchange, k)) for k in ("tensor", "dispatch", "combine", "outside", "pipeline")}
    if any(kinds.values()):
        render.show_table("collectives", ["kind", ">time"], [(k, show(v, "s")) for k, v in kinds.items() if v > 0])
