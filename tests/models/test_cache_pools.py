"""SGLang's pools: their sizes solve its own equations, and hold what they are made for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.api.memory import MemoryRequest, run_memory
from rackmath.io import catalogue
from rackmath.models.cache_pools import CachePools, cache_pools
from tests.conftest import tool

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


def test_compressed_entries_windows_and_states_of_a_published_start() -> None:
    """DeepSeek V4 Pro under SGLang 0.5.15: 13,735.04 B a token, 1.01 GiB of states, 9,217,792 tokens in 118.93 GiB."""
    pro = cache_pools(catalogue.model("deepseek-v4-pro"), whole, 64)
    assert pro is not None
    # 61 layers of windows, 30 of one entry for 4 tokens with an index, 31 of one for 128.
    assert pro.full == 30 * (584 + 132) / 4 + 31 * 584 / 128
    assert pro.windows == 61 * 584 + 30 * 8 / 128 * 4 * (512 + 128) * 4
    assert pro.reserved == 31 * 67 * 128 * 2 * 512 * 4
    assert pro.reserved / 2**30 == pytest.approx(1.01, abs=0.005)
    wider = replace(pro, window_ratio=0.15)
    assert wider.cell == pytest.approx(13735.04, abs=0.005)
    assert pro.window_ratio == 0.1
    starts = list(tool("memory").sglang(Path("tests/data/sglang_memory.csv")))
    assert len(starts) == 5
    for measured, tokens, windows, account in starts:
        # The log prints hundredths of a GiB: 390 tokens, and a page of 256.
        assert tokens == pytest.approx(measured["tokens"], abs=650)
        assert windows == pytest.approx(measured["window_tokens"], abs=360)
        assert tokens % 256 == 0
        assert account.cache.low <= measured["cache_gib"] * 2**30 <= account.cache.high


def test_drafts_have_a_part_of_compressed_caches_and_wider_rings() -> None:
    model = catalogue.model("deepseek-v4-pro")
    plain, draft_tokens = cache_pools(model, whole, 64), cache_pools(model, whole, 64, speculative=True)
    assert plain is not None
    assert draft_tokens is not None
    assert draft_tokens.full == pytest.approx(plain.full * 62 / 61)
    assert draft_tokens.windows == pytest.approx((plain.windows + 30 * 8 / 128 * 4 * 640 * 4) * 62 / 61)
    assert draft_tokens.reserved == 31 * (-(-(66 * 256 + 1) // 128)) * 128 * 4096
    usual = cache_pools(model, whole)
    assert usual is not None
    assert usual.reserved == 31 * (-(-(258 * 128 + 1) // 128)) * 128 * 4096


def test_what_a_start_says_of_compressed_pools() -> None:
    facts = run_memory(MemoryRequest(model="deepseek-v4-flash", on="h200-sxm", layout="tp8", engine="sglang")).facts
    assert facts["block_size"] == 256
    assert facts["pools"]["full_attention_tokens"] == 256 * facts["blocks"]
    assert facts["pools"]["window_tokens"] == int(0.1 * facts["pools"]["full_attention_tokens"])
    assert any("8-bit format" in line for line in facts["assumptions"])
    # It runs and samples 256 at once where nothing is said.
    asked = MemoryRequest(model="deepseek-v4-flash", on="h200-sxm", layout="tp8", engine="sglang", max_num_seqs=256)
    assert run_memory(asked).facts["activation_bytes"] == facts["activation_bytes"]
