"""Unlike replicas in one fleet: other sizes, other speeds, other models."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

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
    ReplicaKind,
    Scaling,
    Tier,
    simulate,
)
from rackmath.serving.simulator.kinds import mark
from rackmath.serving.simulator.settings import ROUTERS
from tests.serving.simulator.test_against_reference import times
from tests.serving.simulator.test_fleet import some

BATCHING = Batching(max_num_seqs=8, max_num_batched_tokens=512)
SMALL = ReplicaKind(
    times=times(3, 64), batching=Batching(max_num_seqs=3, max_num_batched_tokens=64, memory=4000), replicas=2
)


def test_a_replica_counts_a_request_for_less_as_it_is_faster() -> None:
    """Full of requests of 1,000 tokens: eight in 10 + 0.8 + 8.64 ms against three in 10 + 0.3 + 3.09 ms."""
    s = SimpleNamespace(own=np.zeros(3, [("kind", "i4"), ("service", "i4"), ("weight", float), ("ring", "i4")]))
    s.own["kind"] = [0, 1, 1]
    mark(s, [ReplicaKind(times=times(8, 512), batching=BATCHING, replicas=1), SMALL], 1000.0)  # type: ignore[arg-type]
    first, second = 8 / 0.01944, 3 / 0.01339
    assert s.own["weight"].tolist() == pytest.approx([1.0, second / first, second / first])
    assert s.own["ring"].tolist() == [0, 1, 2]


def test_micro_batches_of_a_pipeline_stand_side_by_side() -> None:
    """Two pipelines of two stages, then one of three, and two more of the first kind that may be started."""
    s = SimpleNamespace(own=np.zeros(9, [("kind", "i4"), ("service", "i4"), ("weight", float), ("ring", "i4")]))
    s.own["kind"] = [0, 0, 0, 0, 1, 1, 1, 0, 0]
    kinds = [
        replace(SMALL, times=replace(SMALL.times, turns=turns), replicas=count) for turns, count in ((2, 4), (3, 3))
    ]
    mark(s, kinds, 1000.0)  # type: ignore[arg-type]
    assert s.own["ring"].tolist() == [0, 0, 2, 2, 4, 4, 4, 7, 7]


def part(work: Arrivals, chosen: np.ndarray) -> Arrivals:
    return replace(
        work, arrival=work.arrival[chosen], prompt=work.prompt[chosen], output=work.output[chosen],
        rank=work.rank[chosen], service=None,
    )  # fmt: skip


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_unlike_replicas_in_turn_are_alone(seed: int) -> None:
    """One large and two small ones in turn: three simulations of every third request."""
    work = some(seed=seed, rate=10.0)
    q = simulate(work, times(8, 512), batching=BATCHING, beside=[SMALL]).requests
    for r in range(3):
        own = part(work, np.arange(r, len(work), 3))
        table, batching = (times(8, 512), BATCHING) if r == 0 else (SMALL.times, SMALL.batching)
        alone = simulate(own, table, batching=batching).requests
        assert q["finish"][r::3] == pytest.approx(alone["finish"], rel=1e-12)
        assert set(q["place"][r::3]) == {r}


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), router=st.sampled_from(["round-robin", "least-loaded"]))
def test_models_beside_each_other_are_fleets_of_their_own(seed: int, router: str) -> None:
    random = np.random.default_rng(seed)
    work = some(seed=seed, rate=10.0)
    work = replace(work, service=random.integers(0, 2, len(work)).astype(np.int32))
    other = replace(SMALL, service=1)
    fleet = Fleet(replicas=2, router=router)
    q = simulate(work, times(8, 512), batching=BATCHING, fleet=fleet, beside=[other]).requests
    assert work.service is not None
    first = simulate(part(work, work.service == 0), times(8, 512), batching=BATCHING, fleet=fleet).requests
    second = simulate(part(work, work.service == 1), SMALL.times, batching=SMALL.batching, fleet=fleet).requests
    assert q["finish"][work.service == 0] == pytest.approx(first["finish"], rel=1e-12)
    assert q["finish"][work.service == 1] == pytest.approx(second["finish"], rel=1e-12)


def test_equal_kinds_are_one_fleet() -> None:
    work = some(rate=40.0)
    for router in ROUTERS:
        twin = ReplicaKind(times=times(8, 512), batching=BATCHING, replicas=2)
        whole = simulate(work, times(8, 512), batching=BATCHING, fleet=Fleet(replicas=4, router=router))
        parts = simulate(work, times(8, 512), batching=BATCHING, fleet=Fleet(replicas=2, router=router), beside=[twin])
        assert parts.requests["finish"].tolist() == whole.requests["finish"].tolist(), router


def test_the_faster_one_takes_more() -> None:
    """Half the time per step: about two of three requests, where loads are looked at."""
    work = some(count=4000, rate=9.0, burst=1.0)
    fast = times(8, 512)
    fast = replace(fast, base=fast.base / 2, slope=fast.slope / 2, prompt=fast.prompt / 2, pair=fast.pair / 2)
    beside = [ReplicaKind(times=fast, batching=BATCHING, replicas=1)]
    fleet = Fleet(router="least-loaded")
    q = simulate(work, times(8, 512), batching=BATCHING, fleet=fleet, beside=beside).requests
    assert (q["place"] == 1).mean() == pytest.approx(2 / 3, abs=0.05)


def test_the_same_text_has_another_cache_under_every_model() -> None:
    work = Arrivals(
        arrival=np.arange(4.0),
        prompt=np.full(4, 9, np.int32),
        output=np.ones(4, np.int32),
        rank=np.zeros(4, np.int32),
        start=np.arange(0, 10, 2).astype(np.int64),
        blocks=np.array([5, 7] * 4, np.int64),
        block=4,
        service=np.array([0, 1, 1, 0], np.int32),
    )
    cache = PrefixCache(tiers=(Tier(name="hbm", capacity=np.inf),))
    other = ReplicaKind(times=times(8, 512), batching=BATCHING, replicas=1, service=1)
    q = simulate(work, times(8, 512), batching=BATCHING, cache=cache, beside=[other]).requests
    assert q["hit"].tolist() == [0, 0, 8, 8]


def test_the_last_one_of_a_model_keeps_its_requests_until_it_is_repaired() -> None:
    """Two models with one replica each: what waits at one that fails waits there, for nobody else could serve it."""
    work = some(rate=10.0)
    work = replace(work, service=(np.arange(len(work)) % 2).astype(np.int32))
    other = replace(SMALL, service=1, replicas=1)

    def run(repair: float):
        fleet = Fleet(failures=Failures(between=5.0, repair=repair))
        return simulate(work, times(8, 512), batching=BATCHING, fleet=fleet, beside=[other])

    found = run(1.0)
    assert np.isfinite(found.requests["finish"]).all()
    assert found.failures > 0
    assert found.requests["place"].tolist() == [0, 1] * (len(work) // 2)
    ends = [float(np.nanmean(run(repair).requests["finish"] - work.arrival)) for repair in (0.0, 1.0, 10.0)]
    assert ends == sorted(ends)
    assert ends[2] > ends[0] + 1.0


def test_replicas_of_the_first_kind_come_and_go_and_those_beside_them_stay() -> None:
    work = some(rate=60.0)
    work = replace(work, service=(np.arange(len(work)) % 10 == 0).astype(np.int32))
    other = replace(SMALL, service=1, replicas=1)
    args = {"batching": BATCHING, "beside": [other]}
    rules = Scaling(least=1, most=4, startup=0.5, target=6.0, interval=0.5, window=2.0)
    found = simulate(work, times(8, 512), fleet=Fleet(replicas=1, router="least-loaded", scaling=rules), **args)
    fixed = simulate(work, times(8, 512), fleet=Fleet(replicas=1, router="least-loaded"), **args)
    assert found.replicas.own["kind"].tolist() == [0, 1, 0, 0, 0]
    assert 2 < found.most_replicas <= 5
    mine = work.service == 0
    assert found.requests["first"][mine].mean() < fixed.requests["first"][mine].mean()
    assert set(found.requests["place"][~mine].tolist()) == {1}
    # Requests for the other model see the same replica, whatever the first kind does.
    assert found.requests["finish"][~mine] == pytest.approx(fixed.requests["finish"][~mine], rel=1e-12)
    assert found.replica_seconds[1] == pytest.approx(found.end)


@pytest.mark.parametrize("seed", range(4))
def test_replicas_that_fail_are_neither_started_nor_paid_for_twice(seed: int) -> None:
    rules = Scaling(least=1, most=3, startup=0.5, target=3.0, interval=0.5, window=2.0)
    fleet = Fleet(replicas=1, failures=Failures(between=3.0, repair=5.0), scaling=rules, seed=seed)
    found = simulate(some(rate=60.0), times(8, 512), batching=BATCHING, fleet=fleet)
    assert found.failures > 0
    assert np.isfinite(found.requests["finish"]).all()
    assert found.most_replicas <= 3
    assert (found.replica_seconds <= found.end + 1e-9).all()


def test_what_cannot_be_one_fleet_is_refused() -> None:
    work = some(count=10)
    table = times(8, 512)

    def fails(
        error: type[Exception], match: str, beside: ReplicaKind, work: Arrivals = work, fleet: Fleet | None = None
    ) -> None:
        with pytest.raises(error, match=match):
            simulate(work, table, batching=BATCHING, fleet=fleet, beside=[beside])

    static = replace(BATCHING, policy="static", preemption="reserve")
    fails(InputError, "policy", ReplicaKind(times=table, batching=static, replicas=1))
    unknown = replace(work, service=np.full(len(work), 2, np.int32))
    fails(InputError, "no replica serves", replace(SMALL, service=1), work=unknown)
    tiny = replace(SMALL, batching=replace(SMALL.batching, memory=64))
    fails(DoesNotFit, "in a cache of 64", tiny)


def test_what_memory_leaves_no_room_for_goes_down_a_tier() -> None:
    """Twenty prompts of 8 blocks through a memory for about two of them: a host without end keeps every block."""
    random = np.random.default_rng(0)
    texts = np.concatenate((np.arange(20), random.permutation(20)))
    work = Arrivals(
        arrival=10.0 * np.arange(40),
        prompt=np.full(40, 65, np.int32),
        output=np.full(40, 4, np.int32),
        rank=np.zeros(40, np.int32),
        start=np.arange(0, 8 * 41, 8).astype(np.int64),
        blocks=(8 * np.repeat(texts, 8) + np.tile(np.arange(8), 40)).astype(np.int64),
        block=8,
    )
    hbm, dram = Tier(name="hbm", capacity=np.inf, shared=True), Tier(name="dram", capacity=np.inf, bandwidth=1e9)
    batching = Batching(max_num_seqs=8, max_num_batched_tokens=512, block=4, memory=160)
    again = {}
    for tiers in ((hbm, dram), (hbm,)):
        cache = PrefixCache(tiers=tiers)
        outcome = simulate(work, times(8, 512), batching=batching, cache=cache, kv_bytes=1.0)
        again[len(tiers)] = outcome.requests["hit"][20:]
    assert (again[2] == 64).all()
    assert (again[1] == 0).mean() > 0.7
