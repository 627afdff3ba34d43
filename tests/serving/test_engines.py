"""What frameworks and engines do since when, as their release notes say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rackmath.engine import Layout
from rackmath.engine.constants import Constants
from rackmath.io import catalogue, constants_file
from rackmath.models.formats import weight_format
from rackmath.models.requantise import requantise
from rackmath.serving.engines import (
    default_max_num_seqs,
    engine_layout,
    engine_layouts,
    fuses_experts,
    launched_max_num_seqs,
    layout_notes,
    micro_batch_sequences,
)


@pytest.mark.parametrize(
    ("model", "form", "system", "framework", "year", "fused"),
    [
        ("deepseek-v3", "fp8", "gb300-nvl72", "megatron", 2026.5, True),
        # The container of April 2026 had no such kernel, and it is one of Blackwell's.
        ("deepseek-v3", "fp8", "gb300-nvl72", "megatron", 2026.3, False),
        ("deepseek-v3", "fp8", "h100-sxm", "megatron", 2026.5, False),
        ("deepseek-v3", "fp8", "gb300-nvl72", "torchtitan", 2026.5, False),
        ("qwen3-30b-a3b", "bf16", "gb300-nvl72", "megatron", 2026.5, False),
        ("qwen3-30b-a3b", "fp8", "gb300-nvl72", "megatron", 2026.5, True),
        # Experts without a gate, and a model without experts.
        ("nemotron-3-nano", "fp8", "gb300-nvl72", "megatron", 2026.5, False),
        ("llama-3.1-8b", "fp8", "gb300-nvl72", "megatron", 2026.5, False),
    ],
)
def test_megatron_trains_gated_experts_in_8_bits_at_once_on_blackwell(
    model: str, form: str, system: str, framework: str, year: float, fused: bool
) -> None:
    architecture = requantise(catalogue.model(model), weights=weight_format(form))
    assert fuses_experts(framework, year, catalogue.system(system).chip, architecture) is fused
    engine = constants_file.framework_of(architecture, catalogue.system(system), framework, year)
    assert engine.fused_experts is fused


@pytest.mark.parametrize(
    ("family", "system", "runs"),
    [
        ("trtllm", "mi300x", False),
        ("trtllm", "h100-sxm", True),
        ("llama.cpp", "tpu-v6e", False),
        ("llama.cpp", "mi300x", True),
        ("vllm", "tpu-v6e", True),
    ],
)
def test_an_engine_that_does_not_run_on_a_chip_is_named(family: str, system: str, runs: bool) -> None:
    chip_system = catalogue.system(system)
    notes = constants_file.unseen_notes(
        chip_system, constants_file.engine_of(chip_system, family, 2026.5), "time per token"
    )
    assert any("does not run on accelerators of" in note for note in notes) is not runs


def test_experts_that_are_trained_at_once_take_what_their_products_take() -> None:
    known = Constants(base={"grouped": 1.5}, moves={"grouped": {"megatron": 0.5}})
    engine = constants_file.framework_of(
        requantise(catalogue.model("deepseek-v3"), weights=weight_format("fp8")),
        catalogue.system("gb300-nvl72"),
        "megatron",
        2026.5,
    )
    assert known.value("grouped", engine) == 1.0
    assert known.value("grouped", replace(engine, fused_experts=False)) > 1.5


@pytest.mark.parametrize(
    ("family", "system", "seats"),
    [
        ("vllm", "h100-sxm", 1024), ("vllm", "a100-sxm", 256), ("vllm", "l4", 256), ("trtllm", "h100-sxm", 2048),
        ("sglang", "h100-sxm", float("inf")),
    ],
)  # fmt: skip
def test_sequences_at_once_where_nothing_is_said(family: str, system: str, seats: float) -> None:
    assert default_max_num_seqs(family, catalogue.system(system).chip) == seats


@pytest.mark.parametrize(("family", "each"), [("vllm", 64), ("sglang", 64), ("llama.cpp", 64), ("trtllm", 256)])
def test_micro_batches_of_a_pipeline_share_the_sequences_of_engines_that_count_all(family: str, each: int) -> None:
    assert micro_batch_sequences(family, 256, 4) == each
    assert micro_batch_sequences(family, 256, 1) == 256
    assert micro_batch_sequences(family, 1, 4) == 1


@pytest.mark.parametrize(
    ("family", "layout", "launched"),
    [
        ("vllm", Layout(pipeline=2), 181), ("llama.cpp", Layout(pipeline=2), 181),
        ("sglang", Layout(tensor=2, pipeline=2, data=2), 91), ("trtllm", Layout(pipeline=2), 91),
        ("trtllm", Layout(tensor=2, pipeline=2, data=2), 46), ("vllm", Layout(expert=8, data=8), 23),
    ],
)  # fmt: skip
def test_engines_are_launched_with_what_a_group_decodes(family: str, layout: Layout, launched: int) -> None:
    assert launched_max_num_seqs(family, 181.0, layout) == launched
    stages = int(layout.pipeline)
    groups = int(layout.data) * stages
    assert 181 - groups <= micro_batch_sequences(family, launched, stages) * groups <= 181 + groups


def test_tensorrt_llm_has_attention_data_parallel_on_all_ranks_or_none() -> None:
    """Groups of several ranks that share experts are no layout of its; groups with all experts are servers."""
    model = catalogue.model("qwen3-30b-a3b")
    texts = {family: {x.text() for x in engine_layouts(model, 8, family)} for family in ("trtllm", "vllm")}
    left_out = {"tp2,ep8,pp1,dp4", "tp4,ep8,pp1,dp2", "tp2,ep4,pp2,dp2"}
    assert texts["vllm"] - texts["trtllm"] == left_out
    assert {"tp1,ep8,pp1,dp8", "tp8,ep8,pp1,dp1", "tp4,ep4,pp1,dp2"} <= texts["trtllm"]
    for text in left_out:
        layout = engine_layout(text, 8, model, "trtllm")
        assert "all ranks" in layout_notes(layout, "trtllm")[0]
        assert not layout_notes(layout, "vllm")
