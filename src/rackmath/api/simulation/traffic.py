"""What traffic was asked for: a trace, arrivals at a rate, users who wait for answers, sessions of agents."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rackmath.api import kinds
from rackmath.errors import InputError
from rackmath.serving.simulator.days import DAY, daily
from rackmath.serving.simulator.sessions import agents
from rackmath.serving.simulator.tasks import beginning_at, first_requests, of_users
from rackmath.serving.simulator.workload import (
    Arrivals,
    F,
    checked,
    copied,
    gamma_arrivals,
    head,
    lengths,
    of_classes,
    plain,
    scaled,
    thinking,
    users,
)

MOST = 100_000_000
"""Requests of one run."""
_PIECES = 128
"""Blocks of a beginning that all prompts share."""
_OF_TASKS = 64
"""Tokens of a prefix block of made-up tasks."""


def _path(value: object, field: str) -> Path | Arrivals:
    if isinstance(value, (Path, Arrivals)):
        return value
    if isinstance(value, str):
        return Path(value)
    raise InputError(field, value, "give a path, or what read_trace returns")


TRACE = kinds.Kind(name="path", read=_path)
"""A trace: its path, or its requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficRequest:
    """Traffic; fields as in ``rackmath simulate``."""

    trace: Path | Arrivals | None = None
    repair: bool = False
    scale: float = 1.0
    copies: float = 1.0
    limit: int | None = None
    rate: float | None = None
    users: int | None = None
    turns: int = 1
    turn_tokens: int = 0
    think_time: float = 0.0
    interarrival_cv: float = 1.0
    diurnal_amplitude: float = 0.0
    day_start: float = 0.0
    input: float | None = None
    output: float | None = None
    length_cv: float = 0.0
    cached_prefix: float = 0.0
    """Part of every made-up prompt that all prompts begin with."""
    requests: int = 10_000
    classes: tuple[float, ...] = ()
    block: int | None = None
    """Tokens of a prefix block; by default those of the trace, else 512 as Mooncake's, of made-up tasks 64."""
    page: int = 16
    """Tokens of a block of the paged cache, of which a prefix block is a multiple."""
    seed: int = 0


def traffic(request: TrafficRequest) -> tuple[Arrivals, list[str]]:
    """Make or read a workload; notes on what had to be mended.

    Errors: :class:`InputError` for options that contradict each other, or too few of them.
    """
    ways = [name for name in ("trace", "rate", "users") if getattr(request, name) is not None]
    if not ways or {"rate", "users"} <= set(ways):
        raise InputError("--trace, --poisson, --users", ", ".join(ways) or None, "give one of the three")
    if request.requests > MOST:
        raise InputError("--requests", request.requests, f"one run has at most {MOST:,}: --windows cuts a longer one")
    if not 0 <= request.day_start < DAY:
        raise InputError("--day-start", request.day_start, "write seconds from 0 to below 86,400")
    if not 0 <= request.cached_prefix <= 1:
        raise InputError("--cached-prefix", request.cached_prefix, "write a part from 0 to 1")
    if request.cached_prefix and (request.trace is not None or request.turns > 1):
        raise InputError("--cached-prefix", request.cached_prefix, "traces and sessions have prefixes of their own")
    random = np.random.default_rng(request.seed)
    notes: list[str] = []
    if request.trace is not None:
        work, notes = _read(request.trace, request)
        work = head(work, request.limit) if request.limit else work
        work = _begun(work, request, random)
    else:
        work = _made(request, random)
    if request.copies != 1.0:
        work = copied(work, request.copies, random)
    if request.scale != 1.0:
        work = scaled(work, request.scale)
    if request.classes:
        work = of_classes(work, request.classes, random)
    return work, notes


def _read(trace: Path | Arrivals, request: TrafficRequest) -> tuple[Arrivals, list[str]]:
    if isinstance(trace, Arrivals):
        return trace, []
    if trace.suffix == ".toml":
        from rackmath.io.traffic_files import read_traffic
        from rackmath.serving.traffic.agent import AgentModel, draw_tasks
        from rackmath.serving.traffic.draw import draw

        model, random = read_traffic(trace, "--trace"), np.random.default_rng(request.seed)
        if isinstance(model, AgentModel):
            work = draw_tasks(model, request.requests, request.block or _OF_TASKS, random)
            return work, [f"{work.tasks:,} tasks of {len(work):,} requests drawn from the agent of {trace.name}"]
        work = draw(model, request.requests, random)
        return work, [f"{request.requests:,} requests drawn from the traffic of {trace.name}"]
    # Polars is for those who read a file.
    from rackmath.io.traces import read_trace

    return read_trace(trace, block=request.block, repair=request.repair)


def _begun(work: Arrivals, request: TrafficRequest, random: np.random.Generator) -> Arrivals:
    """Tasks of a trace begin as it says, or as they are asked to.

    Errors: :class:`InputError` for tasks that nobody begins, and for requests of a trace that come by themselves.
    """
    starts = {"--poisson": request.rate, "--users": request.users}
    ways = [name for name, value in starts.items() if value is not None]
    if work.task is None:
        if ways:
            raise InputError(ways[0], starts[ways[0]], "requests of this trace come when it says: give one of the two")
        return work
    if request.rate is not None:
        return beginning_at(work, _arrivals(request, request.rate, work.tasks, random))
    if request.users is not None:
        people = min(request.users, work.tasks)
        return of_users(work, _beginnings(request, people, random), thinking(request.think_time, work.tasks, random))
    if not np.isfinite(work.arrival[first_requests(work)]).all():
        way_out = "the trace does not say when they begin: add --poisson, tasks per second, or --users, tasks at a time"
        raise InputError("--trace", f"{work.tasks} tasks", way_out)
    return checked(work)


def _arrivals(request: TrafficRequest, rate: float, count: int, random: np.random.Generator) -> F:
    """Times at which requests, sessions or tasks come by themselves. (count,) [s]"""
    arrival = gamma_arrivals(rate, request.interarrival_cv, count, random)
    return daily(arrival, request.diurnal_amplitude, request.day_start) if request.diurnal_amplitude else arrival


def _beginnings(request: TrafficRequest, people: int, random: np.random.Generator) -> F:
    """When each user begins. (people,) [s]"""
    begins = np.sort(random.exponential(request.think_time, people)) if request.think_time else np.zeros(people)
    return begins - begins[0]


def _made(request: TrafficRequest, random: np.random.Generator) -> Arrivals:
    if request.input is None or request.output is None:
        raise InputError("--input, --output", (request.input, request.output), "made-up traffic needs both")
    if not 0 <= request.think_time < 1e7:
        raise InputError("--think-time", request.think_time, "write seconds from 0")
    if request.turns > 1:
        return _sessions(request, random)
    prompt = lengths(request.input, request.length_cv, request.requests, random)
    output = lengths(request.output, request.length_cv, request.requests, random)
    if request.users is not None:
        people = min(request.users, request.requests)
        return _begun_alike(request, users(people, request.requests, prompt, output, request.think_time, random=random))
    assert request.rate is not None, "one of three ways was asked for"
    return _begun_alike(request, plain(_arrivals(request, request.rate, request.requests, random), prompt, output))


def _begun_alike(request: TrafficRequest, work: Arrivals) -> Arrivals:
    """Give every prompt the same beginning, which prefix caches find from the second request on."""
    if not request.cached_prefix:
        return work
    # So fine that no more than a part in a hundred of the prefix is lost to whole blocks.
    pages = max(int(request.cached_prefix * float(work.prompt.mean()) // (_PIECES * request.page)), 1)
    block = pages * request.page
    # One token of every prompt is left to read.
    whole = np.minimum((request.cached_prefix * work.prompt) // block, (work.prompt - 1) // block).astype(np.int64)
    start = np.concatenate(([0], np.cumsum(whole)))
    ids = np.arange(int(start[-1])) - np.repeat(start[:-1], whole)
    return replace(work, start=start, blocks=ids, block=block)


def _sessions(request: TrafficRequest, random: np.random.Generator) -> Arrivals:
    """Sessions of growing context: at a rate, or one after another of each user."""
    assert request.input is not None, "made-up traffic has lengths"
    assert request.output is not None, "made-up traffic has lengths"
    many = max(request.requests // request.turns, 1)
    if request.users is None:
        assert request.rate is not None, "one of three ways was asked for"
        begins = _arrivals(request, request.rate, many, random)
        people = None
    else:
        people = min(request.users, many)
        begins = np.full(many, np.nan)
        begins[:people] = _beginnings(request, people, random)
    return agents(
        begins,
        request.turns,
        first=round(request.input),
        turn_tokens=request.turn_tokens,
        output=round(request.output),
        think_time=request.think_time,
        block=request.block or _OF_TASKS,
        random=random,
        spread=request.length_cv,
        users=people,
    )
