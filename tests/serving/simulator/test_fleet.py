"""Fleets: routers, failures, scaling, two pools, sessions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.errors import DoesNotFit, InputError
from rackmath.serving.simulator import (
    Arrivals,
    Batching,
    Failures,
    Fleet,
    PrefixCache,
    Scaling,
    Tier,
    days,
    events,
    simulate,
    workload,
)
from rackmath.serving.simulator.outcome import replay, series, timeline
from rackmath.serving.simulator.sessions import agents
from rackmath.serving.simulator.settings import ROUTERS
from tests.serving.simulator.test_against_reference import times
from tests.serving.simulator.test_queues import flat


def some(count: int = 400, rate: float = 20.0, seed: int = 0, burst: float = 2.0) -> Arrivals:
    random = np.random.default_rng(seed)
    return workload.plain(
        workload.gamma_arrivals(rate, burst, count, random),
        workload.lengths(60, 0.5, count, random),
        workload.lengths(40, 0.5, count, random),
    )


@pytest.mark.parametrize("router", list(ROUTERS))
def test_every_router_serves_everybody(router: str) -> None:
    work = some()
    found = simulate(
        work,
        times(8, 512),
        batching=Batching(max_num_seqs=8, max_num_batched_tokens=512),
        fleet=Fleet(replicas=4, router=router),
    )
    q = found.requests
    assert np.isfinite(q["finish"]).all()
    assert set(q["place"]) == {0, 1, 2, 3}
    if router == "round-robin":
        assert list(q["place"][:8]) == [0, 1, 2, 3, 0, 1, 2, 3]


def test_routers_that_look_wait_less() -> None:
    work = some(count=4000, rate=70.0)
    wait = {}
    for router in ("round-robin", "two-choices", "least-loaded"):
        fleet = Fleet(replicas=4, router=router)
        q = simulate(
            work, times(8, 512), batching=Batching(max_num_seqs=8, max_num_batched_tokens=512), fleet=fleet
        ).requests
        wait[router] = (q["first"] - q["arrival"]).mean()
    assert wait["least-loaded"] < wait["two-choices"] < wait["round-robin"]


def test_replicas_of_a_round_are_alone() -> None:
    """Four replicas in turn are four simulations of every fourth request."""
    work, batching = some(), Batching(max_num_seqs=8, max_num_batched_tokens=512)
    together = simulate(work, times(8, 512), batching=batching, fleet=Fleet(replicas=4)).requests
    for r in range(4):
        own = replace(
            work, arrival=work.arrival[r::4], prompt=work.prompt[r::4], output=work.output[r::4], rank=work.rank[r::4]
        )
        alone = simulate(own, times(8, 512), batching=batching).requests
        assert together["finish"][r::4] == pytest.approx(alone["finish"], rel=1e-12)


def test_prefixes_draw_requests_to_where_they_are() -> None:
    random = np.random.default_rng(3)
    sessions = random.integers(0, 20, 600)
    work = Arrivals(
        arrival=np.cumsum(random.exponential(0.2, 600)),
        prompt=np.full(600, 33, np.int32),
        output=np.full(600, 4, np.int32),
        rank=np.zeros(600, np.int32),
        start=np.arange(0, 4 * 601, 4).astype(np.int64),
        blocks=(4 * np.repeat(sessions, 4) + np.tile(np.arange(4), 600)).astype(np.int64),
        block=8,
    )
    cache = PrefixCache(tiers=(Tier(name="hbm", capacity=6 * 4 * 8.0),))
    hits = {}
    for router in ("round-robin", "prefix-aware"):
        fleet = Fleet(replicas=4, router=router)
        hits[router] = simulate(
            work,
            times(8, 512),
            batching=Batching(max_num_seqs=8, max_num_batched_tokens=512),
            cache=cache,
            fleet=fleet,
            kv_bytes=1.0,
        ).hits["hbm"]
    assert hits["prefix-aware"] > 1.5 * hits["round-robin"]


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 1000),
    between=st.floats(2.0, 50.0),
    preemption=st.sampled_from(["recompute", "swap", "reserve"]),
)
@pytest.mark.long
def test_nothing_is_lost_when_replicas_fail(seed: int, between: float, preemption: str) -> None:
    work = some(seed=seed)
    fleet = Fleet(replicas=3, router="least-loaded", failures=Failures(between=between, repair=3.0), seed=seed)
    found = simulate(
        work, times(8, 512), batching=Batching(max_num_seqs=8, max_num_batched_tokens=512, memory=4000, preemption=preemption), fleet=fleet,
        kv_bytes=1.0,
    )  # fmt: skip
    q = found.requests
    assert np.isfinite(q["finish"]).all()
    assert (q["finish"] >= q["first"]).all()
    assert found.replicas.own["tokens"].sum() == pytest.approx(work.output.sum())
    assert (found.replicas.own["free"] == 4000 // 16).all()
    again = simulate(
        work, times(8, 512), batching=Batching(max_num_seqs=8, max_num_batched_tokens=512, memory=4000, preemption=preemption), fleet=fleet,
        kv_bytes=1.0,
    )  # fmt: skip
    assert (again.requests["finish"] == q["finish"]).all(), "the same seed, the same run"


def test_failures_happen_as_often_as_asked() -> None:
    work = some(count=4000, rate=20.0)
    found = simulate(
        work, times(8, 512), batching=Batching(max_num_seqs=8, max_num_batched_tokens=512),
        fleet=Fleet(replicas=4, router="least-loaded", failures=Failures(between=20.0, repair=1.0)),
    )  # fmt: skip
    expected = 4 * found.end / 21.0
    assert found.failures == pytest.approx(expected, abs=5 * expected**0.5)
    assert (found.requests["dropped"] > 0).any()


def test_a_fleet_grows_with_the_load_and_shrinks_again() -> None:
    busy, quiet = some(count=1500, rate=60.0), some(count=100, rate=1.0)
    work = workload.plain(
        np.concatenate((busy.arrival, busy.arrival[-1] + quiet.arrival)), np.concatenate((busy.prompt, quiet.prompt)),
        np.concatenate((busy.output, quiet.output)),
    )  # fmt: skip
    rules = Scaling(least=1, most=6, startup=2.0, target=6.0, interval=1.0, window=5.0)
    fleet = Fleet(replicas=1, router="least-loaded", scaling=rules)
    found = simulate(work, times(8, 512), batching=Batching(max_num_seqs=8, max_num_batched_tokens=512), fleet=fleet)
    fixed = simulate(
        work, times(8, 512), batching=Batching(max_num_seqs=8, max_num_batched_tokens=512), fleet=Fleet(replicas=1)
    )
    assert 1 < found.most_replicas <= 6
    assert found.requests["first"].mean() < fixed.requests["first"].mean()
    assert found.end < found.replica_seconds.sum() < 6 * found.end
    assert found.replicas.own["up"].sum() < found.most_replicas, "it shrank"


def test_sessions_wait_for_their_answers() -> None:
    random = np.random.default_rng(4)
    work = agents(
        np.sort(random.uniform(0, 20, 30)),
        5,
        first=64,
        turn_tokens=16,
        output=16,
        think_time=2.0,
        block=16,
        random=random,
    )
    cache = PrefixCache(tiers=(Tier(name="hbm", capacity=np.inf),))
    found = simulate(
        work, times(8, 512), batching=Batching(max_num_seqs=8, max_num_batched_tokens=512), cache=cache, kv_bytes=1.0,
        fleet=Fleet(replicas=2, router="prefix-aware"),
    )  # fmt: skip
    q = found.requests
    assert np.isfinite(q["finish"]).all()
    g = work.graph
    assert g is not None
    assert len(g.to) == 30 * 4
    assert q["arrival"][g.to] == pytest.approx(q["finish"][g.source] + g.delay)
    # Every later turn finds the whole blocks of the one before.
    assert found.hits["hbm"] > 0.5


def test_users_never_have_two_requests_at_once() -> None:
    random = np.random.default_rng(5)
    work = workload.users(7, 210, workload.lengths(50, 0.5, 210, random), workload.lengths(30, 0.5, 210, random))
    for replicas in (1, 3):
        fleet = Fleet(replicas=replicas, router="least-loaded")
        q = simulate(
            work, times(8, 512), batching=Batching(max_num_seqs=8, max_num_batched_tokens=512), fleet=fleet
        ).requests
        events = np.concatenate((q["arrival"], q["finish"]))
        change = np.concatenate((np.ones(210), -np.ones(210)))
        inside = np.cumsum(change[np.lexsort((change, events))])
        assert inside.max() <= 7


def test_a_replica_in_a_step_is_not_empty() -> None:
    """Two replicas read prompts of a second each and write one token: the second prompt goes to the one that is idle."""
    work = workload.plain(np.array([0.0, 0.1, 1.01, 1.2]), np.full(4, 500, np.int32), np.ones(4, np.int32))
    table = replace(times(8, 512), prompt=np.full(513, 1.0), pair=0.0)
    batching = Batching(max_num_seqs=8, max_num_batched_tokens=512)
    q = simulate(work, table, batching=batching, fleet=Fleet(replicas=2, router="least-loaded")).requests
    assert list(q["place"]) == [0, 1, 0, 1]
    assert q["finish"] - q["arrival"] == pytest.approx(1.0)


@pytest.mark.parametrize("talking", [False, True])
def test_a_run_goes_on_from_any_snapshot_to_the_same_end(talking: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "SLICE", 50)
    monkeypatch.setattr(events, "PACE", 2.0)
    random = np.random.default_rng(6)
    work = some(seed=6)
    if talking:
        work = agents(
            np.sort(random.uniform(0, 20, 40)),
            5,
            first=64,
            turn_tokens=16,
            output=16,
            think_time=1.0,
            block=16,
            random=random,
        )
    fleet = Fleet(
        replicas=2, router="two-choices", failures=Failures(between=10.0, repair=2.0), seed=6,
        scaling=Scaling(least=2, most=4, startup=1.0, target=3.0, interval=2.0, window=6.0),
    )  # fmt: skip
    asked = {
        "batching": Batching(max_num_seqs=8, max_num_batched_tokens=512, memory=4000), "fleet": fleet, "kv_bytes": 1.0,
        "cache": PrefixCache(tiers=(Tier(name="hbm", capacity=2000.0), Tier(name="dram", capacity=9000.0))),
    }  # fmt: skip
    kept: list[dict[str, np.ndarray]] = []

    def keep(snapshot: Callable[[], dict[str, np.ndarray]]) -> None:
        kept.append({name: np.array(values) for name, values in snapshot().items()})

    whole = simulate(work, times(8, 512), keep=keep, **asked)
    assert len(kept) > 4
    for one in kept[:: max(len(kept) // 5, 1)]:
        again = simulate(work, times(8, 512), resume=one, **asked)
        for name in whole.requests.dtype.names:
            np.testing.assert_array_equal(again.requests[name], whole.requests[name])
        assert (again.hits, again.failures, again.replica_seconds.tolist()) == (
            whole.hits,
            whole.failures,
            whole.replica_seconds.tolist(),
        )


def test_time_series_add_up() -> None:
    work = some()
    found = simulate(work, times(8, 512), batching=Batching(max_num_seqs=8, max_num_batched_tokens=512))
    over = series(found, work.output, found, 512, bins=50)
    width = over["time"][1] - over["time"][0]
    assert (over["arrivals"] * width).sum() == pytest.approx(len(work))
    assert (over["tokens_per_second"] * width).sum() == pytest.approx(work.output.sum(), rel=1e-6)
    q = found.requests
    inside = (q["arrival"] >= over["time"][3]) & (q["arrival"] < over["time"][4])
    assert inside.any()
    assert over["first_p50"][3] == pytest.approx(np.median((q["first"] - q["arrival"])[inside]))
    assert (over["waiting"] >= 0).all()
    assert (over["decoding"] >= 0).all()


def test_a_replay_counts_what_each_replica_holds() -> None:
    work = some(count=300)
    fleet = Fleet(replicas=3, router="two-choices")
    found = simulate(work, times(8, 512), batching=Batching(max_num_seqs=8, max_num_batched_tokens=512), fleet=fleet)
    shown, q = replay([found], moments=37), found.requests
    for at, t in enumerate(shown.time):
        for r in range(3):
            mine = q[q["place"] == r]
            waiting = (mine["arrival"] <= t) & (t < mine["admitted"])
            reading = (mine["admitted"] <= t) & (t < mine["first"])
            writing = (mine["first"] <= t) & (t < mine["finish"])
            counts = (shown.waiting[r, at], shown.reading[r, at], shown.writing[r, at])
            assert counts == (waiting.sum(), reading.sum(), writing.sum())
    assert shown.waiting.any()
    assert shown.time[-1] == pytest.approx(found.end)


def test_the_timeline_shows_each_phase_once_and_never_two_in_a_lane() -> None:
    work = some(count=60)
    events = timeline(simulate(work, times(8, 512), batching=Batching(max_num_seqs=8, max_num_batched_tokens=512)))
    for phase in ("prompt", "answer"):
        assert len([e for e in events if e["name"] == phase]) <= 60
    lanes: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for e in events:
        lanes.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))  # type: ignore[operator]
    for spans in lanes.values():
        spans.sort()
        assert all(a[1] <= b[0] + 1e-3 for a, b in pairwise(spans))


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(DoesNotFit, match="of 269 tokens"):
        simulate(some(), flat(0.1, 8), batching=Batching(max_num_seqs=8, memory=16))
    for bad in (
        {"policy": "fifo"}, {"preemption": "hope"}, {"max_num_seqs": 0}, {"max_num_batched_tokens": 1}, {"draft_tokens": 2}, {"share": -1.0},
        {"policy": "static"}, {"draft_tokens": 1, "acceptance": (0.5,)}, {"acceptance": (2.0,), "draft_tokens": 1},
    ):  # fmt: skip
        with pytest.raises(InputError):
            Batching(**bad)
    for make in (
        lambda: Fleet(router="magic"), lambda: Fleet(replicas=0), lambda: Failures(between=0.0),
        lambda: Scaling(least=4, most=2), lambda: Scaling(least=1, most=2, metric="cpu"), lambda: Scaling(least=1, most=2, target=0.0), lambda: Tier(name="x", capacity=-1.0),
        lambda: Tier(name="x", capacity=1.0, bandwidth=0.0), lambda: PrefixCache(eviction="random"),
        lambda: PrefixCache(lifetime=0.0), lambda: workload.lengths(0, 0, 3, np.random.default_rng()),
        lambda: workload.gamma_arrivals(-1, 1, 3, np.random.default_rng()), lambda: workload.users(0, 3, some(3).prompt, some(3).output),
        lambda: workload.plain(np.array([1.0, 0.0]), np.array([1, 1]), np.array([1, 1])),
        lambda: workload.plain(np.array([-1.0]), np.array([1]), np.array([1])),
        lambda: workload.plain(np.array([0.0]), np.array([0]), np.array([1])),
        lambda: workload.plain(np.array([0.0]), np.array([1]), np.array([10**9])),
        lambda: workload.plain(np.array([]), np.array([]), np.array([])),
        lambda: days.daily(np.array([1.0]), 1.0), lambda: workload.scaled(some(3), 0.0),
    ):  # fmt: skip
        with pytest.raises(InputError):
            make()


@settings(max_examples=20, deadline=None)
@given(swing=st.floats(0, 0.95), seed=st.integers(0, 100))
def test_a_day_moves_arrivals_and_keeps_their_number(swing: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    even = np.sort(random.uniform(0, 86_400 * 3, 20_000))
    bent = days.daily(even, swing)
    assert (np.diff(bent) >= 0).all()
    counts = np.histogram(bent % 86_400, 4, (0, 86_400))[0]
    expected = 20_000 / 4 * (1 + swing * np.array([2 / np.pi, 2 / np.pi, -2 / np.pi, -2 / np.pi]))
    assert counts == pytest.approx(expected, rel=0.15, abs=120)
