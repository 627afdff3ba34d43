"""Sequences that memory holds: counts from blocks, published runs that were full, and what launch lines ask for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.engine.capacity import largest_batch
from rackmath.engine.layout import Layout
from rackmath.io import catalogue
from rackmath.serving.startup.held import held_as_launched, launched_parts, sequences_held
from rackmath.serving.startup.memory import EngineStart, start
from rackmath.serving.startup.rules import launch_fraction, memory_note

H100, A100 = catalogue.system("h100-sxm"), catalogue.system("a100-sxm")
LLAMA = catalogue.model("llama-3.1-8b")
VLLM = EngineStart(family="vllm", fraction=0.95)


def test_requests_take_whole_blocks_of_what_the_log_says() -> None:
    """A log of vLLM 0.19 has 476,016 tokens: 29,751 blocks of 16, 63 of which hold a request of 1,000."""
    assert sequences_held(LLAMA, H100, Layout(), VLLM, 1000.0) == pytest.approx(29_751 // 63, abs=1)
    # A request of 1,008 fills the same 63 blocks, one of 1,009 needs another.
    assert sequences_held(LLAMA, H100, Layout(), VLLM, 1008.0) == sequences_held(LLAMA, H100, Layout(), VLLM, 1000.0)
    assert sequences_held(LLAMA, H100, Layout(), VLLM, 1009.0) < sequences_held(LLAMA, H100, Layout(), VLLM, 1008.0)


def test_windows_hold_what_a_decode_step_needs() -> None:
    """gpt-oss has as many layers of 128 tokens as of all: 4,096 tokens are 256 blocks of the ones and 9 of the others."""
    model = catalogue.model("gpt-oss-20b")
    blocks = start(model, H100.chip, Layout(), VLLM).count[0]
    assert sequences_held(model, H100, Layout(), VLLM, 4096.0) == blocks // (256 + 9)


def test_a_published_service_whose_memory_was_full() -> None:
    """gpustack r06871, gpt-oss-120b on one A100: 2,276 tokens a second at 0.087 s each are 197 sequences in the mean.

    The run ends with few of its thousand requests, so that more ran at its height.
    """
    model = catalogue.model("gpt-oss-120b")
    assert 0.8 < 2276 * 0.0867 / sequences_held(model, A100, Layout(), EngineStart(family="vllm"), 411.0) < 1


def test_groups_hold_as_much_each() -> None:
    one = sequences_held(LLAMA, H100, Layout(), VLLM, 3000.0)
    assert sequences_held(LLAMA, H100, Layout(data=4), VLLM, 3000.0) == 4 * one


def test_nothing_is_held_where_weights_leave_nothing() -> None:
    """SGLang's part of an H100 is less than the 141 GB of Llama 3.1 70B."""
    assert sequences_held(catalogue.model("llama-3.1-70b"), H100, Layout(), EngineStart(family="sglang"), 400.0) == 0


def test_engines_without_rules_and_the_bound_are_counted_by_bytes() -> None:
    for family in ("llama.cpp", ""):
        server = EngineStart(family=family, tokens=2048.0)
        bytes_alone = largest_batch(LLAMA, H100, Layout(), context=3000.0, tokens=2048.0)
        assert sequences_held(LLAMA, H100, Layout(), server, 3000.0) == bytes_alone
        assert held_as_launched(LLAMA, H100, [Layout()], [2048.0], server, 3000.0) == bytes_alone
    assert memory_note("llama.cpp") == []
    assert memory_note("vllm") == ["memory by the rules of vllm at its start: rackmath memory --engine vllm"]


def test_a_launch_line_s_part_is_of_what_its_engine_takes_it_of() -> None:
    """Weights of half the memory, passes of a twentieth, 0.95 to be used."""
    assert launch_fraction("vllm", 0.95, 0.5, 0.05) == 0.95
    assert launch_fraction("sglang", 0.95, 0.5, 0.033) == 0.91
    assert launch_fraction("trtllm", 0.95, 0.5, 0.05) == 0.88
    assert launch_fraction("trtllm", 0.95, 0.94, 0.05) == 0.01


@pytest.mark.parametrize("family", ["vllm", "sglang", "trtllm"])
def test_plans_hold_what_their_launch_lines_start(family: str) -> None:
    # Replicas that differ in their data-parallel groups alone are counted once.
    layouts = [Layout(), Layout(tensor=2), Layout(data=3), Layout(tensor=2, data=4), Layout(pipeline=2, data=2)]
    server, budgets = EngineStart(family=family), [2048.0, 16_384.0]
    held = held_as_launched(LLAMA, H100, layouts, budgets, server, 5000.0)
    parts = launched_parts(LLAMA, H100, layouts, budgets, family)
    for i, layout in enumerate(layouts):
        for k, tokens in enumerate(budgets):
            begun = replace(server, fraction=float(parts[i, k]), tokens=tokens)
            assert held[i, k] == sequences_held(LLAMA, H100, layout, begun, 5000.0) > 0
    assert np.all(held[1] > 2 * held[0])
    assert np.all(held[:, 0] >= held[:, 1])


@settings(max_examples=60)
@given(
    family=st.sampled_from(["vllm", "sglang", "trtllm"]),
    fraction=st.floats(0.3, 0.95),
    context=st.floats(1, 1e5),
    more=st.floats(1.0, 3.0),
)
def test_more_memory_holds_more_and_longer_requests_fewer(
    family: str, fraction: float, context: float, more: float
) -> None:
    server = EngineStart(family=family, fraction=fraction)
    held = sequences_held(LLAMA, H100, Layout(), server, context)
    assert sequences_held(LLAMA, H100, Layout(), replace(server, fraction=min(fraction * more, 0.99)), context) >= held
    assert sequences_held(LLAMA, H100, Layout(), server, context * more) <= held
