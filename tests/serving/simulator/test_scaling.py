"""Autoscalers: the published rule on known answers, its window against brute force, fleets that follow their metric."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.setup import run, setup_of
from rackmath.errors import InputError
from rackmath.serving.simulator import (
    Arrivals,
    Batching,
    Failures,
    Fleet,
    PrefixCache,
    Scaling,
    Tier,
    events,
    simulate,
    workload,
)
from rackmath.serving.simulator.scaling import CONCURRENCY_PART, Advice, wanted_replicas
from tests.serving.simulator.test_against_reference import times

BATCHING = Batching(max_num_seqs=8, max_num_batched_tokens=512)


@pytest.mark.parametrize(
    ("current", "each", "target", "wanted"),
    # The first four are examples of Kubernetes' documentation: 90 per cent against 75, 200m against 100m, 50m, and 109.
    [(50, 90, 75, 60), (3, 200, 100, 6), (4, 50, 100, 2), (10, 109, 100, 10), (10, 111, 100, 12), (10, 89, 100, 9)],
)
def test_the_ratio_of_kubernetes(current: int, each: float, target: float, wanted: int) -> None:
    assert wanted_replicas(current, current * each, target, 0.1) == wanted


@given(current=st.integers(1, 500), total=st.floats(0, 1e5), target=st.floats(0.1, 100))
def test_what_is_asked_for_meets_the_target(current: int, total: float, target: float) -> None:
    wanted = wanted_replicas(current, total, target, 0.0)
    assert wanted * target >= total - 1e-6 * target
    assert (wanted - 1) * target < total or wanted in (0, current)


@given(
    advice=st.lists(st.tuples(st.floats(0.5, 20), st.integers(1, 30)), min_size=1, max_size=30),
    window=st.floats(0, 60),
)
def test_a_fleet_goes_down_to_the_most_of_the_window(advice: list[tuple[float, int]], window: float) -> None:
    kept, current, now, past = Advice(window), 5, 0.0, list[tuple[float, int]]()
    for gap, wanted in advice:
        now += gap
        past.append((now, wanted))
        most = max(n for t, n in past if t > now - window or t == now)
        expected = wanted if wanted > current else min(current, most)
        current = kept.settled(now, wanted, current)
        assert current == expected


def steps(rates: list[float], span: float = 40.0) -> Arrivals:
    """Evenly spaced requests at one rate after another."""
    arrival = np.concatenate([i * span + np.arange(0, span, 1 / rate) for i, rate in enumerate(rates)])
    count = len(arrival)
    return workload.plain(arrival, np.full(count, 30, np.int32), np.full(count, 10, np.int32))


def test_a_rate_is_met_with_as_many_replicas_as_serve_it() -> None:
    rules = Scaling(least=1, most=9, metric="rate", target=5.0, startup=1.0, interval=2.0, window=6.0, tolerance=0.0)
    found = simulate(steps([4.0, 23.0, 9.0]), times(8, 512), batching=BATCHING, fleet=Fleet(scaling=rules))
    assert found.most_replicas == ceil(23 / 5)
    # An interval until it is seen, then one more for each of the others; down after the window.
    busy = np.sort(found.replica_seconds)[::-1]
    assert busy[0] == pytest.approx(found.end)
    assert busy[1] > 70
    assert all(35 < seconds < 60 for seconds in busy[2:5])
    assert (busy[5:] == 0).all()


@pytest.mark.long
def test_a_queue_starts_replicas_and_its_end_stops_them() -> None:
    rules = Scaling(least=1, most=4, metric="queue", target=5.0, startup=1.0, interval=2.0, window=8.0)
    work = steps([2.0, 150.0, 2.0, 2.0])
    found = simulate(work, times(8, 512), batching=BATCHING, fleet=Fleet(scaling=rules, router="least-loaded"))
    fixed = simulate(work, times(8, 512), batching=BATCHING, fleet=Fleet(replicas=1))
    assert found.most_replicas > 1
    assert found.requests["first"].mean() < fixed.requests["first"].mean()
    assert found.replica_seconds.sum() < 4 * found.end
    assert found.replicas.own["up"].sum() == 1


@pytest.mark.parametrize("metric", ["concurrency", "queue", "rate"])
def test_every_metric_serves_everybody(metric: str) -> None:
    rules = Scaling(least=1, most=3, metric=metric, target=4.0, startup=2.0, interval=1.0, window=3.0)
    found = simulate(steps([3.0, 30.0]), times(8, 512), batching=BATCHING, fleet=Fleet(scaling=rules))
    assert np.isfinite(found.requests["finish"]).all()
    assert 1 <= found.most_replicas <= 3


def test_users_who_wait_have_no_rate() -> None:
    rules = Scaling(least=1, most=3, metric="rate", target=4.0)
    work = workload.users(3, 30, np.full(30, 10, np.int32), np.full(30, 5, np.int32))
    with pytest.raises(InputError, match="--scale-on"):
        simulate(work, times(8, 512), batching=BATCHING, fleet=Fleet(scaling=rules))


ASKED = {"model": "llama-3.1-8b", "on": "h100-sxm", "gpus": 1, "poisson": 20.0, "input": 500, "output": 100,
         "requests": 1000, "no_evidence": True, "scale_to": 4}  # fmt: skip


def test_what_a_replica_holds_is_the_default_target() -> None:
    setup = setup_of(SimulateRequest(**ASKED, max_num_seqs=256))
    group = setup.groups[0]
    scaling = setup.fleet(group).scaling
    assert scaling is not None
    held = group.batching.memory / 600
    assert scaling.target == pytest.approx(CONCURRENCY_PART * min(256, held))
    queue = setup_of(SimulateRequest(**ASKED, scale_on="queue")).fleet(group).scaling
    assert queue is not None
    assert queue.target == 5


def test_a_rate_has_to_be_said() -> None:
    setup = setup_of(SimulateRequest(**ASKED, scale_on="rate"))
    with pytest.raises(InputError, match="--scale-target"):
        run(setup)
    said = setup_of(SimulateRequest(**ASKED, scale_on="rate", scale_target=8.0, startup=5.0, scale_interval=5.0))
    assert run(said)[0].most_replicas == 3


def test_a_replica_that_is_started_again_has_forgotten_its_prefixes() -> None:
    """All prompts begin alike. The second replica serves twice, with a pause between: it reads the prefix twice."""
    plain = steps([12.0, 1.0, 1.0, 12.0])
    count = len(plain)
    work = replace(
        plain, prompt=np.full(count, 64, np.int32), start=np.arange(count + 1) * 4, blocks=np.tile(np.arange(4), count),
        block=16,
    )  # fmt: skip
    rules = Scaling(least=1, most=2, metric="rate", target=8.0, startup=1.0, interval=2.0, window=6.0)
    cache = PrefixCache(tiers=(Tier(name="hbm", capacity=np.inf, shared=True),))
    q = simulate(
        work, times(8, 512), batching=replace(BATCHING, memory=16_000), cache=cache, fleet=Fleet(scaling=rules),
        kv_bytes=1.0,
    ).requests  # fmt: skip
    second = q[q["place"] == 1]
    assert np.diff(np.sort(second["arrival"])).max() > 20
    assert (second["hit"] == 0).sum() == 2


def test_a_replica_has_one_next_failure() -> None:
    """One that was started again meanwhile does not fail at the moment of its earlier life as well."""
    fleet = Fleet(failures=Failures(between=100.0, repair=1.0))
    kept = events.Events(fleet, 1, np.random.default_rng(0))
    earlier = kept.next
    kept._will_fail(0, earlier + 1.0)  # pyright: ignore[reportPrivateUsage]
    replicas = simulate(steps([1.0]), times(8, 512), batching=BATCHING).replicas
    kept.act(replicas, lambda r, now, alone: None)
    assert kept.failures == 0
    assert kept.next > earlier
    kept.act(replicas, lambda r, now, alone: None)
    assert kept.failures == 1
