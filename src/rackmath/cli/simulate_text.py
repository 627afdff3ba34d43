"""What ``simulate`` prints and draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackmath.api.summary import simulation_summary
from rackmath.cli import render
from rackmath.units import counted, show

QUANTITIES = (
    ("time_to_first_token", "time to first token"),
    ("time_per_output_token", "time per output token"),
    ("latency", "arrival to last token"),
    ("queueing", "of that, queueing"),
)


def show_result(facts: Mapping[str, Any]) -> None:
    """Percentiles with their range, then what it took."""
    replicas = " and ".join(f"{n} of {text}" for n, text in zip(facts["replicas"], facts["layout"], strict=True))
    span = facts["range"]
    render.show_lines(
        f"{facts['requests']:,} requests to {facts['model']} on {facts['system']}: {replicas}",
        simulation_summary(facts),
    )
    render.show_table(
        "what users see",
        ["", ">mean", ">p50", ">p90", ">p99", ">p99 if steps err"],
        [_row(facts, span, key, name) for key, name in QUANTITIES if facts[key] is not None],
    )
    if "tasks" in facts:
        render.show_table(
            f"how long a task takes ({facts['tasks']['in_statistics']:,} of {facts['tasks']['count']:,} tasks)",
            ["", ">mean", ">p50", ">p90", ">p99", ">p99 if steps err"],
            [_task_row(facts["tasks"][key], name) for key, name in _OF_TASKS],
        )
    if facts["services"]:
        render.show_table(
            "by what they ask for",
            ["replicas", ">requests", ">TTFT p50", ">TTFT p99", ">TPOT p50", ">TPOT p99", ">in time", ">$ per M"],
            [_service(service) for service in facts["services"]],
        )
    _show_classes(facts)
    dollars = facts["usd_per_million_tokens"]
    pairs = [
        ("load", load_text(facts)),
        ("throughput", f"{facts['throughput']:,.0f} tokens/s while requests arrive"),
        *goodput_pairs(facts),
        ("replicas", f"busy {facts['utilisation']:.0%} of their time, mean batch {facts['mean_batch']:.1f}"),
        (
            "cache",
            f"{facts['memory_in_use']:.0%} of its blocks in use; {counted(facts['preempted'], 'request')} preempted",
        ),
    ]
    if "refused" in facts:
        pairs.append(("refused", _refused(facts["refused"])))
    pairs += _prefix_pairs(facts)
    if "tasks" in facts:
        pairs += _task_pairs(facts["tasks"])
    if facts["failures"]:
        pairs.append(("failures", f"{facts['failures']} of replicas"))
    if facts["most_replicas"] > sum(facts["replicas"]):
        pairs.append(
            (
                "scaled",
                f"up to {facts['most_replicas']} replicas, {facts['mean_replicas']:.2f} on average",
            )
        )
    if "upgrade" in facts:
        pairs.append(("upgrade", _upgrade(facts["upgrade"])))
    if dollars is not None:
        pairs.append(("cost", f"{dollars:.3g} $ per million tokens written"))
    if facts["energy_kwh"] is not None:
        pairs.append(("energy", _energy(facts)))
    pairs.append(("simulated time", show(facts["span"], "s")))
    render.show_pairs("what it took", pairs)
    render.show_lines("assumed", facts["assumptions"])


def goodput_pairs(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Requests within the limits, where there are limits."""
    if not any(facts["limits"].values()):
        return []
    return [("goodput", f"{facts['goodput']:.3g} requests/s within the limits, {facts['good_share']:.1%} of all")]


def _prefix_pairs(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What prefix caches gave and held, where requests name prefixes."""
    if not facts["blocks_asked"]:
        return []
    tiers = ", ".join(f"{name} {share:.2%}" for name, share in facts["hit_rate"].items())
    sizes_text = ", ".join(f"{name} {show(size, 'B')}" for name, size in facts["tier_bytes"].items())
    return [
        ("prefixes", f"{tiers} of {facts['blocks_asked']:,} blocks; {facts['hit_tokens']:.1%} of tokens"),
        ("prefixes kept", f"{sizes_text}, on average and of all replicas together"),
    ]


def _show_classes(facts: Mapping[str, Any]) -> None:
    """What users of each class saw, where there are several."""
    if "classes" in facts:
        render.show_table(
            "by class",
            ["class", ">requests", ">TTFT p50", ">TTFT p99", ">TPOT p50", ">TPOT p99", ">in time"],
            [(str(k + 1), *_of_requests(row)) for k, row in enumerate(facts["classes"])],
        )


def _refused(refusal_facts: Mapping[str, Any]) -> str:
    """Requests that met a full queue."""
    text = f"{refusal_facts['requests']:,} requests for a full queue, {refusal_facts['share']:.1%}"
    return (
        text
        if not refusal_facts["with_tokens"]
        else f"{text}; {refusal_facts['with_tokens']:,} of them amid their answer"
    )


def _upgrade(upgrade: Mapping[str, Any]) -> str:
    """How long a rolling upgrade took, and first tokens meanwhile beside those of the rest of the run."""
    if upgrade["end"] is None:
        text = f"{upgrade['replicas']} replicas since {show(upgrade['begin'], 's')}, others not before the run ended"
    else:
        text = f"{upgrade['replicas']} replicas in {show(upgrade['end'] - upgrade['begin'], 's')}"
    meanwhile, rest = upgrade["time_to_first_token"], upgrade["time_to_first_token_outside"]
    if meanwhile is not None:
        text += f"; first token p99 {show(meanwhile['p99'], 's')} in that time"
        text += f", {show(rest['p99'], 's')} before and after" if rest is not None else ""
    return text


def _energy(facts: Mapping[str, Any]) -> str:
    """Energy of the accelerators, per written token, and emissions where a grid is known."""
    low, high = facts["energy_kwh_range"]
    text = f"{facts['energy_kwh']:.3g} kWh ({low:.3g} to {high:.3g}) of accelerators"
    text += f", {show(facts['joules_per_token'], 'J')} per written token"
    return text if facts["kg_co2"] is None else f"{text}, {facts['kg_co2']:.3g} kg of CO2"


def load_text(facts: Mapping[str, Any]) -> str:
    """Offered and served rates, and whether the queue grows."""
    offered_rate, completion_rate = facts["offered_rate"], facts["served_rate"]
    if offered_rate is None:
        return f"all requests at once, {completion_rate:.3g} served per second"
    rates = f"{offered_rate:.3g} requests/s offered, {completion_rate:.3g} served"
    if "tasks" in facts and facts["steady"] is not None:
        tasks = facts["tasks"]
        rates = f"{tasks['offered_rate']:.3g} tasks/s offered, {tasks['served_rate']:.3g} served; {rates}"
    if facts["steady"] is None:
        return f"{rates}; too short to say whether it is steady"
    if facts["steady"]:
        return f"{rates}; steady{_warm_up(facts)}"
    if "tasks" in facts:
        return f"{rates}; not steady: {facts['tasks']['growth']:.3g} more tasks are at work every second"
    late = facts["leaves_limit_after"]
    when = "" if late is None else f"; the mean first token leaves its limit after {show(late, 's')}"
    return f"{rates}; not steady: {facts['queue_growth']:.3g} more requests wait every second, percentiles grow{when}"


def _warm_up(facts: Mapping[str, Any]) -> str:
    """Requests at the start that percentiles leave out."""
    warm = facts["warm_up_requests"]
    if warm is None:
        return ", but its start cannot be told from the rest: percentiles are those of all requests"
    return f" after its first {warm:,} requests, which percentiles leave out" if warm else ""


def _row(facts: Mapping[str, Any], span: Mapping[str, Any] | None, key: str, name: str) -> tuple[str, ...]:
    percentiles = facts[key]
    ends = ""
    if span is not None and key in span["low"] and key in span["high"]:
        ends = f"{show(span['low'][key]['p99'], 's')} to {show(span['high'][key]['p99'], 's')}"
    return name, *(show(percentiles[p], "s") for p in ("mean", "p50", "p90", "p99")), ends


_OF_TASKS = (
    ("time", "first request to last token"),
    ("service_time", "of that, served"),
    ("queueing_time", "of that, queueing"),
    ("tool_time", "of that, tools and people"),
)


def _task_row(spread: Mapping[str, Any], name: str) -> tuple[str, ...]:
    ends = " to ".join(show(end, "s") for end in spread.get("p99_range", []))
    return name, *(show(spread[p], "s") for p in ("mean", "p50", "p90", "p99")), ends


def _task_pairs(tasks: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Size and price of a task, and what caches had of what it repeats."""
    size = (
        f"{tasks['requests']:.3g} requests, {tasks['input_tokens']:,.0f} tokens read of which "
        f"{tasks['cached_share']:.1%} were cached, {tasks['output_tokens']:,.0f} written"
    )
    pairs = [("a task", size)]
    if tasks["usd"] is not None:
        span = " to ".join(f"{end:.3g}" for end in tasks.get("usd_range", []))
        pairs.append(("a task costs", f"{tasks['usd']:.3g} $" + (f" ({span} if steps err)" if span else "")))
    if tasks["prefix_reuse"]:
        shares = ", ".join(f"{name} {part:.1%}" for name, part in tasks["prefix_reuse"].items())
        pairs.append(("prefix reuse", f"{shares} of what an endless cache would find"))
    return pairs


def _service(facts: Mapping[str, Any]) -> tuple[str, ...]:
    dollars = facts["usd_per_million_tokens"]
    return (" and ".join(facts["replicas"]), *_of_requests(facts), "" if dollars is None else f"{dollars:.3g}")


def _of_requests(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """How many requests of a service or of a class, their waits, and how many are in time."""
    waits = [facts["time_to_first_token"], facts["time_per_output_token"]]
    return (
        f"{facts['requests']:,}",
        *("" if wait is None else show(wait[p], "s") for wait in waits for p in ("p50", "p99")),
        "" if facts["good_share"] is None else f"{facts['good_share']:.1%}",
    )
