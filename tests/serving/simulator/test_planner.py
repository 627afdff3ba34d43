"""Autoscaling for limits: the published formula on known answers, and fleets that keep what they plan for."""

from __future__ import annotations

from dataclasses import replace
from math import nan

import numpy as np
import pytest

from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.setup import run, setup_of
from rackmath.errors import InputError
from rackmath.serving.simulator import Batching, Fleet, Scaling, StepTimes, simulate, workload
from rackmath.serving.simulator.planner import IntervalMeans, Profile, observed, replicas_for

SEATS, BUDGET = 64, 1000
TIMES = StepTimes(
    # 10 ms, and 1 ms for each sequence; a prompt of 100 tokens takes 20 ms.
    base=np.concatenate(([0.0], 0.010 + 0.001 * np.arange(1, SEATS + 1))), slope=np.zeros(SEATS + 1),
    prompt=2e-4 * np.arange(BUDGET + 1), pair=0.0, error=0.0,
)  # fmt: skip
PROFILE = Profile(times=TIMES, batching=Batching(max_num_seqs=SEATS, max_num_batched_tokens=BUDGET, memory=100_000))


def seen(**fields: float) -> IntervalMeans:
    return IntervalMeans(**({"rate": 10.0, "prompt": 100.0, "answer": 201.0, "first": nan, "per_token": nan} | fields))


def test_a_profile_has_the_largest_batch_within_a_limit() -> None:
    # 30 ms are 20 sequences: 667 tokens a second; with a third of the cache for each, no more than three.
    assert PROFILE.throughput(200.0, 0.030 + 1e-9) == pytest.approx(20 / 0.030)
    assert PROFILE.throughput(33_000.0, 0.030) == pytest.approx(3 / 0.013)
    # Where no batch keeps the limit, that of one.
    assert PROFILE.throughput(200.0, 0.001) == pytest.approx(1 / 0.011)
    assert PROFILE.prompt(100.0) == pytest.approx(0.020)
    assert PROFILE.prompt(2500.0) == pytest.approx(0.5)


def test_the_formula_of_the_planner() -> None:
    # Ten prompts a second are 0.2 of a replica; 2,010 tokens a second, the first of each with its prompt, three of 667.
    limit = 0.030 + 1e-9
    assert replicas_for(seen(), 20.0, PROFILE, limit) == pytest.approx(0.2 + 3.0)
    # First tokens in half the time: half of each prompt was in a cache. Twice the time is queueing, not work.
    assert replicas_for(seen(first=0.010), 20.0, PROFILE, limit) == pytest.approx(0.1 + 3.0)
    assert replicas_for(seen(first=0.040), 20.0, PROFILE, limit) == pytest.approx(0.2 + 3.0)
    # Tokens take 1.5 times as long as 20 sequences should: 20 ms of the profile are 30, ten sequences of 500 a second.
    assert replicas_for(seen(per_token=0.045), 20.0, PROFILE, limit) == pytest.approx(0.2 + 4.0)
    # Workers that only read, and that only write.
    assert replicas_for(seen(answer=1.0), 20.0, PROFILE, limit) == pytest.approx(0.2)
    assert replicas_for(seen(), 20.0, replace(PROFILE, reads=False), limit) == pytest.approx(3.0)
    assert replicas_for(seen(rate=0.0, prompt=nan, answer=nan), 1.0, PROFILE, limit) == 0.0


def test_what_an_interval_saw_is_what_its_users_saw() -> None:
    count = 400
    work = workload.plain(np.arange(count) * 0.05, np.full(count, 100, np.int32), np.full(count, 20, np.int32))
    q = simulate(work, TIMES, batching=PROFILE.batching).requests
    of = observed(q, 5.0, 10.0)
    assert of.rate == pytest.approx(20.0, rel=0.02)
    assert (of.prompt, of.answer) == (100.0, 20.0)
    inside = (q["first"] > 5) & (q["first"] <= 10)
    assert of.first == pytest.approx((q["first"] - q["arrival"])[inside].mean())
    ended = (q["finish"] > 5) & (q["finish"] <= 10)
    assert of.per_token == pytest.approx(((q["finish"] - q["first"])[ended] / 19).mean())
    nobody = observed(q, 1e4, 1e4 + 5)
    assert nobody.rate == 0.0
    assert np.isnan(nobody.first)


def test_a_fleet_that_plans_for_a_limit_keeps_it_with_fewer_replicas() -> None:
    """The load triples: the planned fleet grows, and answers stay within the limit once it has."""
    arrival = np.concatenate([np.arange(0, 100, 1 / 5), np.arange(100, 300, 1 / 15)])
    count = len(arrival)
    work = workload.plain(arrival, np.full(count, 100, np.int32), np.full(count, 200, np.int32))
    rules = Scaling(least=1, most=12, metric="slo", target=1.0, limit=0.03, startup=2.0, interval=5.0, window=20.0)
    outcome = simulate(
        work, TIMES, batching=PROFILE.batching, fleet=Fleet(scaling=rules, replicas=1, router="least-loaded")
    )
    q = outcome.requests
    per_token = (q["finish"] - q["first"]) / 199
    late = q["arrival"] > 150
    assert np.quantile(per_token[late], 0.9) <= 0.03 * 1.1
    # Fifteen a second ask for 0.3 and 4.5 replicas by the profile alone; never for twice as many.
    assert 5 <= outcome.most_replicas <= 9
    alone = simulate(work, TIMES, batching=PROFILE.batching, fleet=Fleet(replicas=1)).requests
    assert np.quantile(((alone["finish"] - alone["first"]) / 199)[late], 0.5) > 0.03


ASKED = {"model": "llama-3.1-8b", "on": "h100-sxm", "gpus": 1, "poisson": 40.0, "input": 500, "output": 100,
         "requests": 3000, "no_evidence": True, "scale_to": 6, "scale_on": "slo"}  # fmt: skip


def test_the_limit_is_that_of_the_request() -> None:
    with pytest.raises(InputError, match="--tpot"):
        run(setup_of(SimulateRequest(**ASKED)))
    setup = setup_of(SimulateRequest(**ASKED, tpot=0.02, startup=5.0, scale_interval=5.0))
    rules = setup.fleet(setup.groups[0]).scaling
    assert rules is not None
    assert (rules.limit, rules.target) == (0.02, 1.0)
    tight = run(setup_of(SimulateRequest(**ASKED, tpot=0.008, startup=5.0, scale_interval=5.0)))[0]
    loose = run(setup_of(SimulateRequest(**ASKED, tpot=0.05, startup=5.0, scale_interval=5.0)))[0]
    assert tight.most_replicas > loose.most_replicas


def test_two_pools_are_planned_each_for_its_own_work() -> None:
    """Readers for prompts and writers for answers: long prompts ask for the first, long answers for the second."""
    base = ASKED | {"gpus": 2, "prefill_gpus": 1, "scale_to": 8, "startup": 2.0, "scale_interval": 5.0, "tpot": 0.009}
    readers, writers = run(setup_of(SimulateRequest(**(base | {"input": 3000, "output": 20}))))
    assert readers.most_replicas > writers.most_replicas
    readers, writers = run(setup_of(SimulateRequest(**(base | {"input": 100, "output": 400}))))
    assert readers.most_replicas < writers.most_replicas


def test_a_target_beside_a_limit_is_refused() -> None:
    with pytest.raises(InputError, match="--scale-target"):
        run(setup_of(SimulateRequest(**ASKED, tpot=0.02, scale_target=3.0)))
