"""Plans, launch commands and simulations of routed experts on accelerators of their own."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rackmath.api.estimate import run_estimate
from rackmath.api.estimate_request import EstimateRequest
from rackmath.api.plan import PlanRequest, run_plan
from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.result import run_simulation
from rackmath.engine import Layout, estimate, parse_layout
from rackmath.engine.capacity import largest_batch
from rackmath.errors import InputError
from rackmath.io import catalogue, constants_file
from rackmath.serving.deployment_files import deployment_files
from rackmath.serving.launch import LaunchedWorker, notes
from rackmath.serving.launch_boxes import launch_script, server_pairs
from rackmath.serving.plan import plan, space_of
from rackmath.serving.workload import Limits, PlanWorkload
from tests.serving.test_launch import SERVER

QWEN, H200 = catalogue.model("qwen3-30b-a3b"), catalogue.system("h200-sxm")
WRITER = replace(SERVER, layout=Layout(expert=4, data=8, ffn=4, micro_batches=2), role="decode")
READER = replace(SERVER, role="prefill")
ASKED: dict[str, Any] = {"model": "qwen3-30b-a3b", "on": "h200-sxm", "gpus": 8, "input": 2000, "output": 500}


def settings_of(script: str) -> list[dict[str, Any]]:
    return [json.loads(text)["afd"] for text in re.findall(r"--additional-config '(.*?)' ", script)]


def test_both_kinds_of_servers_are_told_of_each_other() -> None:
    script = launch_script("vllm", [(READER, 1), (WRITER, 2)], H200)
    said = settings_of(script)
    assert [x["role"] for x in said[:2]] == ["ffn", "attention"]
    assert all((x["num_attention_ranks"], x["num_ffn_ranks"]) == (8, 4) for x in said)
    assert all(x["compute_gate_on_attention"] for x in said)
    pairs = {(x["host"], x["port"]) for x in said}
    assert len(pairs) == 2
    # A pair takes one port above its own for each rank of experts.
    ports = sorted(port for _, port in pairs)
    assert ports[1] - ports[0] > 4


def test_accelerators_of_both_kinds_multiply_out_and_users_reach_attention_only() -> None:
    servers = server_pairs([(WRITER, 2)])
    assert sum(int(server.layout.gpus) * many for server, many in servers) == 2 * int(WRITER.layout.gpus)
    script = launch_script("vllm", [(READER, 1), (WRITER, 1)], H200)
    blocks = re.split(r"\n(?=# )", script)
    experts = next(block for block in blocks if "holds routed experts only" in block)
    attention = next(block for block in blocks if "writes answers" in block)
    assert "--data-parallel-size 4" in experts
    assert "--data-parallel-size 8" in attention
    for block in (experts, attention):
        assert "--enable-expert-parallel" in block
        assert "--enable-dbo" in block
        assert "VLLM_USE_V2_MODEL_RUNNER=0" in block
    assert "--kv-transfer-config" not in experts
    assert "NIXL" not in experts
    port = re.search(r"--port (\d+)", experts)
    router = next(block for block in blocks if "the router" in block)
    assert port is not None
    assert port.group(1) not in router or "box" in router
    assert router.count("--decode ") == 1


def test_one_micro_batch_needs_no_overlap_and_eager_steps_no_graphs() -> None:
    alone = replace(WRITER, layout=replace(WRITER.layout, micro_batches=1), eager=True)
    script = launch_script("vllm", [(alone, 1)], H200)
    assert "--enable-dbo" not in script
    assert "--compilation-config" not in script
    assert "--compilation-config" in launch_script("vllm", [(WRITER, 1)], H200)


def test_other_engines_and_files_say_that_they_cannot() -> None:
    for engine in ("sglang", "trtllm"):
        assert launch_script(engine, [(WRITER, 1)], H200).startswith("# ")
    files = deployment_files("x", [(READER, 1), (WRITER, 1)], H200)
    assert not files.text
    assert len(files.missing) == 4
    assert any("afd-plugin" in line for line in notes(WRITER))
    assert not any("afd-plugin" in line for line in notes(READER))


def test_a_search_finds_the_best_of_the_layouts_tried_one_by_one() -> None:
    """Of decode workers alone: rate per accelerator at the largest batch within the limit, over all that were tried."""
    engine = constants_file.engine_of(H200, "vllm", 2026.5)
    losses = constants_file.losses_of(H200, engine, "time per token")
    work, limit = PlanWorkload(input=2000, output=500), 0.03
    space = space_of(QWEN, H200, 8, weights=("bf16",), kv=("bf16",), afd=True)
    found = plan(
        H200, work, Limits(time_per_output_token=limit), space, losses, constants_file.scheduling_of(engine)
    ).search
    points = found.points
    for n in np.flatnonzero([bool(found.layouts[int(place)].ffn) for place in points.layout])[::7]:
        layout = found.layouts[int(points.layout[n])]
        assert points.prefill[n] >= 0
        step = estimate(QWEN, H200, layout, batch=float(points.batch[n]), context=2250.0, losses=losses)
        assert points.time_per_output_token[n] == pytest.approx(float(step.time))
        assert points.batch[n] <= largest_batch(QWEN, H200, layout, context=2500.0, tokens=2048.0)
        assert points.gpus[n] == points.units[n] * (
            points.workers[n] * layout.gpus + points.prefill_workers[n] * found.layouts[int(points.prefill[n])].gpus
        )
    assert sum(bool(x.ffn) for x in found.layouts) > 10


def test_a_plan_names_the_best_of_them_beside_a_better_one_and_asks_no_measurements() -> None:
    facts = run_plan(PlanRequest(**ASKED, tpot=0.03, afd=True)).to_dict()
    named = [facts["best"]["layout"], *(other["layout"] for other in facts["runners_up"])]
    assert any("ffn" in name for name in named)
    assert any("--afd: all times by physics alone" in note for note in facts["assumptions"])
    without = run_plan(PlanRequest(**ASKED, tpot=0.03, no_evidence=True)).to_dict()
    assert not any("ffn" in name for name in [without["best"]["layout"], *(o["layout"] for o in without["runners_up"])])
    # More choices are never worse.
    gain = "tokens_per_second_per_gpu"
    assert facts["best"][gain] >= without["best"][gain] * (1 - 1e-9)


@pytest.mark.parametrize(
    ("more", "field"), [({"one_pool": True}, "--one-pool"), ({"model": "llama-3.1-8b"}, "no routed experts")]
)
def test_what_it_cannot_be_asked_with_is_refused(more: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError, match=field):
        run_plan(PlanRequest(**(ASKED | more), afd=True))


def test_a_simulation_takes_such_a_layout() -> None:
    """At little load a token takes what the step of its few sequences takes."""
    asked: dict[str, Any] = {
        "model": "qwen3-30b-a3b", "on": "h200-sxm", "gpus": 8, "layout": "dp4,ffn4,mb2", "poisson": 0.5, "input": 500,
        "output": 100, "requests": 200, "length_cv": 0.0,
    }  # fmt: skip
    result = run_simulation(SimulateRequest(**asked))
    engine = constants_file.engine_of(H200, "vllm", 2026.5)
    losses = constants_file.losses_of(H200, engine, "time per token")
    layout = parse_layout("dp4,ffn4,mb2", None, QWEN)
    steps = [float(estimate(QWEN, H200, layout, batch=float(n), context=550.0, losses=losses).time) for n in (1, 8)]
    assert steps[0] * 0.95 < result.to_dict()["time_per_output_token"]["mean"] < steps[1] * 1.1
    assert any("physics alone" in note for note in result.to_dict()["assumptions"])


def test_an_estimate_says_how_busy_each_pool_is() -> None:
    asked: dict[str, Any] = {"model": "deepseek-v3", "on": "h200-sxm", "batch": 4096, "context": 4096}
    result = run_estimate(EstimateRequest(**asked, layout="dp32,ffn16"))
    facts = result.to_dict()
    apart = facts["experts_apart"]
    assert facts["gpus"] == 48
    assert facts["evidence"] is None
    assert max(apart["busy"].values()) <= facts["time"]
    assert apart["memory_per_expert_gpu"] == pytest.approx(float(result.step.memory.experts))
    assert "experts_apart" not in run_estimate(EstimateRequest(**asked, layout="dp16,ep16")).to_dict()
    with pytest.raises(InputError, match="work side by side"):
        result.picture("step")
    for kind in ("roofline", "batch", "memory"):
        assert result.picture(kind).panels


def test_servers_say_what_they_are() -> None:
    kinds = [
        (server.afd_part.kind, server.role) for server, _ in server_pairs([(WRITER, 1)]) if server.afd_part is not None
    ]
    assert kinds == [("ffn", "ffn"), ("attention", "decode")]
    assert isinstance(server_pairs([(READER, 3)])[0][0], LaunchedWorker)
    assert server_pairs([(READER, 3)]) == [(READER, 3)]
