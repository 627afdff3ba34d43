"""Around the compiled loop: requests that are still to be sent, and what changes the fleet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush
from math import inf, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.serving.simulator.fixed import NONE
from rackmath.serving.simulator.planner import Profile, observed, replicas_for
from rackmath.serving.simulator.scaling import Advice, wanted_replicas
from rackmath.serving.simulator.settings import Fleet
from rackmath.serving.simulator.state import Replicas, Requests
from rackmath.serving.simulator.upgrade import LOOKS, RollingUpgrade
from rackmath.serving.simulator.workload import Arrivals

SLICE = 50_000
"""Requests between two reports of progress."""
PACE = 600.0
"""Time of a conversation between two reports. [s]"""
_FAILS, _RETURNS, _SCALES, _STARTS, _UPGRADES, _DRAINS = range(6)


def held(s: Replicas) -> NDArray[np.int64]:
    """Requests that each replica holds."""
    return s.own["waiting"].astype(np.int64) + s.own["reading"] + s.own["running"]


Again = Callable[[int, float, bool], None]
"""Called with a replica that fails, the moment, and whether nobody else can serve what it held."""


class RequestQueue:
    """Requests that are still to be sent: in order, or by a heap of known times."""

    def __init__(self, work: Arrivals, q: Requests) -> None:
        self.arrival = q["arrival"]
        self.sent = 0
        self.looked = 0.0
        self.open = work.graph is None
        ready_places = np.flatnonzero(q["awaits"] == 0)
        self.due, self.who = np.full(len(work) + 1, inf), np.zeros(len(work) + 1, np.int64)
        # What the heap holds, and the next request of a list that all users share.
        self.count = np.array([0, NONE], np.int64)
        if not self.open:
            # A sorted list is a heap.
            order = ready_places[np.argsort(work.arrival[ready_places], kind="stable")]
            self.due[: len(order)], self.who[: len(order)] = work.arrival[order], order
            self.count[0] = len(order)
        if work.graph is not None and work.graph.in_order:
            self.count[1] = len(ready_places)

    def before(self, moment: float) -> Iterator[NDArray[np.int64]]:
        """Slices of the requests that arrive before a moment; who sends them says so in ``sent``."""
        stop = int(np.searchsorted(self.arrival, moment, side="left"))
        while self.sent < stop:
            yield np.arange(self.sent, min(self.sent + SLICE, stop))

    def left(self) -> bool:
        """Whether requests are still to be sent at known times."""
        return self.sent < len(self.arrival) if self.open else bool(self.count[0])

    def soon(self) -> float:
        """Next moment at which to look up from a conversation. [s]"""
        self.looked += PACE
        return self.looked


class Events:
    """What changes the fleet: failures, repairs, decisions to scale, replicas that have started."""

    def __init__(
        self,
        fleet: Fleet,
        count: int,
        random: np.random.Generator,
        requests: Requests | None = None,
        profile: Profile | None = None,
    ) -> None:
        """Events of a fleet that begins with so many replicas; ``requests`` of open traffic to one kind, in order."""
        if fleet.scaling and fleet.scaling.metric in ("rate", "slo") and requests is None:
            way_out = "takes open traffic to one kind of replicas: write concurrency or queue"
            raise InputError("--scale-on", fleet.scaling.metric, way_out)
        self.fleet, self.random, self.requests, self.profile = fleet, random, requests, profile
        self.advice = Advice(fleet.scaling.window if fleet.scaling else 0.0)
        self.heap: list[tuple[float, int, int]] = []
        self.failures = 0
        self.fails: dict[int, float] = {}
        """When each replica fails next: one that was started again meanwhile has a new moment. [s]"""
        self.since = {r: 0.0 for r in range(count)}
        """When each replica that is paid for was started."""
        self.bill: dict[int, float] = {}
        """What replicas that were stopped have taken. [s]"""
        self.peak = count
        self.starting: set[int] = set()
        self.leaving: set[int] = set()
        for r in range(count):
            self._will_fail(r, 0.0)
        self.upgrade = RollingUpgrade(fleet.upgrade) if fleet.upgrade else None
        if fleet.scaling:
            heappush(self.heap, (fleet.scaling.interval, _SCALES, 0))
        if fleet.upgrade:
            heappush(self.heap, (fleet.upgrade.begin, _UPGRADES, 0))

    @property
    def next(self) -> float:
        """Time of the next event. [s]"""
        return self.heap[0][0] if self.heap else inf

    def act(self, s: Replicas, again: Again) -> None:
        """Let the next event happen."""
        now, kind, r = heappop(self.heap)
        if kind == _FAILS:
            self._fail(s, r, now, again)
        elif kind in (_RETURNS, _STARTS):
            s.own["up"][r] = True
            s.own["clock"][r] = max(s.own["clock"][r], now)
            self.starting.discard(r)
            if self.upgrade is not None:
                self.upgrade.on_return(r, now)
            self._will_fail(r, now)
        elif kind == _SCALES:
            self._scale(s, now, again)
        else:
            self._upgrade(s, now, again, begins=kind == _UPGRADES)

    def paid(self, end: float, most: int) -> NDArray[np.float64]:
        """Seconds of each replica until the end. (most,) [s]"""
        values = np.zeros(most)
        for r, seconds in self.bill.items():
            values[r] += seconds
        for r, since in self.since.items():
            values[r] += max(end - since, 0.0)
        return values

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything that is still to happen, as arrays that a file keeps exactly."""
        result = self.random.bit_generator.state
        generator = (result["state"]["state"], result["state"]["inc"], result["has_uint32"], result["uinteger"])
        return {
            "heap": np.array(self.heap).reshape(-1, 3),
            "counts": np.array([self.failures, self.peak]),
            "advice": np.array(self.advice.history).reshape(-1, 2),
            "starting": np.array(sorted(self.starting), np.int64),
            "leaving": np.array(sorted(self.leaving), np.int64),
            "fails": np.array(sorted(self.fails.items())).reshape(-1, 2),
            "bill": np.array(sorted(self.bill.items())).reshape(-1, 2),
            "since": np.array(sorted(self.since.items())).reshape(-1, 2),
            **({} if self.upgrade is None else self.upgrade.arrays()),
            # The generator's state has 128 bits: as digits, for no array holds it.
            "random": np.array([str(part) for part in generator]),
        }

    def put_back(self, snapshot: Mapping[str, NDArray[Any]]) -> None:
        """Take what :meth:`arrays` gave."""
        self.heap = [(float(t), int(kind), int(r)) for t, kind, r in snapshot["heap"]]
        self.failures, self.peak = int(snapshot["counts"][0]), int(snapshot["counts"][1])
        self.advice.history = [(float(t), int(n)) for t, n in snapshot["advice"]]
        self.fails = {int(r): float(t) for r, t in snapshot["fails"]}
        self.bill = {int(r): float(t) for r, t in snapshot["bill"]}
        self.starting, self.leaving = set(snapshot["starting"].tolist()), set(snapshot["leaving"].tolist())
        self.since = {int(r): float(t) for r, t in snapshot["since"]}
        if self.upgrade is not None:
            self.upgrade.put_back(snapshot)
        state, inc, has, integer = (int(part) for part in snapshot["random"])
        now = self.random.bit_generator.state
        self.random.bit_generator.state = {
            **now,
            "state": {"state": state, "inc": inc},
            "has_uint32": has,
            "uinteger": integer,
        }

    def _will_fail(self, r: int, now: float) -> None:
        if isfinite(self.fleet.failures.between):
            self.fails[r] = now + self.random.exponential(self.fleet.failures.between)
            heappush(self.heap, (self.fails[r], _FAILS, r))

    def _fail(self, s: Replicas, r: int, now: float, again: Again) -> None:
        if self.fails[r] != now:
            return
        if self.upgrade is not None and r in self.upgrade.draining:
            # What it still held goes to others; then it is empty, and starts again as it was about to.
            self.failures += 1
            again(r, now, False)
            return
        if not s.own["up"][r]:
            return
        alone = int((s.own["up"] & (s.own["service"] == s.own["service"][r])).sum()) == 1
        self.failures += 1
        if not alone:
            again(r, now, alone)
            heappush(self.heap, (now + self.fleet.failures.repair, _RETURNS, r))
            return
        # There is nobody else to send requests to: they wait where they are until it is repaired.
        again(r, now, alone)
        self._will_fail(r, now + self.fleet.failures.repair)

    def _upgrade(self, s: Replicas, now: float, again: Again, begins: bool) -> None:
        """Begin a rolling upgrade, or go on with it until it is through."""
        upgrade = self.upgrade
        assert upgrade is not None, "only fleets that are upgraded get here"
        if begins:
            upgrade.begin(self.since.keys() - self.leaving, s)
        for r in upgrade.go_on(s, held(s)):
            # It holds nothing any more but its prefix cache, which does not outlive it.
            again(r, now, False)
            heappush(self.heap, (now + upgrade.rules.restart, _STARTS, r))
        if upgrade.busy:
            heappush(self.heap, (now + LOOKS, _DRAINS, 0))

    def _scale(self, s: Replicas, now: float, again: Again) -> None:
        rules = self.fleet.scaling
        assert rules is not None, "only fleets that scale decide to"
        heappush(self.heap, (now + rules.interval, _SCALES, 0))
        # Replicas of the first kind come and go; those beside them stay.
        holds, is_scaled = held(s), s.own["kind"] == 0
        for r in [r for r in self.leaving if holds[r] == 0]:
            self.leaving.discard(r)
            again(r, now, False)
            self.bill[r] = self.bill.get(r, 0.0) + now - self.since.pop(r)
        up = s.own["up"] & is_scaled
        out = 0
        if self.upgrade is not None:
            out = sum(is_scaled[r] for r in (*self.upgrade.draining, *self.upgrade.restarting))
        current = max(int(up.sum()) + out + len(self.starting), 1)
        total = self._metric(s, is_scaled, now)
        target = min(max(wanted_replicas(current, total, rules.target, rules.tolerance), rules.least), rules.most)
        target = self.advice.settled(now, target, current)
        # One that fails stays paid for, and comes back by itself.
        spare = [int(r) for r in np.flatnonzero(is_scaled) if int(r) not in self.since]
        for r in spare[: max(target - current, 0)]:
            self.starting.add(r)
            self.since[r] = now
            heappush(self.heap, (now + rules.startup, _STARTS, r))
        self.peak = max(self.peak, len(self.since))
        emptiest = sorted(np.flatnonzero(up).tolist(), key=lambda i: (holds[i], -i))
        for r in emptiest[: max(min(current - target, int(up.sum()) - rules.least), 0)]:
            s.own["up"][r] = False
            self.leaving.add(r)
            if self.upgrade is not None:
                self.upgrade.forget(r, now)

    def _metric(self, s: Replicas, is_service: NDArray[np.bool_], now: float) -> float:
        """What the autoscaler looks at, over all replicas that come and go."""
        rules = self.fleet.scaling
        assert rules is not None, "only fleets that scale look"
        if rules.metric == "concurrency":
            return float(held(s)[is_service].sum())
        if rules.metric == "queue":
            return float(s.own["waiting"][is_service].sum())
        assert self.requests is not None, "traffic that waits for answers has no rate of its own"
        load = observed(self.requests, now - rules.interval, now)
        if rules.metric == "rate":
            return load.rate
        assert self.profile is not None, "limits are planned for with a profile"
        up = s.own["up"] & is_service
        return replicas_for(load, float(s.own["running"][up].mean()), self.profile, rules.limit)
