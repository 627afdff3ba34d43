"""Speed of the search and of sweeps. Run: pytest benchmarks -m benchmark."""

from __future__ import annotations

import numpy as np
import pytest

from rackmath.io import catalogue, constants_file
from rackmath.serving.plan import plan, space_of
from rackmath.serving.workload import Limits, PlanWorkload
from rackmath.sweeps import grids, plans
from rackmath.sweeps.chunks import chunk_of, computed

pytestmark = pytest.mark.benchmark


def test_deepseek_on_32_h200(benchmark) -> None:
    model, system = catalogue.model("deepseek-v3"), catalogue.system("h200-sxm")
    engine = constants_file.engine_of(system, "sglang", constants_file.NOW)
    result = benchmark(
        plan,
        system,
        PlanWorkload(input=4000, output=1000),
        Limits(time_to_first_token=2.0, time_per_output_token=0.05),
        space_of(model, system, 32),
        constants_file.losses_of(system, engine, "time per token"),
        constants_file.scheduling_of(engine),
    )
    assert result.search.evaluated >= 200_000


def test_a_row_of_a_comparison(benchmark) -> None:
    case = next(
        plans.cases(
            {"gpus": 8, "input": 2000.0, "output": 500.0, "weights": "fp8"},
            {"model": ["qwen3-32b"], "on": ["h100-sxm"]},
        )
    )
    assert benchmark(plans.row, case)["usd_per_million_at_speed"] > 0


def test_a_chunk_of_a_grid(benchmark) -> None:
    case = {
        "model": "deepseek-v3",
        "on": "gb200-nvl72",
        "gpus": None,
        "layout": "ep72,dp72",
        "phase": "decode",
        "weights": None,
        "kv": None,
        "engine": "vllm",
        "year": constants_file.NOW,
        "ideal": False,
    }
    axes = {
        "batch": list(np.geomspace(1, 8192, 512)),
        "context": list(np.geomspace(128, 131_072, 512)),
        "cached_tokens": [0.0],
        "draft_tokens": [0.0],
    }
    chunk = chunk_of("grid", case=case, axes=axes, start=0, stop=grids.SLICE)
    assert len(benchmark(computed, chunk)) == grids.SLICE
