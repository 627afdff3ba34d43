"""``simulate``: a trace, or made-up traffic, through a fleet."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from rackmath import catalogue, constants_file
from rackmath.cli import render
from rackmath.cli.figures import check_picture, save
from rackmath.cli.simulate_text import figure, show_result
from rackmath.constants_file import FAMILIES, NOW
from rackmath.engine.layout import parse_layout
from rackmath.engine.timer import engine_timer
from rackmath.errors import InputError
from rackmath.models.formats import cache_format, weight_format
from rackmath.models.requantise import requantise
from rackmath.serving.simulator.deployment import (
    Deployment,
    deploy,
    scaled_times,
    smallest_layout,
    transfer_of,
    two_pools,
)
from rackmath.serving.simulator.outcome import good, request_times, series, spread, timeline
from rackmath.serving.simulator.run import Outcome, simulate
from rackmath.serving.simulator.settings import (
    EVICTIONS,
    POLICIES,
    PREEMPTIONS,
    ROUTERS,
    Batching,
    Failures,
    Fleet,
    PrefixCache,
    Scaling,
    Tier,
)
from rackmath.serving.simulator.workload import Workload
from rackmath.tables import write_table, write_text
from rackmath.traffic import Asked, traffic
from rackmath.units import parse

if TYPE_CHECKING:
    from rackmath.hardware import System
    from rackmath.models.architecture import Architecture

_RANGED = 200_000
"""Requests up to which the ends of the range are simulated as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """Everything that one run of the simulator needs."""

    work: Workload
    batching: Batching
    cache: PrefixCache
    fleets: tuple[Fleet, ...]
    deployed: tuple[Deployment, ...]
    """One pool, or readers and writers."""
    transfer: Any = None


@click.command(
    "simulate",
    epilog="Example: rackmath simulate llama-3.1-8b --on h100-sxm --gpus 2 --poisson 20 --input 1000 --output 200",
)
@click.argument("model", metavar="MODEL")
@click.option("--on", "on", required=True, metavar="SYSTEM", help="Catalogue name, or path of a TOML file.")
@click.option("--gpus", type=click.IntRange(1, 1_000_000), required=True, help="Accelerators of the fleet.")
@click.option("--layout", help="Of one copy, as tp8,ep8,dp1 (default: the fewest accelerators that hold the model).")
@click.option("--prefill-gpus", type=click.IntRange(1), help="Of them, read prompts only: two pools.")
@click.option("--trace", type=click.Path(path_type=Path), help="CSV, JSONL or Parquet: Azure, Mooncake, BurstGPT, own.")
@click.option("--repair", is_flag=True, help="Mend a trace instead of refusing it, and say how.")
@click.option("--scale", type=float, default=1.0, show_default=True, help="Times as fast.")
@click.option("--first", type=click.IntRange(1), help="Only so many requests.")
@click.option("--poisson", "rate", type=float, help="Requests per second, made up.")
@click.option("--users", type=click.IntRange(1), help="Users instead, each of whom waits for an answer and asks again.")
@click.option("--turns", type=click.IntRange(1), default=1, show_default=True, help="Of a session of growing context.")
@click.option("--grows", type=click.IntRange(0), default=0, help="Tokens that a turn adds beside the answer.")
@click.option("--think", type=float, default=0.0, show_default=True, help="Mean time of a user between turns, in s.")
@click.option(
    "--burst", type=float, default=1.0, show_default=True, help="Spread of gaps over their mean; 1 is Poisson."
)
@click.option("--swing", type=float, default=0.0, show_default=True, help="Of the rate over a day, 0 to 1.")
@click.option("--input", "input_tokens", type=float, help="Mean tokens of a prompt.")
@click.option("--output", "output_tokens", type=float, help="Mean tokens of an answer.")
@click.option("--spread", type=float, default=0.0, show_default=True, help="Of lengths, over their mean.")
@click.option("--requests", type=click.IntRange(1, 100_000_000), default=10_000, show_default=True, help="Made up.")
@click.option("--classes", help="Shares of priority classes, most urgent first, as 0.2,0.8.")
@click.option("--policy", type=click.Choice(list(POLICIES)), default="chunked", show_default=True)
@click.option("--preemption", type=click.Choice(list(PREEMPTIONS)), default="recompute", show_default=True)
@click.option("--budget", type=int, default=8192, show_default=True, help="Tokens of one step.")
@click.option("--seats", type=int, default=256, show_default=True, help="Sequences of a replica at most.")
@click.option("--block", type=int, default=16, show_default=True, help="Tokens of a block of the cache.")
@click.option("--drafted", type=int, default=0, show_default=True, help="Tokens that a step speculates.")
@click.option("--acceptance", help="Chance at each position, as 0.8,0.6 (default: the engine's for all).")
@click.option("--period", type=float, default=0.02, show_default=True, help="Of the train, in s.")
@click.option("--tiers", help="Prefix cache of a replica, as hbm=20GB,dram=1TB@50GB/s,flash=8TB@6GB/s+100us.")
@click.option("--eviction", type=click.Choice(list(EVICTIONS)), default="lru", show_default=True)
@click.option("--ttl", type=float, default=300.0, show_default=True, help="Of unused blocks under ttl, in s.")
@click.option("--write-through", is_flag=True, help="Blocks go to all tiers at once, not when they are given up.")
@click.option("--wait-for-loads", is_flag=True, help="Steps wait for blocks from lower tiers.")
@click.option("--prefix-block", type=int, default=512, show_default=True, help="Tokens of a prefix block.")
@click.option("--router", type=click.Choice(list(ROUTERS)), default="least-loaded", show_default=True)
@click.option("--mtbf", type=float, help="Mean time between failures of a replica, in s.")
@click.option("--repair-time", type=float, default=600.0, show_default=True, help="Of a replica that failed, in s.")
@click.option("--scale-to", type=int, help="Start with the replicas that --gpus make, go up to so many with the load.")
@click.option("--startup", type=float, default=60.0, show_default=True, help="Of a replica, in s.")
@click.option("--ttft", type=float, help="Limit of the time to the first token, in s, for goodput.")
@click.option("--tpot", type=float, help="Limit of the time per token, in s, for goodput.")
@click.option("--weights", help="Format of the linear layers (default: the config's).")
@click.option("--kv", help="Format of the cache (default: the config's).")
@click.option("--engine", type=click.Choice(FAMILIES), default="vllm", show_default=True)
@click.option("--year", type=float, default=NOW, show_default=True, help="When the engine's version is from.")
@click.option("--ideal", is_flag=True, help="The pure bound, without an engine's losses.")
@click.option("--usd-per-gpu-hour", type=float, help="Price of one accelerator, if not the catalogue's.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--out", metavar="FILE.parquet", help="Write one row per request.")
@click.option("--timeline", "timeline_file", metavar="FILE.json", help="Write a trace for Perfetto.")
@click.option("--plot", metavar="FILE", help="Draw load, queue and percentiles: FILE.html, FILE.png or FILE.svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def simulate_command(model: str, on: str, **given: Any) -> None:
    """Replay real traffic, or made-up traffic, against a deployment, event by event.

    Step times are the engine's, as in estimate; replicas batch continuously, page their cache, give places up, share
    prefixes. The range is that of all steps at the engine's 90 % range.

    MODEL is a catalogue name, a path to a config.json, or a folder that holds one.
    """
    drawn = check_picture(given["plot"])
    for name, suffix in (("out", ".parquet"), ("timeline_file", ".json")):
        if given[name] and not given[name].endswith(suffix):
            raise InputError("--" + name.split("_")[0], given[name], f"end the name with {suffix}")
    system = catalogue.system(on)
    architecture = requantise(
        catalogue.model(model),
        weights=weight_format(given["weights"]) if given["weights"] else None,
        cache=cache_format(given["kv"]) if given["kv"] else None,
    )
    work, notes = traffic(_asked(given))
    job, software = _job(architecture, system, work, given)
    started = perf_counter()
    found = _run(job, render.show_progress)
    seconds = perf_counter() - started
    facts = _facts(architecture, system, job, found, given)
    facts["seconds"] = seconds
    facts["range"] = _range(job, architecture, system, given, software)
    facts["assumptions"] = [*notes, *_assumptions(job, software, system, given)]
    last = found[-1]
    if given["out"]:
        _write_requests(Path(given["out"]), job, found)
    if given["timeline_file"]:
        text = json.dumps({"traceEvents": timeline(last), "displayTimeUnit": "ms"})
        write_text(Path(given["timeline_file"]), text, "--timeline")
    if drawn is not None:
        save(figure(facts, series(last, job.work.output), _times(job, found)), drawn)
    if given["as_json"]:
        render.show_json(facts)
        return
    show_result(facts)


def _asked(given: dict[str, Any]) -> Asked:
    return Asked(
        trace=given["trace"],
        repair=given["repair"],
        scale=given["scale"],
        first=given["first"],
        rate=given["rate"],
        users=given["users"],
        turns=given["turns"],
        grows=given["grows"],
        think=given["think"],
        burst=given["burst"],
        swing=given["swing"],
        input=given["input_tokens"],
        output=given["output_tokens"],
        spread=given["spread"],
        requests=given["requests"],
        classes=_numbers(given["classes"], "--classes"),
        block=given["prefix_block"],
        seed=given["seed"],
    )


def _numbers(text: str | None, field: str) -> tuple[float, ...]:
    if not text:
        return ()
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(field, text, "write numbers with commas between") from error


def _tiers(text: str | None) -> tuple[Tier, ...]:
    """Read ``hbm=20GB,dram=1TB@50GB/s+10us``; inf for a tier without end."""
    found: list[Tier] = []
    for part in text.split(",") if text else ():
        name, _, rest = part.partition("=")
        size, _, speed = rest.partition("@")
        bandwidth, _, latency = speed.partition("+")
        if not name or not size:
            raise InputError("--tiers", part, "write name=capacity, then @bandwidth and +latency, as dram=1TB@50GB/s")
        found.append(
            Tier(
                name=name,
                capacity=float("inf") if size == "inf" else parse(size, "B", "--tiers"),
                bandwidth=parse(bandwidth, "B/s", "--tiers") if bandwidth else float("inf"),
                latency=parse(latency, "s", "--tiers") if latency else 0.0,
            )
        )
    return tuple(found)


def _job(
    architecture: Architecture, system: System, work: Workload, given: dict[str, Any]
) -> tuple[_Job, constants_file.Engine | None]:
    """Deployments, batching and fleets of what was asked."""
    software = None if given["ideal"] else constants_file.engine_of(system, given["engine"], given["year"])
    losses = None if software is None else constants_file.losses_of(system, software, "time per token")
    timer = engine_timer(architecture, system, losses)
    gpus, readers = given["gpus"], given["prefill_gpus"] or 0
    if readers >= gpus:
        raise InputError("--prefill-gpus", readers, f"leave some of the {gpus} accelerators to write")
    system.require_network(gpus)
    scheduling = None if software is None else constants_file.scheduling_of(software)
    drafted = given["drafted"]
    chances = _numbers(given["acceptance"], "--acceptance")
    if drafted and not chances:
        chances = (float(scheduling.acceptance) if scheduling else 1.0,) * drafted
    context = float((work.prompt + work.output).mean())
    shares = [readers, gpus - readers] if readers else [gpus]
    layouts = [_layout(architecture, system, share, context, given["layout"]) for share in shares]
    groups = int(layouts[-1].data)
    share = 1.0
    if scheduling is not None:
        share = float(scheduling.interruption) * (1 + float(scheduling.lockstep) * (groups - 1))
    batching = Batching(
        policy=given["policy"],
        preemption=given["preemption"],
        budget=given["budget"],
        seats=given["seats"],
        block=given["block"],
        drafted=drafted,
        acceptance=chances,
        share=share,
        outside=0.0 if scheduling is None else float(scheduling.arrival),
        period=given["period"],
    )
    deployed = tuple(deploy(architecture, system, layout, timer, batching, work) for layout in layouts)
    tiers = _tiers(given["tiers"])
    fleets = tuple(_fleet(share, one, given) for share, one in zip(shares, deployed, strict=True))
    return (
        _Job(
            work=work,
            batching=batching,
            cache=PrefixCache(
                tiers=tiers,
                eviction=given["eviction"],
                lifetime=given["ttl"],
                through=given["write_through"],
                overlapped=not given["wait_for_loads"],
            ),
            fleets=fleets,
            deployed=deployed,
            transfer=transfer_of(architecture, system, layouts[0], layouts[-1], gpus) if readers else None,
        ),
        software,
    )


def _layout(architecture: Architecture, system: System, gpus: int, context: float, text: str | None) -> Any:
    if text is None:
        return smallest_layout(architecture, system, gpus, context)
    layout = parse_layout(text, None, architecture)
    if gpus % int(layout.gpus):
        raise InputError("--layout", text, f"{gpus} accelerators do not divide by its {layout.gpus:g}")
    if layout.pipeline > 1:
        raise InputError("--layout", text, "stages are not simulated: leave pp at 1")
    return layout


def _fleet(gpus: int, one: Deployment, given: dict[str, Any]) -> Fleet:
    replicas = gpus // int(one.layout.gpus) * one.groups
    most = given["scale_to"]
    return Fleet(
        replicas=replicas,
        router=given["router"],
        failures=Failures(between=given["mtbf"] or float("inf"), repair=given["repair_time"]),
        scaling=None if most is None else Scaling(least=replicas, most=most, startup=given["startup"]),
        seed=given["seed"],
    )


def _run(job: _Job, progress: Any = None) -> tuple[Outcome, ...]:
    """One pool, or readers and writers."""

    def say(done: int, of: int) -> None:
        if progress is not None:
            progress(f"{done:,} of {of:,} requests")

    if job.transfer is None:
        one = job.deployed[0]
        return (
            simulate(
                job.work,
                one.times,
                batching=replace(job.batching, memory=one.memory),
                cache=job.cache,
                fleet=job.fleets[0],
                kv_bytes=one.kv_bytes,
                progress=say,
            ),
        )
    pools = two_pools(
        job.work,
        *job.deployed,
        batching=job.batching,
        cache=job.cache,
        fleets=(job.fleets[0], job.fleets[1]),
        transfer=job.transfer,
        progress=say,
    )
    return pools.prefill, pools.decode


def _times(job: _Job, found: tuple[Outcome, ...]) -> Any:
    arrival = found[0].requests["arrival"]
    return request_times(found[-1], job.batching.outside, job.work.output, arrival)


def _facts(
    architecture: Architecture, system: System, job: _Job, found: tuple[Outcome, ...], given: dict[str, Any]
) -> dict[str, Any]:
    """The JSON of contract.md and more."""
    times, first, last = _times(job, found), found[0], found[-1]
    span = max(last.end - float(first.requests["arrival"].min()), 1e-9)
    written = float(job.work.output.sum())
    price = catalogue.price_of(system, given["usd_per_gpu_hour"])
    spent = sum(
        one.replica_seconds * float(d.layout.gpus) / d.groups for one, d in zip(found, job.deployed, strict=True)
    )
    busy = sum(
        float(one.replicas.own["busy"].sum()) * float(d.layout.gpus) / d.groups
        for one, d in zip(found, job.deployed, strict=True)
    )
    kept = good(times, given["ttft"] or np.inf, given["tpot"] or np.inf)
    own = last.replicas.own
    work = float(own["busy"].sum())
    blocks = job.deployed[-1].memory // job.batching.block
    return {
        "model": architecture.name,
        "system": system.name,
        "layout": [one.layout.text() for one in job.deployed],
        "replicas": [fleet.replicas for fleet in job.fleets],
        "requests": len(job.work),
        "time_to_first_token": _spread(times.first),
        "time_per_output_token": _spread(times.per_token),
        "latency": _spread(times.whole),
        "queueing": _spread(times.queueing if len(found) == 1 else request_times(first, 0.0, job.work.output).queueing),
        "throughput": written / span,
        "requests_per_second": len(job.work) / span,
        "goodput": float(kept.sum()) / span,
        "good_share": float(kept.mean()),
        "hit_rate": first.hits,
        "blocks_asked": first.blocks_asked,
        "hit_tokens": float(first.requests["hit"].sum()) / float(job.work.prompt.sum()),
        "utilisation": busy / max(spent, 1e-9),
        "mean_batch": float(own["batch"].sum()) / max(work, 1e-9),
        "memory_in_use": float(own["kept"].sum()) / max(work * blocks, 1e-9),
        "preempted": int((last.requests["dropped"] > 0).sum()),
        "failures": sum(one.failures for one in found),
        "most_replicas": max(one.most_replicas for one in found),
        "span": span,
        "energy_kwh": None if system.chip.power is None else spent * system.chip.power / 3.6e6,
        "usd_per_million_tokens": None if price is None else spent * price / written * 1e6,
        "table_error": max(one.times.error for one in job.deployed),
    }


def _spread(values: Any) -> dict[str, Any] | None:
    found = spread(values)
    return None if found is None else asdict(found)


def _range(
    job: _Job, architecture: Architecture, system: System, given: dict[str, Any], software: Any
) -> dict[str, Any] | None:
    """Percentiles where every step takes the low or the high end of its 90 % range."""
    if software is None or len(job.work) > _RANGED:
        return None
    ends = constants_file.constants().range("time per token", system.chip.name)
    found: dict[str, Any] = {"steps": list(ends)}
    for name, factor in zip(("low", "high"), ends, strict=True):
        deployed = tuple(replace(one, times=scaled_times(one.times, factor)) for one in job.deployed)
        facts = _facts(architecture, system, *_rerun(replace(job, deployed=deployed)), given)
        found[name] = {
            key: {p: facts[key][p] for p in ("mean", "p50", "p90", "p99")}
            for key in ("time_to_first_token", "time_per_output_token", "latency")
            if facts[key] is not None
        } | {"throughput": facts["throughput"], "goodput": facts["goodput"]}
    return found


def _rerun(job: _Job) -> tuple[_Job, tuple[Outcome, ...]]:
    return job, _run(job)


def _assumptions(job: _Job, software: Any, system: System, given: dict[str, Any]) -> list[str]:
    one = job.deployed[-1]
    return [
        *catalogue.price_note(system, given["usd_per_gpu_hour"]),
        "the bound, without losses" if software is None else f"step times of {given['engine']} of {given['year']:g}",
        f"tables within {max(d.times.error for d in job.deployed):.1%} of the engine where they were checked",
        f"a replica holds {one.memory:,} tokens of cache in blocks of {job.batching.block}, {job.batching.seats} seats",
        f"{job.batching.policy}, {job.batching.preemption}, {given['router']}; seed {given['seed']}",
        *(["each of a layout's data-parallel groups is a replica; the others are taken to be as busy"]
          if one.groups > 1 else []),
        *(["a replica that fails loses its caches; what it held is read again elsewhere, nothing is lost"]
          if given["mtbf"] else []),
    ]  # fmt: skip


def _write_requests(path: Path, job: _Job, found: tuple[Outcome, ...]) -> None:
    import polars as pl

    times, q = _times(job, found), found[-1].requests
    table = pl.DataFrame(
        {
            "arrival": found[0].requests["arrival"],
            "input": job.work.prompt,
            "output": job.work.output,
            "priority": job.work.rank,
            "replica": q["place"],
            "cached_tokens": found[0].requests["hit"],
            "preempted": q["dropped"],
            "queueing": times.queueing,
            "time_to_first_token": times.first,
            "time_per_output_token": times.per_token,
            "latency": times.whole,
        }
    )
    write_table(path, table, "--out")
