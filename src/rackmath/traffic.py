"""What traffic was asked for: a trace, arrivals at a rate, users who wait for answers, sessions of agents."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rackmath.errors import InputError
from rackmath.serving.simulator.sessions import agents
from rackmath.serving.simulator.workload import (
    Workload,
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

_PIECES = 128
"""Blocks of a beginning that all prompts share."""


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
    cached_prefix: float = 0.0
    """Part of every made-up prompt that all prompts begin with."""
    requests: int = 10_000
    classes: tuple[float, ...] = ()
    block: int = 512
    page: int = 16
    """Tokens of a block of the paged cache, of which a prefix block is a multiple."""
    seed: int = 0


def traffic(asked: Asked) -> tuple[Workload, list[str]]:
    """Make or read a workload; notes on what had to be mended.

    Errors: :class:`InputError` for options that contradict each other, or too few of them.
    """
    ways = [name for name in ("trace", "rate", "users") if getattr(asked, name) is not None]
    if len(ways) != 1:
        raise InputError("--trace, --poisson, --users", ", ".join(ways) or None, "give one of the three")
    if not 0 <= asked.cached_prefix <= 1:
        raise InputError("--cached-prefix", asked.cached_prefix, "write a part from 0 to 1")
    if asked.cached_prefix and (asked.trace is not None or asked.turns > 1):
        raise InputError("--cached-prefix", asked.cached_prefix, "traces and sessions have prefixes of their own")
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
    if asked.turns > 1:
        return _sessions(asked, random)
    prompt = lengths(asked.input, asked.spread, asked.requests, random)
    output = lengths(asked.output, asked.spread, asked.requests, random)
    if asked.users is not None:
        people = min(asked.users, asked.requests)
        return _begun_alike(asked, users(people, asked.requests, prompt, output, asked.think, random=random))
    assert asked.rate is not None, "one of three ways was asked for"
    arrival = gamma_arrivals(asked.rate, asked.burst, asked.requests, random)
    return _begun_alike(asked, plain(daily(arrival, asked.swing) if asked.swing else arrival, prompt, output))


def _begun_alike(asked: Asked, work: Workload) -> Workload:
    """Give every prompt the same beginning, which prefix caches find from the second request on."""
    if not asked.cached_prefix:
        return work
    # So fine that no more than a part in a hundred of the prefix is lost to whole blocks.
    pages = max(int(asked.cached_prefix * float(work.prompt.mean()) // (_PIECES * asked.page)), 1)
    block = pages * asked.page
    # One token of every prompt is left to read.
    whole = np.minimum((asked.cached_prefix * work.prompt) // block, (work.prompt - 1) // block).astype(np.int64)
    start = np.concatenate(([0], np.cumsum(whole)))
    ids = np.arange(int(start[-1])) - np.repeat(start[:-1], whole)
    return replace(work, start=start, blocks=ids, block=block)


def _sessions(asked: Asked, random: np.random.Generator) -> Workload:
    """Sessions of growing context: at a rate, or one after another of each user."""
    assert asked.input is not None, "made-up traffic has lengths"
    assert asked.output is not None, "made-up traffic has lengths"
    many = max(asked.requests // asked.turns, 1)
    if asked.users is None:
        assert asked.rate is not None, "one of three ways was asked for"
        begins = gamma_arrivals(asked.rate, asked.burst, many, random)
        begins = daily(begins, asked.swing) if asked.swing else begins
        people = None
    else:
        people = min(asked.users, many)
        begins = np.full(many, np.nan)
        begins[:people] = np.sort(random.exponential(asked.think, people)) if asked.think else 0.0
        begins[:people] -= begins[0]
    return agents(
        begins,
        asked.turns,
        first=round(asked.input),
        grows=asked.grows,
        output=round(asked.output),
        think=asked.think,
        block=asked.block,
        random=random,
        spread=asked.spread,
        users=people,
    )
