"""Requests simulated per second, on one core."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from rackmath.io.machine_code import code_folder
from rackmath.serving.simulator import (
    Arrivals,
    Batching,
    Fleet,
    Outcome,
    PrefixCache,
    StepTimes,
    Tier,
    workload,
)
from rackmath.serving.simulator import simulate as python_simulate
from rackmath.serving.simulator.code import compiled_code

pytestmark = pytest.mark.benchmark

simulate = partial(python_simulate, code=compiled_code(str(code_folder())))

SEATS = 256
TIMES = StepTimes(
    base=np.concatenate(([0.0], 0.01 + 1e-5 * np.arange(1, SEATS + 1))),
    slope=np.concatenate(([0.0], np.full(SEATS, 1e-8))),
    prompt=np.concatenate(([0.0], 2e-6 * np.arange(1, 8193))),
    pair=1e-11,
    error=0.0,
)


def plain(count: int, seed: int = 0) -> Arrivals:
    """Mean batch of about 100, answers of 200 tokens."""
    random = np.random.default_rng(seed)
    return workload.plain(
        workload.gamma_arrivals(41.0, 1.0, count, random),
        workload.lengths(200, 0.5, count, random),
        workload.lengths(200, 0.5, count, random),
    )


def with_prefixes(count: int) -> Arrivals:
    """Sessions of a common system prompt and own blocks, 16 blocks of 64 tokens each."""
    random = np.random.default_rng(1)
    own = random.integers(0, count // 4, count)
    ids = np.concatenate((np.tile(np.arange(4), (count, 1)), 4 + 12 * own[:, None] + np.arange(12)), axis=1)
    return Arrivals(
        arrival=workload.gamma_arrivals(300.0, 1.0, count, random),
        prompt=np.full(count, 1025, np.int32),
        output=workload.lengths(200, 0.5, count, random),
        rank=np.zeros(count, np.int32),
        start=np.arange(0, 16 * (count + 1), 16).astype(np.int64),
        blocks=ids.reshape(-1).astype(np.int64),
        block=64,
    )


def test_a_million_requests_on_one_replica(benchmark: BenchmarkFixture) -> None:
    simulate(plain(1000), TIMES, batching=Batching())
    work = plain(1_000_000)
    found: Outcome = benchmark.pedantic(lambda: simulate(work, TIMES, batching=Batching()), rounds=3)
    own = found.replicas.own
    assert 80 < float(own["batch"].sum() / own["busy"].sum()) < 130


def test_prefix_tiers_and_routing_over_eight_replicas(benchmark: BenchmarkFixture) -> None:
    work = with_prefixes(200_000)
    cache = PrefixCache(tiers=(Tier(name="hbm", capacity=64e6), Tier(name="dram", capacity=512e6, bandwidth=5e10)))
    fleet = Fleet(replicas=8, router="prefix-aware")
    args = {"batching": Batching(), "cache": cache, "fleet": fleet, "kv_bytes": 1000.0}
    simulate(with_prefixes(1000), TIMES, **args)
    found: Outcome = benchmark.pedantic(lambda: simulate(work, TIMES, **args), rounds=3)
    assert found.hits["hbm"] > 0.1


@pytest.mark.parametrize("count", [100_000, 1_000_000, 10_000_000])
def test_growth_is_linear(benchmark: BenchmarkFixture, count: int) -> None:
    work = plain(count)
    benchmark.pedantic(lambda: simulate(work, TIMES, batching=Batching()), rounds=1)
