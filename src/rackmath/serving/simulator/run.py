"""Run a workload through a fleet: the compiled loop between the events that change the fleet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.serving.simulator import state
from rackmath.serving.simulator.code import Code, python_code
from rackmath.serving.simulator.events import SLICE, Again, Events, RequestQueue, held
from rackmath.serving.simulator.fixed import RunConstants
from rackmath.serving.simulator.frontend import reception_ends, with_servers
from rackmath.serving.simulator.graph import no_edges
from rackmath.serving.simulator.kinds import ReplicaKind, check, fixed_of, mark, members
from rackmath.serving.simulator.planner import Profile
from rackmath.serving.simulator.settings import ROUTERS, Batching, Fleet, PrefixCache
from rackmath.serving.simulator.snapshots import Snapshot, put_back, snapshot
from rackmath.serving.simulator.state import Edges, PrefixCaches, Replicas, Requests
from rackmath.serving.simulator.times import StepTimes
from rackmath.serving.simulator.upgrade import RollingUpgrade
from rackmath.serving.simulator.workload import Arrivals, renumbered

F = NDArray[np.float64]
Progress = Callable[[int, int], None]

_FAILURES_WITHOUT_PROGRESS = 10_000
"""Failures without the end of any request after which a run is given up."""

Keep = Callable[[Callable[[], Snapshot]], None]
"""Takes what makes a snapshot, now and then."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """What happened: one entry per request, and sums over the fleet."""

    requests: Requests
    replicas: Replicas
    hits: dict[str, float]
    """Part of all prefix blocks asked for that each tier gave. [1]"""
    blocks_asked: int
    kept: dict[str, float]
    """Prefix blocks that each tier held, on average over the run, of all replicas together."""
    hit_blocks: dict[str, NDArray[np.int32]]
    """Prefix blocks that each request found, by tier. (requests,)"""
    replica_seconds: F
    """That each replica was up or starting. (replicas,) [s]"""
    end: float
    """Of the last answer. [s]"""
    failures: int
    most_replicas: int
    upgrade: RollingUpgrade | None = None
    """What became of a rolling upgrade; None for a fleet that has none."""

    @property
    def answered(self) -> NDArray[np.bool_]:
        """Requests that were not refused. (requests,)"""
        return np.isnan(self.requests["refused"])


def simulate(
    work: Arrivals,
    times: StepTimes,
    *,
    batching: Batching,
    cache: PrefixCache | None = None,
    fleet: Fleet | None = None,
    kv_bytes: float = 0.0,
    beside: Sequence[ReplicaKind] = (),
    ready: F | None = None,
    progress: Progress = lambda done, of: None,
    keep: Keep = lambda snapshot: None,
    resume: Snapshot | None = None,
    on_snapshot: Callable[[Snapshot], None] | None = None,
    code: Code | None = None,
) -> Outcome:
    """Serve every request of a workload.

    Parameters
    ----------
    kv_bytes : float
        Cache of one token, for loads and swaps. [B/token]
    beside : sequence of ReplicaKind
        Unlike replicas in the same fleet, after those of ``fleet``: of another size or speed, or for other requests.
    ready : array, optional
        When each request's first token was written elsewhere: prompts are not read here, only answers written.
        (requests,) [s]
    keep : callable
        Called now and then with what makes a snapshot, which ``resume`` takes up again with the same result.
    resume : Snapshot, optional
        Of a run of the very same arguments.
    on_snapshot : callable, optional
        Called with the last snapshot: a run that resumes it has its outcome at once.
    code : Code, optional
        Form of the loop, Python by default; the result is the same.

    Errors: :class:`DoesNotFit` for a request that a replica cannot hold that may get it; :class:`InputError` for kinds
    of replicas that cannot be one fleet.
    """
    cache, fleet = cache or PrefixCache(), fleet or Fleet()
    work = _side_by_side(work, cache)
    kinds = (ReplicaKind(times=times, batching=batching, replicas=fleet.replicas, kv_bytes=kv_bytes), *beside)
    count = sum(kind.replicas for kind in kinds)
    sent_times, roots = work.arrival, np.ones(len(work), np.bool_) if work.graph is None else work.graph.indegree == 0
    if ready is None:
        work = replace(work, arrival=_reception_ends(sent_times, roots, count, batching))
    constants = tuple(fixed_of(kind, work, cache) for kind in kinds)
    q, s, c = _begun(work, kinds, constants, fleet, ready)
    code = code or python_code()
    random = np.random.default_rng(fleet.seed)
    dice = random.integers(0, 2**31 - 1, (len(work) if work.graph is None else min(len(work), SLICE), 2))
    # What comes to one kind of replicas alone is a rate that an autoscaler can look at.
    alone = work.graph is None and len(kinds) == 1
    profile = Profile(times=times, batching=batching, reads=ready is None)
    events = Events(fleet, count, random, q if alone else None, profile)
    router, turn = ROUTERS[fleet.router], np.zeros(1 + max(kind.service for kind in kinds), np.int64)
    line, edges = RequestQueue(work, q), _edges(work, kinds[0].batching)
    if resume is not None:
        put_back(resume, q, s, c, line, turn, events)

    def report(count: int) -> None:
        progress(count, len(work))
        keep(lambda: snapshot(q, s, c, line, turn, events))

    def until(moment: float) -> bool:
        """Bring all up to a moment; true while requests are left to send."""
        if work.graph is None:
            for event in line.before(moment):
                code.route(constants, s, q, c, event, q["arrival"][event], router, dice[event], turn)
                line.sent += len(event)
                report(line.sent)
            if moment < inf or line.sent == len(work):
                code.drain(constants, s, q, c, moment)
        else:
            while True:
                stop = moment if code.whole else min(moment, line.soon())
                code.converse(constants, s, q, c, edges, line.due, line.who, line.count, stop, router, dice, turn)
                report(int(np.isfinite(q["finish"]).sum()))
                if stop >= moment or not _busy(line, s):
                    break
        return _busy(line, s)

    def again(r: int, now: float, alone: bool) -> None:
        """A replica fails: what it held is sent to those that are up, or waits for its repair if there are none."""
        victims = np.empty(int(held(s)[r]), np.int64)
        code.fail(constants, s, q, c, r, victims)
        _stop(s, r, now, fleet.failures.repair if alone else None)
        victims.sort()
        code.route(constants, s, q, c, victims, np.full(len(victims), now), router, dice[victims % len(dice)], turn)

    _live(until, events, q, s, again)
    code.settle(constants, s, q, c, float(np.nanmax(q["finish"])))
    if on_snapshot is not None:
        on_snapshot(snapshot(q, s, c, line, turn, events))
    return _outcome(q if ready is not None else _seen(q, s, kinds, sent_times, roots), s, c, batching, cache, events)


def _side_by_side(work: Arrivals, cache: PrefixCache) -> Arrivals:
    """Who writes to a common tier first is told by running replicas side by side, as conversations are."""
    if work.graph is not None or not any(tier.common for tier in cache.tiers):
        return work
    return replace(work, graph=no_edges(len(work)))


def _begun(
    work: Arrivals, kinds: Sequence[ReplicaKind], constants: Sequence[RunConstants], fleet: Fleet, ready: F | None
) -> tuple[Requests, Replicas, PrefixCaches]:
    """Requests that nothing has happened to, idle replicas, empty caches."""
    count = sum(kind.replicas for kind in kinds)
    most = count - kinds[0].replicas + (fleet.scaling.most if fleet.scaling else kinds[0].replicas)
    start, ids, distinct = renumbered(work)
    q = _requests(work, start, kinds[0].batching, fleet, ready)
    check(kinds, work, q, constants)
    s = state.replicas(members(kinds, most), constants, len(work) if work.graph is not None else 0)
    mark(s, kinds, float(work.prompt.mean() + work.output.mean() / 2))
    s.own["up"][count:] = False
    return q, s, state.prefixes(most, constants[0], ids, distinct, len(work))


def _stop(s: Replicas, r: int, now: float, repair: float | None) -> None:
    """A replica fails after its step: it is down, or its next step begins when it is repaired; requests wait there."""
    s.own["up"][r] = repair is not None
    if repair is not None:
        s.own["clock"][r] = max(s.own["clock"][r], now) + repair


def _live(until: Callable[[float], bool], events: Events, q: Requests, s: Replicas, again: Again) -> None:
    """From event to event, as long as anything is left to do.

    Errors: :class:`InputError` where replicas fail so often that nothing is ever finished.
    """
    failures, count = events.failures, -1
    while until(events.next) and events.next < inf:
        events.act(s, again)
        if events.failures - failures >= _FAILURES_WITHOUT_PROGRESS:
            finish_count = int(np.isfinite(q["finish"]).sum())
            if finish_count == count:
                between = events.fleet.failures.between
                way_out = f"no request ended in {_FAILURES_WITHOUT_PROGRESS:,} failures: write more than a prompt takes"
                raise InputError("--mtbf", between, way_out)
            failures, count = events.failures, finish_count


def _busy(line: RequestQueue, s: Replicas) -> bool:
    """Whether anything is left to send or to do."""
    return line.left() or bool(held(s).any())


def _reception_ends(sent_times: F, roots: NDArray[np.bool_], replicas: int, batching: Batching) -> F:
    """When servers have received the requests that wait for no other. (requests,) [s]"""
    come = sent_times.copy()
    come[roots] = reception_ends(sent_times[roots], replicas, batching.reception * batching.frontend)
    return come


def _seen(q: Requests, s: Replicas, kinds: Sequence[ReplicaKind], sent_times: F, roots: NDArray[np.bool_]) -> Requests:
    """Requests as users see them: sent before servers receive them, first tokens passed on by these."""
    q["arrival"] = np.where(roots, sent_times, q["arrival"])
    seconds = np.array([[kind.batching.frontend, kind.batching.reception] for kind in kinds])[s.own["kind"]]
    return with_servers(q, frontend=seconds[:, 0], reception=seconds[:, 1])


def _outcome(
    q: Requests, s: Replicas, c: PrefixCaches, batching: Batching, cache: PrefixCache, events: Events
) -> Outcome:
    end = float(np.nanmax(q["finish"])) + batching.outside
    # Traffic that names no prefix blocks asks for none, whatever tiers there are.
    lookups = c.lookups[1:] if len(c.lookups) > 1 else np.zeros(len(cache.tiers))
    stood = c.shelves["area"].sum(0) / max(float(np.nanmax(q["finish"])), 1e-9)
    return Outcome(
        kept={tier.name: float(n) for tier, n in zip(cache.tiers, stood, strict=len(stood) > 0)},
        hit_blocks={tier.name: c.hit_blocks[:, k] for k, tier in enumerate(cache.tiers) if k < c.hit_blocks.shape[1]},
        requests=q,
        replicas=s,
        hits={tier.name: float(n / max(c.lookups[0], 1)) for tier, n in zip(cache.tiers, lookups, strict=True)},
        blocks_asked=int(c.lookups[0]),
        replica_seconds=events.paid(end, len(s.own)),
        end=end,
        failures=events.failures,
        most_replicas=events.peak,
        upgrade=events.upgrade,
    )


def _edges(work: Arrivals, batching: Batching) -> Edges:
    """The graph as the loop reads it."""
    g = work.graph or no_edges(len(work))
    # Who asks again has the answer first: what passes outside of the engine passes before he thinks.
    return Edges(
        start=g.start, to=g.to, delay=g.delay + np.where(g.dispatch, 0.0, batching.outside), dispatch=g.dispatch
    )


def _requests(work: Arrivals, start: NDArray[np.int64], batching: Batching, fleet: Fleet, ready: F | None) -> Requests:
    """Records of a run."""
    count = len(work)
    rest = work.output.astype(np.int64) - 1
    mean, variance = batching.yields
    steps = rest
    if batching.draft_tokens:
        # Renewal theory: the steps that yield m tokens are normal around m / mean.
        noise = np.random.default_rng(fleet.seed + 1).standard_normal(count)
        draws = np.round(rest / mean + noise * np.sqrt(rest * variance / mean**3))
        steps = np.clip(draws, -(-rest // (1 + batching.draft_tokens)), rest).astype(np.int64)
    q = state.requests(
        arrival=work.arrival.copy() if ready is None else ready.copy(),
        prompt=work.prompt,
        steps=steps.astype(np.int32),
        growth=np.where(steps > 0, rest / np.maximum(steps, 1), 1.0),
        rank=work.rank,
        service=np.zeros(count, np.int32) if work.service is None else work.service,
        awaits=np.zeros(count, np.int32) if work.graph is None else work.graph.indegree,
        precedes=np.zeros(count, np.bool_) if work.graph is None else np.diff(work.graph.start) > 0,
        start=start,
        answer_blocks=np.zeros(count, np.int32) if work.answer_blocks is None else work.answer_blocks,
    )
    if ready is not None:
        q["todo"], q["stored"], q["first"] = 0, work.prompt, ready
    return q
