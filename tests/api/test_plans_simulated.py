"""What a plan promises, held against the simulation of what it launches."""

from __future__ import annotations

import pytest

import rackmath as rm
from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.result import run_simulation


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize(("tokens", "answer", "ttft"), [(16_000, 100, 4.0), (1000, 300, 1.0)])
def test_as_many_users_as_a_plan_counts_are_served_at_its_rate(
    engine: str, tokens: int, answer: int, ttft: float
) -> None:
    """Long prompts of short answers are most of their time being read: they have places in the engine as well."""
    system, work = rm.load_system("h100-sxm", gpus=8), rm.Workload(input=tokens, output=answer, ttft=ttft, tpot=0.2)
    plan = rm.plan("llama-3.1-70b", system, work, engine=rm.Engine(engine), one_pool=True)
    best = plan.best
    assert best is not None
    planned = best.planned
    turns = planned["groups"] if engine == "trtllm" else 1.0
    assert planned["max_num_seqs"] * turns * planned["units"] >= planned["concurrency"]
    users = round(planned["concurrency"])
    run = run_simulation(
        SimulateRequest(**best.simulated | {"users": users, "requests": max(1000, 8 * users), "length_cv": 0.3})
    )
    assert run.to_dict()["served_rate"] == pytest.approx(planned["requests_per_second"], rel=0.05)
    assert run.tpot.mean == pytest.approx(planned["time_per_output_token"], rel=0.1)


@pytest.mark.parametrize(("engine", "ttft"), [("vllm", 1.0), ("vllm", 2.0), ("sglang", 1.5)])
def test_a_server_of_few_users_is_planned_at_the_rate_that_it_has(engine: str, ttft: float) -> None:
    """One to six users of a copy and prompts of most of the time: each meets every other one's prompt in full."""
    system = rm.load_system("h100-sxm", gpus=16)
    work = rm.Workload(input=16_000, output=100, ttft=ttft, tpot=0.02)
    best = rm.plan("glm-4.5-air", system, work, engine=rm.Engine(engine), one_pool=True).best
    assert best is not None
    planned, users = best.planned, round(best.planned["concurrency"])
    assert users / planned["units"] < 7
    fields = best.simulated | {"users": users, "requests": 800, "length_cv": 0.3}
    run = run_simulation(SimulateRequest(**fields))
    rate = planned["requests_per_second"] * users / planned["concurrency"]
    assert run.to_dict()["served_rate"] == pytest.approx(rate, rel=0.05)
    assert run.ttft.mean == pytest.approx(planned["time_to_first_token"], rel=0.25)


def test_requests_that_come_at_random_find_places() -> None:
    """A server with as many places as it has requests in the mean makes every second one wait at its full rate."""
    work = rm.Workload(input=2000, output=500, ttft=1.0, tpot=0.02)
    best = rm.plan("qwen3-30b-a3b", rm.load_system("h200-sxm", gpus=1), work, engine=rm.Engine("sglang")).best
    assert best is not None
    planned = best.planned
    assert best.max_num_seqs == pytest.approx(planned["concurrency"] + 2 * planned["concurrency"] ** 0.5, abs=1)
    run, tight = (
        rm.simulate(best, rm.Poisson(rate=0.9 * planned["requests_per_second"]), requests=3000, **fields)
        for fields in ({}, {"max_num_seqs": round(planned["concurrency"])})
    )
    assert run.ttft.p99 < 3 * planned["time_to_first_token"] < tight.ttft.p99


def test_every_stage_of_a_pool_has_a_prompt_to_read() -> None:
    """Launched for one prompt in all, half of a pipeline of two stages would stand idle."""
    work = rm.Workload(input=16_000, output=100, ttft=3, tpot=0.05)
    system = rm.load_system("h100-sxm", gpus=8)
    best = rm.plan("qwen3-next-80b-a3b", system, work, engine=rm.Engine("sglang")).best
    assert best is not None
    assert "pp2" in str(best.prefill_layout)
    servers = [part for part in best.launch("sglang").split("python -m sglang") if "--pp-size 2" in part]
    assert servers
    assert all("--max-running-requests 2 " in part for part in servers)
