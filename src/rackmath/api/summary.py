"""An answer in sentences: what it costs, what binds, what would change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rackmath.units import show

_BINDING = {
    "weights": "Reading weights",
    "cache": "Reading the cache",
    "activations": "Reading activations",
    "compute": "Multiplying",
    "communication": "Communication",
}


def plan_summary(facts: Mapping[str, Any]) -> list[str]:
    """Three sentences of what ``rackmath plan --json`` says; the reason where nothing keeps the limits."""
    best = facts["best"]
    if best is None:
        return [f"No deployment keeps the limits: {facts['reason']}."]
    price = best["usd_per_million_output_tokens"]
    cost = _cost(price, best["tokens_per_second_per_gpu"])
    accelerators = f"{best['gpus']:.0f} of {facts['gpus']:,} {facts['system']}"
    return [
        f"{cost}, {best['tokens_per_second_per_user']:.3g} tokens/s for each user, on {accelerators}.",
        f"{_BINDING.get(best['bound_by'], best['bound_by'].capitalize())} takes most of a step; "
        f"{_stop(best['stopped_by'])} keeps its batches from growing.",
        *_cheaper(best, facts["frontier"]),
    ]


def estimate_summary(facts: Mapping[str, Any], narrower: tuple[str, float] | None) -> list[str]:
    """Three sentences of what ``rackmath estimate --json`` says.

    Parameters
    ----------
    narrower : tuple of str and float, optional
        A narrower format of the weights, and the time of the step in it over that of this one.
    """
    if not facts["fits"]:
        memory_text = f"{show(facts['memory_per_gpu'], 'B')} on each of {facts['gpus']} accelerators"
        return [f"It does not fit: it needs {memory_text}, which have {show(facts['memory']['capacity'], 'B')}."]
    price, speed = facts["usd_per_million_tokens"], facts["tokens_per_second_per_user"]
    cost = _cost(price, facts["tokens_per_second_per_gpu"])
    speed_text = (
        f"{show(facts['time'], 's')} for the prompt" if speed is None else f"{speed:.3g} tokens/s for each user"
    )
    terms = facts["terms"]
    share = terms[facts["bound_by"]] / (sum(terms.values()) or 1.0)
    lost_share = 1 - facts["time_ideal"] / facts["time"] if facts["time"] else 0.0
    sentences = [
        f"{cost}, {speed_text}, on {facts['gpus']} x {facts['system']}.",
        f"{_BINDING.get(facts['bound_by'], facts['bound_by'].capitalize())} takes {share:.0%} of the ideal time; "
        f"{lost_share:.0%} of the step is lost beyond it.",
    ]
    if narrower is not None:
        sentences.append(f"With {narrower[0]} weights a step would take {narrower[1]:.0%} of the time.")
    return sentences


def simulation_summary(facts: Mapping[str, Any]) -> list[str]:
    """Three sentences of what ``rackmath simulate --json`` says."""
    first, per_token = facts["time_to_first_token"], facts["time_per_output_token"]
    speed = "" if per_token is None else f", {1 / per_token['mean']:.3g} tokens/s for each user"
    price = _cost(facts["usd_per_million_tokens"], facts["throughput"], "all replicas together")
    wait = "" if first is None else (
        f", first token after {show(first['p50'], 's')}, one in a hundred after {show(first['p99'], 's')} or later"
    )  # fmt: skip
    if "tasks" in facts:
        return [_task_sentence(facts["tasks"]), f"{price}{speed}.", _keeps_up(facts)]
    return [
        f"{price}{speed}{wait}.",
        f"Replicas are busy {facts['utilisation']:.0%} of their time with {facts['mean_batch']:.3g} requests at once; "
        f"their cache is {facts['memory_in_use']:.0%} full.",
        _keeps_up(facts),
    ]


def _task_sentence(tasks: Mapping[str, Any]) -> str:
    """How long a task takes and what it costs."""
    time, dollars = tasks["time"], tasks["usd"]
    cost = "" if dollars is None else f" and costs {dollars:.3g} $"
    tools = tasks["tool_time"]["mean"] / time["mean"]
    return (
        f"A task of {tasks['requests']:.3g} requests takes {show(time['mean'], 's')}{cost}, one in a hundred takes "
        f"{show(time['p99'], 's')} or longer; {tools:.0%} of the mean is the time of tools and people."
    )


def _keeps_up(facts: Mapping[str, Any]) -> str:
    if "tasks" in facts and facts["steady"] is not None:
        tasks = facts["tasks"]
        if facts["steady"]:
            return f"It keeps up with {tasks['offered_rate']:.3g} tasks per second."
        return (
            f"It does not keep up with {tasks['offered_rate']:.3g} tasks per second: "
            f"{tasks['growth']:.3g} more are at work every second."
        )
    if facts["offered_rate"] is None:
        return f"All requests come at once; {facts['served_rate']:.3g} are served per second."
    if facts["steady"] is None:
        return "The run is too short to say whether it keeps up with its traffic."
    if facts.get("refused", {"requests": 0})["requests"]:
        return f"It refuses {facts['refused']['share']:.1%} of {facts['offered_rate']:.3g} requests per second."
    if facts["steady"]:
        return f"It keeps up with {facts['offered_rate']:.3g} requests per second."
    return f"It does not keep up: {facts['queue_growth']:.3g} more requests wait every second."


def training_summary(facts: Mapping[str, Any]) -> list[str]:
    """Three sentences of what ``rackmath train --json`` says; the reason where it does not fit."""
    gb = f"{facts['memory_per_gpu'] / 1e9:.1f} of {facts['capacity'] / 1e9:.1f} GB"
    most = max(facts["memory"], key=lambda part: facts["memory"][part])
    if not facts["fits"]:
        return [f"It fits in no layout: {facts['layout']} needs least, {gb}, most of it for {most}."]
    low, high = facts["days_range"]
    dollars = (
        "at no known price"
        if facts["usd"] is None
        else f"{facts['usd']:,.0f} $"
        if facts["usd"] >= 100
        else f"{facts['usd']:.3g} $"
    )
    return [
        f"{_days(facts['days'])} ({_days(low)} to {_days(high)}), {dollars}, on {facts['system']}.",
        f"Products run at {facts['mfu']:.0%} of the peak; {most} take most of the {gb} that are in use.",
        f"Checkpoints and failures cost {1 - facts['useful']:.1%} of the time.",
    ]


def _days(days: float) -> str:
    return f"{days:.3g} days" if days >= 1 else show(86_400 * days, "s")


def _cost(price: float | None, speed: float, of: str = "each accelerator") -> str:
    speed_text = f"{speed:,.0f}" if speed >= 100 else f"{speed:.3g}"
    return f"{speed_text} tokens/s for {of}" if price is None else f"{price:.3g} $ per million tokens"


def _stop(name: str) -> str:
    return "memory" if name == "memory" else f"the limit on the {name}" if name.startswith("time") else f"the {name}"


def _cheaper(best: Mapping[str, Any], frontier: Sequence[Mapping[str, Any]]) -> list[str]:
    """The fastest point at half the cost; else the cheapest."""
    slower = [p for p in frontier if _per_paid(p) > 1.02 * _per_paid(best)]
    if not slower:
        return ["At no speed is a token cheaper with these accelerators."]
    half = [p for p in slower if _per_paid(p) >= 2 * _per_paid(best)]
    pick = max(half, key=lambda p: p["tokens_per_second_per_user"]) if half else max(slower, key=_per_paid)
    ratio, speed = _per_paid(best) / _per_paid(pick), pick["tokens_per_second_per_user"]
    return [f"At {speed:.3g} tokens/s for each user a token would cost {ratio:.0%} of that."]


def _per_paid(point: Mapping[str, Any]) -> float:
    """Tokens per second of each accelerator that is paid for. [tokens/s]"""
    return point["tokens_per_second_per_gpu"] * point["gpus"] / point["billed_gpus"]
