"""Served adapters: memory to the byte, products and loads in the time, ranges that say nobody measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

import rackmath as rm
from rackmath.engine import Layout
from rackmath.engine.sharding import adapter_bytes
from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.models.adapters import Adapters

LLAMA = catalogue.model("llama-3.1-8b")
ALONE = {"batch": 32, "context": 2000, "no_evidence": True}


def test_memory_on_ranks() -> None:
    """q, k, v and o of 4096 at rank 16, by hand, on one and on four ranks."""
    adapters = Adapters(rank=16, targets=("self_attn",))
    whole = 32 * 16 * 2 * (3 * 4096 + 4096 + 1024 + 1024 + 2 * 4096)
    assert adapter_bytes(LLAMA, adapters, Layout()) == whole
    # A of q, k and v and B of o lie on every rank.
    four = 32 * 16 * 2 * (3 * 4096 + (4096 + 1024 + 1024) / 4 + 4096 / 4 + 4096)
    assert adapter_bytes(LLAMA, adapters, Layout(tensor=4)) == pytest.approx(four)
    assert adapter_bytes(LLAMA, adapters, Layout(pipeline=2)) == pytest.approx(whole / 2)


def test_room_is_that_of_resident_adapters() -> None:
    base = rm.estimate(LLAMA, "h100-sxm", "tp1", **ALONE)
    held = rm.estimate(LLAMA, "h100-sxm", "tp1", adapters=100, max_loras=10, **ALONE)
    assert held.step.memory.weights - base.step.memory.weights == 10 * 2 * 41_943_040


def test_more_of_them_are_slower_and_wider() -> None:
    times = []
    base = rm.estimate(LLAMA, "h100-sxm", "tp1", **ALONE)
    for count in (1, 8, 64):
        result = rm.estimate(LLAMA, "h100-sxm", "tp1", adapters=count, **ALONE)
        times.append(result.time)
        assert result.time_range[1] / result.time > base.time_range[1] / base.time
        assert result.time_range[0] / result.time < base.time_range[0] / base.time
    assert base.time < times[0] < times[1] < times[2]


def test_as_much_as_punica_states() -> None:
    """2 ms per token of Llama 2 7B on an A100 at batch 32, all with adapters of their own."""
    base = rm.estimate("llama-2-7b", "a100-sxm", "tp1", **ALONE)
    added = rm.estimate("llama-2-7b", "a100-sxm", "tp1", adapters=10**6, max_loras=40, **ALONE).time - base.time
    assert 1e-3 < added < 4e-3


def test_loads_stand_before_prompts() -> None:
    """One adapter over the link to the host for the part of the requests that misses."""
    h100 = catalogue.system("h100-sxm")
    assert h100.host_link is not None
    prompt = {"batch": 1, "context": 2000, "phase": "prefill", "no_evidence": True}
    all_here = rm.estimate(LLAMA, "h100-sxm", "tp1", adapters=100, **prompt)
    some = rm.estimate(LLAMA, "h100-sxm", "tp1", adapters=100, max_loras=20, **prompt)
    load = 2 * 41_943_040 / h100.host_link
    assert some.time - all_here.time == pytest.approx(0.8 * load, rel=0.02)
    with pytest.raises(InputError, match="no link to the host"):
        rm.estimate(LLAMA, replace(h100, host_link=None), "tp1", adapters=100, max_loras=20, **prompt)


def test_room_alone_says_nothing() -> None:
    with pytest.raises(InputError, match="--adapters"):
        rm.estimate(LLAMA, "h100-sxm", "tp1", max_loras=4, **ALONE)


def test_plans_and_simulations_have_them() -> None:
    plan = rm.plan(LLAMA, "h100-sxm", rm.Workload(input=1000, output=200), gpus=1, adapters=64, max_loras=8)
    command = plan.best.launch("vllm")
    assert "--max-loras 8" in command
    assert "--max-cpu-loras 64" in command
    free = rm.plan(LLAMA, "h100-sxm", rm.Workload(input=1000, output=200), gpus=1)
    assert plan.best.planned["requests_per_second"] < free.best.planned["requests_per_second"]
    run, quicker = (rm.simulate(p.best, rm.Poisson(rate=5), requests=500) for p in (plan, free))
    assert run.ttft.mean > quicker.ttft.mean
    assert any("64 adapters" in line for line in run.assumptions)
