"""Plans name nothing that their engine refuses at its start: drafts in stages, and pools whose caches it cannot send."""

from __future__ import annotations

from typing import Any

import pytest

import rackmath as rm
from rackmath.errors import DoesNotFit
from rackmath.serving.engine_stages import pools_in_stages, stage_notes, verifies_drafts_in_stages

MODEL, WORK = "deepseek-v3", {"input": 2000, "output": 500}


def points(engine: str, **more: Any) -> list[dict[str, Any]]:
    """What a plan for an engine shows."""
    plan = rm.plan(MODEL, rm.load_system("h100-sxm", gpus=32), rm.Workload(**WORK), engine=rm.Engine(engine), **more)
    facts = plan.to_dict()
    return [*facts["frontier"], *facts["runners_up"], facts["best"]]


def stages(layout: str) -> int:
    return int(layout.split("pp")[1].split(",")[0])


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_no_plan_verifies_drafts_in_stages(engine: str) -> None:
    for point in points(engine):
        writes = point["pools"]["write"] if point["pools"] else point["layout"]
        assert stages(writes) == 1 or point["draft_tokens"] == 0, point


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
    assert verifies_drafts_in_stages("llama.cpp")
    assert stage_notes("llama.cpp", 2, 3) == stage_notes("vllm", 1, 3) == stage_notes("vllm", 2, 0) == ()
    assert "vllm verifies no drafts in pipeline stages" in stage_notes("vllm", 2, 3)[0]


def test_drafts_that_only_stages_would_hold_are_refused_with_the_reason() -> None:
    system = rm.load_system("rtx-4090", gpus=3)
    model, work = "mistral-small-3.2-24b", rm.Workload(input=500, output=100)
    plan = rm.plan(model, system, work, weights="bf16", draft_tokens="0")
    assert plan.best is not None
    assert stages(plan.to_dict()["best"]["layout"]) == 3
    with pytest.raises(DoesNotFit, match="--draft-tokens 0"):
        rm.plan(model, system, work, weights="bf16", draft_tokens="3", draft_model="eagle3")
