"""A grid that no default may leave: every chip, engine and year stays near its kernels and never slows with the years."""

from __future__ import annotations

import numpy as np
import pytest

from rackmath.engine import Layout, Losses, estimate
from rackmath.engine.layout import expert_count
from rackmath.io import catalogue, constants_file, kernel_files
from rackmath.serving.engines import before_graphs

MODELS = ("llama-3.1-8b", "llama-3.1-70b", "gpt-oss-120b", "deepseek-v3")
FAMILIES = ("vllm", "sglang", "trtllm")
YEARS = (2023.0, 2024.0, 2025.0, 2026.0, 2027.0)
BATCHES = np.array([1.0, 4.0, 16.0, 64.0, 256.0])
HOST = 3e-3 + 35e-6 * BATCHES
"""Most that a host takes of a step. [s]"""
DATA_CENTRE = (
    "a100-sxm", "h100-sxm", "h200-sxm", "b200-sxm", "gb200-nvl72", "mi300x",
    "mi355x",
)  # fmt: skip


def step(model: str, name: str, family: str, year: float, **changes):
    """Decode steps over batches, and what their kernels alone take. [s]"""
    a, system = catalogue.model(model), catalogue.system(name)
    wide = min(8, system.domain) if model != "llama-3.1-8b" else 1
    layout = Layout(tensor=wide, expert=1 if not expert_count(a) else wide)
    engine = constants_file.engine_of(system, family, year)
    kernels = Losses(kernels=kernel_files.kernels(system.chip, family))
    args = {"batch": BATCHES, "context": 2000, **changes}
    return (
        np.asarray(
            estimate(a, system, layout, losses=constants_file.losses_of(system, engine, "time per token"), **args).time
        ),
        np.asarray(estimate(a, system, layout, losses=kernels, **args).time),
    )


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", catalogue.system_names())
def test_steps_stay_near_their_kernels_and_never_slow_with_the_years(name: str, family: str) -> None:
    for model in MODELS:
        times = []
        for year in YEARS:
            whole, kernels = step(model, name, family, year)
            times.append(whole)
            if not before_graphs(family, year):
                # Published SGLang services ask up to 3 ms a step and 35 us a sequence of the host, above all kernels.
                # Chips without timings of all kernels take what services say of the others.
                generation = catalogue.system(name).chip.generation
                timed = "attention.decode" in kernel_files.timed_generations().get(generation, frozenset())
                low, high = (0.7, 2.2) if timed else (0.3, 4.5)
                assert np.all(whole / kernels > low), (model, year, whole / kernels)
                assert np.all(whole < high * kernels + HOST), (model, year, whole / kernels)
        assert np.all(np.diff(times, axis=0) <= 1e-12), model


@pytest.mark.parametrize("name", DATA_CENTRE)
def test_prompts_reach_what_kernels_reach(name: str) -> None:
    a, system = catalogue.model("llama-3.1-8b"), catalogue.system(name)
    for family in FAMILIES:
        if family == "trtllm" and system.chip.generation.startswith("cdna"):
            continue  # TensorRT-LLM runs on NVIDIA's chips alone.
        engine = constants_file.engine_of(system, family, 2026.5)
        for length in (1024, 8192, 131_072):
            e = estimate(
                a,
                system,
                Layout(),
                batch=1,
                context=length,
                phase="prefill",
                losses=constants_file.losses_of(system, engine, "prompt pass"),
            )
            assert 0.2 < float(e.time_ideal) / float(e.time) < 0.95, (family, length)
