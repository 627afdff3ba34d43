"""Run a workload through a fleet: the compiled loop between the events that change the fleet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from math import ceil, inf, isfinite

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import DoesNotFit
from rackmath.serving.simulator import state
from rackmath.serving.simulator.settings import EVICTIONS, POLICIES, PREEMPTIONS, ROUTERS, Batching, Fleet, PrefixCache
from rackmath.serving.simulator.state import Fixed, Replicas, Requests
from rackmath.serving.simulator.times import StepTimes
from rackmath.serving.simulator.workload import Workload, renumbered

F = NDArray[np.float64]
Progress = Callable[[int, int], None]

SLICE = 50_000
"""Requests between two reports of progress."""
_FAILS, _RETURNS, _SCALES, _STARTS = range(4)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """What happened: one entry per request, and sums over the fleet."""

    requests: Requests
    replicas: Replicas
    hits: dict[str, float]
    """Part of all prefix blocks asked for that each tier gave. [1]"""
    blocks_asked: int
    replica_seconds: float
    """That replicas were up or starting. [s]"""
    end: float
    """Of the last answer. [s]"""
    failures: int
    most_replicas: int


def simulate(
    work: Workload,
    times: StepTimes,
    *,
    batching: Batching,
    cache: PrefixCache | None = None,
    fleet: Fleet | None = None,
    kv_bytes: float = 0.0,
    ready: F | None = None,
    progress: Progress = lambda done, of: None,
) -> Outcome:
    """Serve every request of a workload.

    Parameters
    ----------
    kv_bytes : float
        Cache of one token, for loads and swaps. [B/token]
    ready : array, optional
        When each request's first token was written elsewhere: prompts are not read here, only answers written.
        (requests,) [s]

    Errors: :class:`DoesNotFit` for a request that no replica can hold.
    """
    # Compiling takes seconds and Numba's import a quarter of one: only who simulates pays for it.
    from rackmath.serving.simulator.places import fail
    from rackmath.serving.simulator.route import converse, drain, route

    cache, fleet = cache or PrefixCache(), fleet or Fleet()
    most = fleet.scaling.most if fleet.scaling else fleet.replicas
    fixed = _fixed(work, times, batching, cache, kv_bytes)
    start, ids, distinct = renumbered(work)
    q = _requests(work, start, batching, fleet, ready)
    _check_room(q, fixed)
    s = state.replicas(most, fixed, len(work) if work.then is not None else 0)
    c = state.prefixes(most, fixed, ids, distinct)
    s.own["up"][fleet.replicas :] = False
    random = np.random.default_rng(fleet.seed)
    dice = random.integers(0, 2**31 - 1, (len(work) if work.then is None else min(len(work), SLICE), 2))
    events = _Events(fleet, most, random)
    router, turn = ROUTERS[fleet.router], np.zeros(1, np.int64)
    line = _Line(work, q)

    def until(moment: float) -> bool:
        """Bring all up to a moment; true while requests are left to send."""
        if work.then is None:
            for which in line.before(moment):
                route(fixed, s, q, c, which, q["arrival"][which], router, dice[which], turn)
                progress(line.sent, len(work))
            if moment < inf or line.sent == len(work):
                drain(fixed, s, q, c, moment)
        else:
            while True:
                stop = min(moment, line.soon())
                converse(fixed, s, q, c, line.due, line.who, line.count, stop, router, dice, turn)
                progress(int(np.isfinite(q["finish"]).sum()), len(work))
                if stop >= moment:
                    break
        return line.left() or bool(_held(s).any())

    def again(r: int, now: float) -> None:
        """A replica fails: what it held is sent to those that are up."""
        held = np.empty(int(_held(s)[r]), np.int64)
        fail(fixed, s, q, c, r, held)
        s.own["up"][r] = False
        for at, i in enumerate(np.sort(held)):
            route(fixed, s, q, c, np.array([i]), np.array([now]), router, dice[[int(i) % len(dice)]], turn)
            held[at] = i

    while True:
        busy = until(events.next)
        if not busy or events.next == inf:
            break
        events.act(s, again)
    end = float(np.nanmax(q["finish"])) + batching.outside
    names = [tier.name for tier in cache.tiers]
    return Outcome(
        requests=q,
        replicas=s,
        hits={name: float(c.seen[1 + at] / max(c.seen[0], 1)) for at, name in enumerate(names)},
        blocks_asked=int(c.seen[0]),
        replica_seconds=events.paid(end),
        end=end,
        failures=events.failures,
        most_replicas=events.peak,
    )


class _Line:
    """Requests that are still to be sent: in order, or by a heap of known times."""

    def __init__(self, work: Workload, q: Requests) -> None:
        self.arrival = q["arrival"]
        self.sent = 0
        self.open = work.then is None
        known = np.flatnonzero(np.isfinite(work.arrival))
        self.due, self.who = np.full(len(work) + 1, inf), np.zeros(len(work) + 1, np.int64)
        self.count = np.zeros(1, np.int64)
        if not self.open:
            # A sorted list is a heap.
            order = known[np.argsort(work.arrival[known], kind="stable")]
            self.due[: len(order)], self.who[: len(order)] = work.arrival[order], order
            self.count[0] = len(order)

    def before(self, moment: float) -> list[NDArray[np.int64]]:
        """Slices of the requests that arrive before a moment."""
        stop = int(np.searchsorted(self.arrival, moment, side="left"))
        cuts = [*range(self.sent, stop, SLICE), stop]
        self.sent = stop
        return [np.arange(a, b) for a, b in pairwise(cuts) if b > a]

    def left(self) -> bool:
        """Whether requests are still to be sent at known times."""
        return self.sent < len(self.arrival) if self.open else bool(self.count[0])

    def soon(self) -> float:
        """A moment at which to report progress of a conversation."""
        return inf


class _Events:
    """What changes the fleet: failures, repairs, decisions to scale, replicas that have started."""

    def __init__(self, fleet: Fleet, most: int, random: np.random.Generator) -> None:
        self.fleet, self.random = fleet, random
        self.heap: list[tuple[float, int, int]] = []
        self.failures = 0
        self.since = {r: 0.0 for r in range(fleet.replicas)}
        """When each replica that is paid for was started."""
        self.bill = 0.0
        self.peak = fleet.replicas
        self.starting: set[int] = set()
        self.leaving: set[int] = set()
        for r in range(fleet.replicas):
            self._will_fail(r, 0.0)
        if fleet.scaling:
            heappush(self.heap, (fleet.scaling.interval, _SCALES, 0))

    @property
    def next(self) -> float:
        """Time of the next event. [s]"""
        return self.heap[0][0] if self.heap else inf

    def act(self, s: Replicas, again: Callable[[int, float], None]) -> None:
        """Let the next event happen."""
        now, kind, r = heappop(self.heap)
        if kind == _FAILS:
            self._fail(s, r, now, again)
        elif kind in (_RETURNS, _STARTS):
            s.own["up"][r] = True
            s.own["clock"][r] = max(s.own["clock"][r], now)
            self.starting.discard(r)
            self._will_fail(r, now)
        else:
            self._scale(s, now)

    def paid(self, end: float) -> float:
        """Replica seconds until the end. [s]"""
        return self.bill + sum(max(end - since, 0.0) for since in self.since.values())

    def _will_fail(self, r: int, now: float) -> None:
        if isfinite(self.fleet.failures.between):
            heappush(self.heap, (now + self.random.exponential(self.fleet.failures.between), _FAILS, r))

    def _fail(self, s: Replicas, r: int, now: float, again: Callable[[int, float], None]) -> None:
        if not s.own["up"][r]:
            return
        if int(s.own["up"].sum()) == 1:
            # The last one that is up restarts with what it holds: there is nobody else to send it to.
            heappush(self.heap, (now + self.fleet.failures.repair, _FAILS, r))
            return
        self.failures += 1
        again(r, now)
        heappush(self.heap, (now + self.fleet.failures.repair, _RETURNS, r))

    def _scale(self, s: Replicas, now: float) -> None:
        rules = self.fleet.scaling
        assert rules is not None, "only fleets that scale decide to"
        heappush(self.heap, (now + rules.interval, _SCALES, 0))
        held = _held(s)
        for r in [r for r in self.leaving if held[r] == 0]:
            self.leaving.discard(r)
            self.bill += now - self.since.pop(r)
        living = int(s.own["up"].sum()) + len(self.starting)
        load = float(held.sum()) / living
        if load > rules.high and living < rules.most:
            r = next(
                i for i in range(len(s.own)) if not s.own["up"][i] and i not in self.starting and i not in self.leaving
            )
            self.starting.add(r)
            self.since[r] = now
            heappush(self.heap, (now + rules.startup, _STARTS, r))
            self.peak = max(self.peak, len(self.since))
        elif load < rules.low and int(s.own["up"].sum()) > rules.least:
            r = int(max(np.flatnonzero(s.own["up"]), key=lambda i: (-held[i], i)))
            s.own["up"][r] = False
            self.leaving.add(r)


def _fixed(work: Workload, times: StepTimes, batching: Batching, cache: PrefixCache, kv_bytes: float) -> Fixed:
    size = work.block * kv_bytes
    tiers = cache.tiers if len(work.start) else ()
    room = [inf if not isfinite(t.capacity) or size == 0 else t.capacity // size for t in tiers]
    return Fixed(
        policy=POLICIES[batching.policy],
        preemption=PREEMPTIONS[batching.preemption],
        budget=batching.budget,
        seats=batching.seats,
        block=batching.block,
        blocks=batching.memory // batching.block,
        classes=int(work.rank.max()) + 1,
        base=times.base,
        slope=times.slope,
        prompt=times.prompt,
        pair=times.pair,
        share=batching.share,
        verified=1 + batching.drafted,
        period=batching.period,
        swap=batching.block * kv_bytes / batching.host,
        overlapped=cache.overlapped,
        eviction=EVICTIONS[cache.eviction],
        capacity=np.array([min(n, 2.0**62) for n in room], dtype=np.int64),
        load=np.array([size / t.bandwidth for t in tiers], dtype=float),
        latency=np.array([t.latency for t in tiers], dtype=float),
        lifetime=cache.lifetime,
        through=cache.through,
        prefix=work.block,
    )


def _held(s: Replicas) -> NDArray[np.int64]:
    """Requests that each replica holds."""
    return s.own["waiting"].astype(np.int64) + s.own["reading"] + s.own["running"]


def _requests(work: Workload, start: NDArray[np.int64], batching: Batching, fleet: Fleet, ready: F | None) -> Requests:
    """Records of a run."""
    count = len(work)
    rest = work.output.astype(np.int64) - 1
    mean, variance = batching.yields
    steps = rest
    if batching.drafted:
        # Renewal theory: the steps that yield m tokens are normal around m / mean.
        noise = np.random.default_rng(fleet.seed + 1).standard_normal(count)
        drawn = np.round(rest / mean + noise * np.sqrt(rest * variance / mean**3))
        steps = np.clip(drawn, -(-rest // (1 + batching.drafted)), rest).astype(np.int64)
    then = np.full(count, state.NONE, np.int32) if work.then is None else work.then
    q = state.requests(
        arrival=work.arrival.copy() if ready is None else ready.copy(),
        prompt=work.prompt,
        steps=steps.astype(np.int32),
        growth=np.where(steps > 0, rest / np.maximum(steps, 1), 1.0),
        rank=work.rank,
        then=then,
        think=np.zeros(count) if work.think is None else work.think,
        start=start,
    )
    if ready is not None:
        q["todo"], q["stored"], q["first"] = 0, work.prompt, ready
    return q


def _check_room(q: Requests, fixed: Fixed) -> None:
    tokens = q["prompt"] + q["steps"] * q["growth"]
    longest = np.ceil(tokens / fixed.block).astype(np.int64) + 1
    at = int(longest.argmax())
    if longest[at] > fixed.blocks:
        raise DoesNotFit(
            f"request {at + 1} of {ceil(tokens[at]):,} tokens in a cache of {fixed.blocks * fixed.block:,}",
            "give the model more accelerators, or leave such requests out",
        )
