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
    assert run.to_dict()["served_rate"] == pytest.approx(planned["requests_per_second"], rel=0.12)
    assert run.tpot.mean == pytest.approx(planned["time_per_output_token"], rel=0.15)


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
