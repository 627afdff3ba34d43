"""What traffic was asked for: a trace, arrivals at a rate, users who wait for answers, sessions of agents."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rackmath.errors import InputError
from rackmath.serving.simulator.workload import (
    Workload,
    agents,
    copied,
    daily,
    gamma_arrivals,
    head,
    lengths,
    of_classes,
    plain,
    scaled,
    users,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Options of a user; fields as in ``rackmath simulate``."""

    trace: Path | None = None
    repair: bool = False
    scale: float = 1.0
    copies: float = 1.0
    first: int | None = None
    rate: float | None = None
    users: int | None = None
    turns: int = 1
    grows: int = 0
    think: float = 0.0
    burst: float = 1.0
    swing: float = 0.0
    input: float | None = None
    output: float | None = None
    spread: float = 0.0
    requests: int = 10_000
    classes: tuple[float, ...] = ()
    block: int = 512
    seed: int = 0


def traffic(asked: Asked) -> tuple[Workload, list[str]]:
    """Make or read a workload; notes on what had to be mended.

    Errors: :class:`InputError` for options that contradict each other, or too few of them.
    """
    ways = [name for name in ("trace", "rate", "users") if getattr(asked, name) is not None]
    if len(ways) != 1:
        raise InputError("--trace, --poisson, --users", ", ".join(ways) or None, "give one of the three")
    random = np.random.default_rng(asked.seed)
    notes: list[str] = []
    if asked.trace is not None:
        # Polars is for those who read a file.
        from rackmath.trace_files import read_trace

        work, notes = read_trace(asked.trace, block=asked.block, repair=asked.repair)
        work = head(work, asked.first) if asked.first else work
    else:
        work = _made(asked, random)
    if asked.copies != 1.0:
        work = copied(work, asked.copies, random)
    if asked.scale != 1.0:
        work = scaled(work, asked.scale)
    if asked.classes:
        work = of_classes(work, asked.classes, random)
    return work, notes


def _made(asked: Asked, random: np.random.Generator) -> Workload:
    if asked.input is None or asked.output is None:
        raise InputError("--input, --output", (asked.input, asked.output), "made-up traffic needs both")
    if not 0 <= asked.think < 1e7:
        raise InputError("--think", asked.think, "write seconds from 0")
    prompt = lengths(asked.input, asked.spread, asked.requests, random)
    output = lengths(asked.output, asked.spread, asked.requests, random)
    if asked.users is not None:
        return users(min(asked.users, asked.requests), asked.requests, prompt, output, asked.think)
    assert asked.rate is not None, "one of three ways was asked for"
    if asked.turns > 1:
        sessions = gamma_arrivals(asked.rate, asked.burst, max(asked.requests // asked.turns, 1), random)
        return agents(
            daily(sessions, asked.swing) if asked.swing else sessions,
            asked.turns,
            first=round(asked.input),
            grows=asked.grows,
            output=round(asked.output),
            think=asked.think,
            block=asked.block,
            random=random,
        )
    arrival = gamma_arrivals(asked.rate, asked.burst, asked.requests, random)
    return plain(daily(arrival, asked.swing) if asked.swing else arrival, prompt, output)
