"""Steps without graphs: the host starts each kernel, which small batches wait for and large ones do not."""

from __future__ import annotations

from typing import Any

import pytest

from rackmath.api.deployment import deployment_of
from rackmath.api.estimate import EstimateRequest, run_estimate
from rackmath.api.plan import PlanRequest, run_plan
from rackmath.api.simulation.groups import group_of
from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.traffic import traffic
from rackmath.engine.kernels import pass_kernels
from rackmath.io import catalogue, constants_file

STEP: dict[str, Any] = {"model": "llama-3.1-8b", "on": "h100-sxm", "gpus": 1, "layout": "tp1", "context": 1000,
                        "no_evidence": True}  # fmt: skip


def test_a_small_step_takes_as_long_as_its_kernels_are_started() -> None:
    """On eight accelerators, whose kernels are short: a single one works as long as the host takes to start them."""
    spread = STEP | {"gpus": 8, "layout": "tp8", "batch": 1}
    graphs = run_estimate(EstimateRequest(**spread))
    eager = run_estimate(EstimateRequest(**spread, enforce_eager=True))
    system = catalogue.system("h100-sxm")
    engine = constants_file.engine_of(system, "vllm", STEP.get("year", constants_file.NOW))
    per_kernel = float(constants_file.scheduling_of(engine).dispatch)
    least = pass_kernels(catalogue.model("llama-3.1-8b")) * per_kernel
    assert eager.time > 1.5 * graphs.time
    assert eager.time >= least * (1 - 1e-9)
    assert any("--enforce-eager" in note for note in eager.assumptions)
    assert not any("--enforce-eager" in note for note in graphs.assumptions)


def test_a_large_step_hides_its_launches() -> None:
    times = [run_estimate(EstimateRequest(**STEP, batch=400, enforce_eager=e)).time for e in (False, True)]
    assert times[1] == pytest.approx(times[0], rel=0.1)
    assert times[1] >= times[0]


def test_measurements_of_graphs_do_not_correct_it() -> None:
    asked = STEP | {"no_evidence": False}
    assert run_estimate(EstimateRequest(**asked, batch=64)).near is not None
    assert run_estimate(EstimateRequest(**asked, batch=64, enforce_eager=True)).near is None


def test_a_plan_launches_and_simulates_what_it_planned() -> None:
    asked = PlanRequest(
        model="llama-3.1-8b", on="h100-sxm", gpus=1, input=1000, output=200, tpot=0.05, enforce_eager=True
    )
    best = run_plan(asked).best
    assert best is not None
    assert "--enforce-eager" in best.launch("vllm")
    assert "--disable-cuda-graph" in best.launch("sglang")
    assert "cuda_graph_config: null" in best.launch("trtllm")
    simulated = SimulateRequest(**(deployment_of(asked, best.planned, {}).simulated | {"poisson": 1.0}))
    assert simulated.enforce_eager
    slow = group_of(simulated, traffic(simulated.traffic)[0], 0).deployment.times
    fast = group_of(
        SimulateRequest(
            **(deployment_of(asked, best.planned, {}).simulated | {"poisson": 1.0, "enforce_eager": False})
        ),
        traffic(simulated.traffic)[0],
        0,
    ).deployment.times
    assert slow.base[1] > 1.3 * fast.base[1]
