"""SGLang's pools: their sizes solve its own equations, and hold what they are made for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.api.memory import MemoryRequest, run_memory
from rackmath.io import catalogue
from rackmath.models.cache_pools import CachePools, cache_pools

MEMORY = 80e9


def whole(parts: int | None) -> float:
    return 1.0


def pools(name: str) -> CachePools:
    made = cache_pools(catalogue.model(name), whole)
    assert made is not None
    return made


def test_windows_have_a_pool_of_their_own_by_class() -> None:
    """gpt-oss: 18 layers of each kind, 8 heads of 64, keys and values in 16 bit."""
    oss = pools("gpt-oss-20b")
    per_layer = 2 * 8 * 64 * 2
    assert (oss.full, oss.windows, oss.window, oss.states) == (12 * per_layer, 12 * per_layer, 128, 0)
    # Both pools fill the memory, and one has 0.8 of the tokens of the other.
    tokens = oss.count(MEMORY)
    assert tokens * oss.full + 0.8 * tokens * oss.windows == pytest.approx(MEMORY, rel=1e-6)
    # Gemma 3 is not on SGLang's list: all its layers keep all tokens.
    gemma = pools("gemma-3-27b")
    assert (gemma.full, gemma.windows) == (62 * 2 * 16 * 128 * 2, 0)
    assert pools("llama-4-scout").windows == 36 * 2 * 8 * 128 * 2


def test_states_have_nine_tenths_of_what_tokens_have() -> None:
    nemotron = pools("nemotron-3-nano")
    tokens = nemotron.count(MEMORY)
    left = MEMORY - tokens * nemotron.cell
    assert left == pytest.approx(0.9 * tokens * nemotron.cell, rel=1e-6)
    states = left / nemotron.states
    # Short requests are bounded by states, three of each; long ones by tokens.
    assert tokens / nemotron.per_sequence(10, 0) == pytest.approx(states / 3, rel=1e-6)
    assert nemotron.per_sequence(1e6, 8192) == 1e6


@given(
    full=st.floats(1, 1e6), windows=st.floats(0, 1e6), window=st.integers(1, 10_000), states=st.floats(0, 1e9),
    context=st.floats(1, 1e6), budget=st.floats(0, 10_000),
)  # fmt: skip
def test_as_many_sequences_as_are_said_fit_into_every_pool(
    full: float, windows: float, window: int, states: float, context: float, budget: float
) -> None:
    made = CachePools(full=full, windows=windows, window=window, states=states)
    tokens = made.count(MEMORY)
    sequences = tokens / made.per_sequence(context, budget)
    assert sequences * context <= tokens * (1 + 1e-9)
    if windows:
        assert sequences * min(context, window + budget) <= 0.8 * tokens * (1 + 1e-9)
    if states:
        assert sequences * 3 * states <= 0.9 * tokens * made.cell * (1 + 1e-9)
    assert made.count(2 * MEMORY) >= tokens


def test_a_start_says_its_pools() -> None:
    facts = run_memory(MemoryRequest(model="gpt-oss-120b", on="h100-sxm", layout="tp2", engine="sglang")).facts
    assert facts["pools"]["window_tokens"] == int(0.8 * facts["pools"]["full_attention_tokens"])
    assert facts["cache_tokens"] == facts["pools"]["full_attention_tokens"]
    # Of the same memory vLLM's tables hold fewer tokens: all of them in every layer.
    one_pool = run_memory(
        MemoryRequest(
            model=replace(catalogue.model("gpt-oss-120b"), model_type=""), on="h100-sxm", layout="tp2", engine="sglang"
        )
    ).facts
    assert facts["cache_tokens"] == pytest.approx(one_pool["cache_tokens"] * 2 / 1.8, rel=1e-4)
    assert run_memory(MemoryRequest(model="gpt-oss-120b", on="h100-sxm", layout="tp2")).facts["pools"] is None
    compressed = run_memory(
        MemoryRequest(model="deepseek-v4-flash", on="h200-sxm", layout="tp8", engine="sglang")
    ).facts
    assert compressed["pools"] is None
    assert any("compressed caches are not modelled" in line for line in compressed["assumptions"])
