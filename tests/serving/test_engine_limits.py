"""Plans name nothing that their engine refuses at its start: drafts in stages, and pools whose caches it cannot send."""

from __future__ import annotations

from typing import Any

import pytest

import rackmath as rm
from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.result import run_simulation
from rackmath.engine import Layout
from rackmath.errors import DoesNotFit
from rackmath.io import catalogue
from rackmath.serving.engine_limits import draft_notes, pools_alike, pools_in_stages, verifies_drafts

MODEL, WORK = "deepseek-v3", {"input": 2000, "output": 500}


def points(engine: str, **more: Any) -> list[dict[str, Any]]:
    """What a plan for an engine shows."""
    plan = rm.plan(MODEL, rm.load_system("h100-sxm", gpus=32), rm.Workload(**WORK), engine=rm.Engine(engine), **more)
    facts = plan.to_dict()
    return [*facts["frontier"], *facts["runners_up"], facts["best"]]


def stages(layout: str) -> int:
    return int(layout.split("pp")[1].split(",")[0])


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_no_plan_verifies_drafts_in_stages_or_shared_contexts(engine: str) -> None:
    for point in points(engine):
        writes = point["pools"]["write"] if point["pools"] else point["layout"]
        assert (stages(writes) == 1 and "cp" not in writes) or point["draft_tokens"] == 0, point


@pytest.mark.parametrize(("engine", "reads", "writes"), [("vllm", False, False), ("sglang", True, False)])
def test_pools_have_the_stages_that_their_engine_can_send_caches_between(
    engine: str, reads: bool, writes: bool
) -> None:
    pools = [point["pools"] for point in points(engine) if point["pools"]]
    assert pools
    assert all(writes or stages(pool["write"]) == 1 for pool in pools)
    assert all(reads or stages(pool["read"]) == 1 for pool in pools)
    assert pools_in_stages(engine) == (reads, writes)


def test_engines_that_can_are_not_held_back() -> None:
    """TensorRT-LLM sends caches from any stage to any; llama.cpp's cards are stages, and it drafts."""
    assert pools_in_stages("trtllm") == (True, True)
    staged, shared = Layout(pipeline=2), Layout(tensor=8, context_parallel=4)
    assert verifies_drafts("llama.cpp", staged)
    assert draft_notes("llama.cpp", staged, 3) == draft_notes("vllm", Layout(tensor=2), 3) == ()
    assert draft_notes("vllm", staged, 0) == draft_notes("", shared, 3) == ()
    assert "vllm verifies no drafts in tp1,ep1,pp2,dp1" in draft_notes("vllm", staged, 3)[0]
    assert "sglang verifies no drafts in tp8,ep1,pp1,dp1,cp4" in draft_notes("sglang", shared, 3)[0]


def test_drafts_that_only_stages_would_hold_are_refused_with_the_reason() -> None:
    system = rm.load_system("rtx-4090", gpus=3)
    model, work = "mistral-small-3.2-24b", rm.Workload(input=500, output=100)
    plan = rm.plan(model, system, work, weights="bf16", draft_tokens="0")
    assert plan.best is not None
    assert stages(plan.to_dict()["best"]["layout"]) == 3
    with pytest.raises(DoesNotFit, match="--draft-tokens 0: vllm"):
        rm.plan(model, system, work, weights="bf16", draft_tokens="3", draft_model="eagle3")


@pytest.mark.parametrize(
    ("engine", "model", "alike"),
    [
        ("vllm", "qwen3-next-80b-a3b", True),
        ("sglang", "gpt-oss-120b", True),
        ("vllm", "gpt-oss-120b", False),
        ("trtllm", "qwen3-next-80b-a3b", False),
        ("vllm", "deepseek-v3", False),
    ],
)
def test_pools_of_one_width_where_an_engine_cuts_no_cache_anew(engine: str, model: str, alike: bool) -> None:
    assert pools_alike(engine, catalogue.model(model)) == alike
    plan = rm.plan(model, rm.load_system("h200-sxm", gpus=16), rm.Workload(**WORK), engine=rm.Engine(engine))
    facts = plan.to_dict()
    shown = [*facts["frontier"], *facts["runners_up"], facts["best"]]
    widths = {(tensor(p["pools"]["read"]), tensor(p["pools"]["write"])) for p in shown if p["pools"]}
    assert widths
    if alike:
        assert all(reads == writes for reads, writes in widths)


@pytest.mark.parametrize(("engine", "told"), [("vllm", "--speculative-config"), ("sglang", "--speculative-algorithm")])
def test_workers_that_only_read_are_told_the_same_drafts(engine: str, told: str) -> None:
    for point in points(engine, draft_tokens="2"):
        if point["pools"] and "launch" in point:
            command = point["launch"][engine]
            assert command.count(told) == command.count("serve ") + command.count("launch_server") > 1
            return
    pytest.fail("no point of two pools was launched")


def test_a_simulation_of_pools_that_an_engine_does_not_have_says_so() -> None:
    request = {
        "model": "qwen3-next-80b-a3b", "on": "h200-sxm", "gpus": 4, "prefill_gpus": 2, "poisson": 1.0, "requests": 40,
        "input": 1000, "output": 20,
    }  # fmt: skip
    for engine, layout, said in (("vllm", "pp2", True), ("vllm", "tp2", False), ("trtllm", "pp2", False)):
        result = run_simulation(SimulateRequest(**request, engine=engine, prefill_layout=layout, layout="tp2"))
        assert any("sends no caches" in note for note in result.assumptions) == said


def tensor(layout: str) -> int:
    return int(layout.removeprefix("tp").split(",")[0])
