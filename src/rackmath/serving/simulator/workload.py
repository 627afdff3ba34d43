"""What users ask: requests with their times and lengths, read from a trace or made up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.serving.simulator.graph import Graph, chains, first_edges

F = NDArray[np.float64]
I4 = NDArray[np.int32]
I8 = NDArray[np.int64]

LONGEST = 10_000_000
"""Tokens of a prompt or an answer that are still believed. [tokens]"""
_SPARSE = 8
"""Range of names over their count beyond which they are sorted: a table of the whole range would take more memory."""


def no_blocks() -> I8:
    """Blocks of requests without prefixes."""
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arrivals:
    """Requests in the order of their arrival; those that wait for others stand after them."""

    arrival: F
    """[s]; not a number for requests that are sent when others allow it."""
    prompt: I4
    """[tokens]"""
    output: I4
    """[tokens]"""
    rank: I4
    """Priority class; 0 first."""
    start: I8 = field(default_factory=no_blocks)
    """Where a request's prefix blocks begin in ``blocks``; empty where no request has any. (requests + 1,)"""
    blocks: I8 = field(default_factory=no_blocks)
    """Ids of prefix blocks: equal ids are equal prefixes up to and including that block."""
    block: int = 512
    """Tokens of a prefix block."""
    answer_blocks: I4 | None = None
    """Prefix blocks of a request, its last ones, that its answer fills: its prompt has those before. (requests,)"""
    graph: Graph | None = None
    """Which requests are sent after which; None where all come by themselves."""
    task: I4 | None = None
    """Task that each request is part of, from 0 in the order of their beginnings; None where there are no tasks."""
    service: I4 | None = None
    """What each request asks for, numbered from 0; None where all ask for the same."""
    names: tuple[str, ...] = ()
    """Of what requests ask for, where a trace has them."""

    def __len__(self) -> int:
        return len(self.prompt)

    @property
    def span(self) -> float:
        """From the first to the last arrival. [s]"""
        finite_arrivals = self.arrival[np.isfinite(self.arrival)]
        return float(finite_arrivals.max() - finite_arrivals.min()) if len(finite_arrivals) else 0.0

    @property
    def tasks(self) -> int:
        """How many tasks there are; 0 where requests are not parts of tasks."""
        return 0 if self.task is None else int(self.task.max()) + 1


LATEST = 1e9
"""Of an arrival: beyond it a clock loses the length of a step, and decisions every few seconds never end. [s]"""


def checked(work: Arrivals) -> Arrivals:
    """Return the workload if every number can be meant.

    Errors: :class:`InputError` with the row of the first that cannot: lengths below 1 or beyond belief, times that are
    negative or run backwards.
    """
    if not len(work):
        raise InputError("requests", 0, "the workload is empty")
    for name, values in (("prompt", work.prompt), ("output", work.output)):
        wrong = np.flatnonzero((values < 1) | (values > LONGEST))
        if len(wrong):
            raise InputError(
                f"{name} of request {wrong[0] + 1}", int(values[wrong[0]]), f"write 1 to {LONGEST:,} tokens"
            )
    is_first = np.ones(len(work), np.bool_) if work.graph is None else work.graph.indegree == 0
    times = work.arrival[is_first]
    unknown = np.flatnonzero(~np.isfinite(times))
    if len(unknown):
        at = int(np.flatnonzero(is_first)[unknown[0]])
        raise InputError(f"arrival of request {at + 1}", float(work.arrival[at]), "write a number of seconds")
    if len(times) and times[0] < 0:
        raise InputError("arrival of request 1", float(times[0]), "times begin at 0")
    late = np.flatnonzero(times > LATEST)
    if len(late):
        way_out = f"write times of at most {LATEST:g} s, thirty years: begin at 0, cut long gaps or raise the rate"
        raise InputError(f"arrival of request {late[0] + 1}", float(times[late[0]]), way_out)
    back = np.flatnonzero(np.diff(times) < 0)
    if len(back):
        raise InputError(f"arrival of request {back[0] + 2}", float(times[back[0] + 1]), "times must not run backwards")
    return work


def plain(arrival: F, prompt: I4, output: I4) -> Arrivals:
    """Requests of one class without prefixes. (requests,)"""
    return checked(
        Arrivals(
            arrival=np.asarray(arrival, dtype=float),
            prompt=np.asarray(prompt, dtype=np.int32),
            output=np.asarray(output, dtype=np.int32),
            rank=np.zeros(len(prompt), np.int32),
        )
    )


def lengths(mean: float, spread: float, count: int, random: np.random.Generator) -> I4:
    """Lengths of log-normal spread around a mean; all alike for a spread of 0. (count,) [tokens]

    Parameters
    ----------
    spread : float
        Standard deviation over the mean. [1]
    """
    if not 1 <= mean <= LONGEST:
        raise InputError("length", mean, f"write 1 to {LONGEST:,} tokens")
    if not 0 <= spread <= 10:
        raise InputError("spread", spread, "write a number from 0 to 10")
    if spread == 0:
        return np.full(count, round(mean), np.int32)
    return np.clip(np.round(log_normal(mean, spread, count, random)), 1, LONGEST).astype(np.int32)


def log_normal(mean: float, spread: float, count: int, random: np.random.Generator) -> F:
    """Numbers of a mean whose standard deviation is ``spread`` times as large. (count,)"""
    sigma = float(np.sqrt(np.log1p(spread**2)))
    return mean * np.exp(sigma * random.standard_normal(count) - sigma**2 / 2)


def gamma_arrivals(rate: float, burst: float, count: int, random: np.random.Generator) -> F:
    """Times of arrival with gamma-distributed gaps. (count,) [s]

    Parameters
    ----------
    burst : float
        Standard deviation of a gap over its mean: 1 for Poisson arrivals, more for bursts, 0 for a metronome. [1]
    """
    if not 0 < rate < 1e9:
        raise InputError("rate", rate, "write a positive number of requests per second")
    if not 0 <= burst <= 100:
        raise InputError("burst", burst, "write a number from 0 to 100")
    if burst == 0:
        return np.arange(1, count + 1) / rate
    shape = 1 / burst**2
    return np.cumsum(random.gamma(shape, 1 / (shape * rate), count))


def users(
    concurrency: int,
    requests: int,
    prompt: I4,
    output: I4,
    think_time: float = 0.0,
    *,
    random: np.random.Generator | None = None,
) -> Arrivals:
    """A closed loop: so many users, each of whom sends the next request when the last is answered.

    With ``random`` thinking is exponential and users begin at its times; without, all begin at once and think alike.
    """
    if not 1 <= concurrency <= requests:
        raise InputError("concurrency", concurrency, f"write 1 to {requests:,}, the requests in all")
    arrival = np.full(requests, np.nan)
    arrival[:concurrency] = 0.0
    if random is not None and think_time > 0:
        arrival[:concurrency] = np.sort(random.exponential(think_time, concurrency))
        arrival[:concurrency] -= arrival[0]
    pauses = np.full(requests, float(think_time)) if random is None else thinking(think_time, requests, random)
    return checked(
        Arrivals(
            arrival=arrival,
            prompt=np.asarray(prompt, dtype=np.int32),
            output=np.asarray(output, dtype=np.int32),
            rank=np.zeros(requests, np.int32),
            graph=chains(requests, concurrency, pauses),
        )
    )


def thinking(think_time: float, count: int, random: np.random.Generator) -> F:
    """Exponential times of thought. (count,) [s]"""
    return random.exponential(think_time, count) if think_time > 0 else np.zeros(count)


def scaled(work: Arrivals, rate: float) -> Arrivals:
    """The same requests, so many times as fast; tools and thoughts within a task take the time that they take."""
    if not 0 < rate < 1e6:
        raise InputError("--scale", rate, "write a positive factor")
    graph = work.graph
    if graph is not None and work.task is None:
        graph = replace(graph, delay=graph.delay / rate)
    return replace(work, arrival=work.arrival / rate, graph=graph)


def copied(work: Arrivals, factor: float, random: np.random.Generator) -> Arrivals:
    """So many times as many requests over the same time: whole copies, and a part of one more drawn at random.

    A copied request arrives somewhere between its original and the one after it, so that bursts and the day keep their
    shape; it asks for prefixes of its own, as another customer's would.
    Errors: :class:`InputError` for requests that wait for others.
    """
    if not 0 < factor <= 10_000:
        raise InputError("--copies", factor, "write a factor from above 0 to 10,000")
    if work.graph is not None:
        raise InputError("--copies", factor, "open arrivals only: give more --users, or more --requests")
    count = len(work)
    later = np.append(work.arrival[1:], work.arrival[-1])
    parts = [np.arange(count)] * int(factor)
    if factor % 1:
        parts.append(np.flatnonzero(random.random(count) < factor % 1))
    of, copy = np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    if not len(of):
        raise InputError("--copies", factor, f"leaves none of {count:,} requests")
    arrival = work.arrival[of] + np.where(copy > 0, random.random(len(of)), 0.0) * (later - work.arrival)[of]
    order = np.argsort(arrival, kind="stable")
    of, copy = of[order], copy[order]
    start, blocks = work.start, work.blocks
    if len(work.start):
        lengths = np.diff(work.start)[of]
        start = np.concatenate(([0], np.cumsum(lengths)))
        within: I8 = np.arange(int(start[-1])) - np.repeat(start[:-1], lengths)
        numbers, distinct_blocks = numbered(work.blocks)
        blocks = numbers[np.repeat(work.start[of], lengths) + within] + np.repeat(copy, lengths) * distinct_blocks
    return replace(
        work, arrival=arrival[order], prompt=work.prompt[of], output=work.output[of], rank=work.rank[of], start=start,
        blocks=blocks, service=None if work.service is None else work.service[of],
    )  # fmt: skip


def head(work: Arrivals, count: int) -> Arrivals:
    """The first requests of a workload; of tasks only whole ones, and one at least."""
    if count >= len(work):
        return work
    if work.task is not None:
        ends = np.flatnonzero(np.diff(work.task)) + 1
        count = int(max(ends[ends <= count], default=ends[0] if len(ends) else len(work)))
    chain_arrays: dict[str, NDArray[Any]] = {"start": work.start[: count + 1]} if len(work.start) else {}
    if work.service is not None:
        chain_arrays |= {"service": work.service[:count]}
    for name in ("answer_blocks", "task"):
        if getattr(work, name) is not None:
            chain_arrays[name] = getattr(work, name)[:count]
    return replace(
        work, arrival=work.arrival[:count], prompt=work.prompt[:count], output=work.output[:count],
        rank=work.rank[:count], graph=None if work.graph is None else first_edges(work.graph, count), **chain_arrays,
    )  # fmt: skip


def renumbered(work: Arrivals) -> tuple[I8, I4, int]:
    """Starts, ids from 0 on, and how many there are: what arrays can be indexed by."""
    if not len(work.start):
        return np.zeros(len(work) + 1, np.int64), np.zeros(0, np.int32), 0
    blocks = work.blocks[: work.start[-1]]
    if work.service is not None:
        # The same text has another cache under every model.
        blocks = numbered(blocks)[0] * (int(work.service.max()) + 1)
        blocks = blocks + np.repeat(work.service, np.diff(work.start))
    ids, count = numbered(blocks)
    return work.start, ids.astype(np.int32), count


def numbered(names: I8) -> tuple[I8, int]:
    """A number for each name, from 0 on in the order of the names, and how many different names there are."""
    if not len(names):
        return names, 0
    low, high = int(names.min()), int(names.max())
    if high - low > _SPARSE * len(names):
        distinct_names, numbers = np.unique(names, return_inverse=True)
        return numbers.reshape(-1), len(distinct_names)
    # Names that lie close together are counted, not sorted: a tenth of the time.
    is_used = np.zeros(high - low + 1, np.bool_)
    is_used[names - low] = True
    place: I8 = np.cumsum(is_used) - 1
    return place[names - low], int(place[-1]) + 1


def of_classes(work: Arrivals, shares: Sequence[float], random: np.random.Generator) -> Arrivals:
    """Deal requests to priority classes by their shares, first class first."""
    total = float(sum(shares))
    if not shares or total <= 0 or min(shares) < 0:
        raise InputError("--classes", shares, "write shares that are not negative, as 0.2,0.8")
    return replace(work, rank=random.choice(len(shares), len(work), p=np.array(shares) / total).astype(np.int32))
