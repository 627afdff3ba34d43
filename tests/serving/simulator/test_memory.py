"""Memory of simulated replicas: the engine's own account, with the part that it is told to take."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from click.testing import CliRunner

from rackmath.api.plan import PlanRequest, run_plan
from rackmath.api.simulation.groups import group_of
from rackmath.api.simulation.request import SimulateRequest
from rackmath.cli.app import cli
from rackmath.engine.layout import Layout
from rackmath.errors import DoesNotFit, InputError
from rackmath.io import catalogue
from rackmath.serving.simulator.workload import lengths, users
from rackmath.serving.startup.held import sequences_held
from rackmath.serving.startup.memory import EngineStart

TRAFFIC = ["--poisson", "5", "--input", "800", "--output", "100", "--requests", "200"]


def tokens_held(*options: str) -> int:
    """Tokens of cache that a replica is said to hold."""
    command = ["simulate", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "1", *TRAFFIC, *options, "--json"]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 0, result.exception
    notes = " ".join(json.loads(result.stdout)["assumptions"])
    match = re.search(r"holds ([\d,]+) tokens", notes)
    assert match is not None
    return int(match.group(1).replace(",", ""))


def test_a_replica_holds_what_its_engine_s_start_leaves() -> None:
    """A log of vLLM 0.19 has 476,016 tokens at 0.95 of an H100; requests of 900 fill blocks of 16 to 0.99."""
    assert tokens_held("--gpu-memory-utilization", "0.95") == pytest.approx(476_016, rel=0.015)
    # A tenth of 79.19 GiB is 64,870 tokens of 131,072 bytes.
    less = tokens_held("--gpu-memory-utilization", "0.85")
    assert tokens_held("--gpu-memory-utilization", "0.95") - less == pytest.approx(64_870, rel=0.02)
    assert less < tokens_held() == tokens_held("--gpu-memory-utilization", "0.9")


def test_under_the_bound_bytes_count_unless_the_engine_s_part_is_said() -> None:
    assert tokens_held("--ideal", "--gpu-memory-utilization", "0.85") == tokens_held("--gpu-memory-utilization", "0.85")
    # 0.95 of 80 GB less weights of 16.06 GB and eight hidden widths of 8,192 tokens, by 131,072 bytes.
    assert tokens_held("--ideal") == pytest.approx((76e9 - 16.06e9 - 8192 * 8 * 4096 * 2) / 131_072, rel=0.01)


def test_a_part_of_the_memory_is_refused_where_no_rule_is_known() -> None:
    command = ["simulate", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "1", *TRAFFIC]
    error = CliRunner().invoke(cli, [*command, "--mem-fraction-static", "0.8", "--engine", "llama.cpp"]).exception
    assert isinstance(error, InputError)
    assert "leave it out: how llama.cpp as tp1,ep1,pp1,dp1 shares out memory is not known" in str(error)


def test_points_of_a_plan_are_simulated_with_what_their_launch_lines_say() -> None:
    for engine, flag in (("vllm", "--gpu-memory-utilization 0.95"), ("sglang", "--mem-fraction-static ")):
        result = run_plan(
            PlanRequest(model="llama-3.1-8b", on="h100-sxm", gpus=1, input=1000, output=200, engine=engine)
        )
        best: Any = result.best
        part = best.simulated["gpu_memory_utilization"]
        assert part == best.planned["memory_fraction"]
        line = next(line for line in best.launch(engine).splitlines() if flag.split()[0] in line)
        assert line.split()[1] == f"{part:.2f}"


def test_the_smallest_layout_is_one_that_starts(rng) -> None:
    """SGLang's part of one H100 is less than the weights of Llama 3.1 70B in FP8: two hold it, whatever bytes alone would say."""
    work = users(4, 50, lengths(500, 0.1, 50, rng), lengths(100, 0.1, 50, rng))
    asked = SimulateRequest(model="llama-3.1-70b-fp8", on="h100-sxm", gpus=2, engine="sglang", poisson=2.0, requests=50)
    assert group_of(asked, work, 0).deployment.layout.gpus == 2
    model, system = catalogue.model("llama-3.1-70b-fp8"), catalogue.system("h100-sxm")
    assert sequences_held(model, system, Layout(), EngineStart(family="", tokens=8192.0), 600.0) > 10
    alone = SimulateRequest(model="llama-3.1-70b-fp8", on="h100-sxm", gpus=1, engine="sglang", poisson=2.0, requests=50)
    with pytest.raises(DoesNotFit):
        group_of(alone, work, 0)
