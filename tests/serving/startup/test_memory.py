"""Memory at the start: lines of published logs, invariants, and blocks against brute force."""

from __future__ import annotations

import csv
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.api.memory import MemoryRequest, run_memory
from rackmath.engine.layout import Layout
from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.models.cache_blocks import Blocks, CacheKind, cache_blocks
from rackmath.models.config import read_config
from rackmath.models.counts import weight_bytes
from rackmath.models.loaded import Multiples, loaded_weights
from rackmath.serving.launch import ENGINES
from rackmath.serving.startup.memory import EngineStart, placed, start
from rackmath.serving.startup.rules import NEWEST_VERSION, rules_of
from tests.conftest import SHARED, tool

GIB = 2**30
H100 = catalogue.system("h100-sxm").chip


def server(**changes: Any) -> EngineStart:
    return replace(EngineStart(family="vllm", version=0.19, fraction=0.95), **changes)


# Logs of vLLM 0.19 on H100, jgchn/llm-d-planner at 3c876c8a: model, ranks, weights, pass, outside, cache [GiB], tokens.
LOGS = [
    ("llama-3.1-8b", Layout(), 14.99, 1.89, 0.25, 58.11, 476_016),
    ("llama-3.1-8b", Layout(tensor=4), 3.77, 1.89, 2.13, 67.44, 2_209_792),
    ("qwen2.5-7b", Layout(), 14.25, 2.21, 0.24, 58.53, 1_096_000),
    ("qwen2.5-7b", Layout(tensor=2), 7.12, 2.21, 2.06, 63.84, 2_390_592),
    ("phi-4", Layout(), 27.39, 1.52, 0.25, 46.08, 241_568),
    ("gemma-2-27b", Layout(), 50.72, 3.66, 0.26, 20.59, 58_672),
    ("gemma-3-4b", Layout(), 8.58, 3.89, 0.25, 62.51, 468_144),
    ("qwen3-30b-a3b", Layout(), 56.88, 2.68, 0.27, 15.41, 168_288),
]


@pytest.mark.parametrize(("model", "layout", "weights", "peak", "outside", "cache", "tokens"), LOGS)
def test_lines_are_those_of_the_log(
    model: str, layout: Layout, weights: float, peak: float, outside: float, cache: float, tokens: int
) -> None:
    account = start(catalogue.model(model), H100, layout, server())
    assert account.weights.value / GIB == pytest.approx(weights, rel=0.002)
    assert account.activations.value / GIB == pytest.approx(peak, rel=0.03)
    assert account.outside.value / GIB == pytest.approx(outside, rel=0.1)
    assert account.cache.value / GIB == pytest.approx(cache, rel=0.002)
    assert account.cached_tokens(8192.0).value == pytest.approx(tokens, rel=0.002)
    for line, measured in ((account.weights, weights), (account.activations, peak), (account.cache, cache)):
        assert line.low <= measured * GIB <= line.high


OWN_STARTS = (
    ("llama-3.1-8b", 112.28, 919_824, 45.99),
    ("qwen3-30b-a3b", 68.18, 744_672, 37.23),
    ("gpt-oss-20b", 111.90, 2_676_951, 133.85),
)
"""Starts of vLLM 0.26 on an H200 with --max-model-len 20000 (tools/device_serving.py): GiB, tokens, requests at once."""


@pytest.mark.parametrize(("model", "cache", "tokens", "requests"), OWN_STARTS)
def test_later_versions_count_otherwise(model: str, cache: float, tokens: int, requests: float) -> None:
    """0.92 of the memory; graphs come off the cache of mixtures; windows are held by two passes in flight."""
    account = start(
        catalogue.model(model), catalogue.system("h200-sxm").chip, Layout(), EngineStart(family="vllm", version=0.26)
    )
    assert account.fraction == 0.92
    assert account.cache.value / GIB == pytest.approx(cache, rel=0.013)
    assert account.cached_tokens(20_000.0).value == pytest.approx(tokens, rel=0.013)
    assert account.concurrency(20_000.0).value == pytest.approx(requests, rel=0.013)
    low, high = account.cache.low / GIB, account.cache.high / GIB
    assert low <= cache <= high


@pytest.mark.parametrize(
    ("family", "version", "system", "width", "hidden"),
    [
        ("vllm", 0.19, "h100-sxm", 2944, 3072),
        ("vllm", 0.26, "h200-sxm", 2944, 2880),
        ("vllm", 0.26, "a100-sxm", 2944, 3072),
        ("vllm", 0.26, "b200-sxm", 3072, 3072),
        ("vllm", 0.26, "mi355x", 3072, 3072),
        ("sglang", None, "a100-sxm", 2880, 2880),
        ("sglang", None, "rtx-pro-6000", 2880, 2880),
        ("sglang", None, "b200-sxm", 3072, 3072),
        ("sglang", None, "mi355x", 2944, 2880),
        ("trtllm", None, "h100-sxm", 2944, 3072),
    ],
)
def test_each_engine_pads_experts_for_its_own_kernels(
    family: str, version: float | None, system: str, width: int, hidden: int
) -> None:
    """gpt-oss: experts 2,880 wide both ways."""
    model, chip = catalogue.model("gpt-oss-20b"), catalogue.system(system).chip
    loaded = placed(model, chip, Layout(), EngineStart(family=family, version=version)).loaded
    plain = loaded_weights(model, lambda kind, units: 1.0, slices=1.0, multiples=Multiples(), speculative=False)
    more = weight_bytes(model)["experts"] * (width * hidden / 2880**2 - 1)
    assert loaded.layers - plain.layers == pytest.approx(more, abs=24 * 2**20)


def test_gpt_oss_120b_starts_on_one_accelerator_of_80_gb() -> None:
    """As published of SGLang 0.5.3 on an A100 and of vLLM 0.10 on an H100: thousands of tokens of cache."""
    for family, system in (("sglang", "a100-sxm"), ("vllm", "h100-sxm")):
        chip = catalogue.system(system).chip
        account = start(catalogue.model("gpt-oss-120b"), chip, Layout(), EngineStart(family=family))
        assert account.cached_tokens(400.0).value > 10_000


@pytest.mark.parametrize(("family", "block"), [("vllm", 16), ("sglang", 1), ("trtllm", 32)])
def test_caches_are_cut_into_blocks_of_each_engine_s_default(family: str, block: int) -> None:
    """``block_size``, ``page_size`` and ``tokens_per_block``: Llama 3.1 8B stores 131,072 bytes for a token."""
    account = start(catalogue.model("llama-3.1-8b"), H100, Layout(), EngineStart(family=family))
    assert account.count[0] == account.cache.value // (131_072 * block)


def test_each_version_of_vllm_has_its_rules() -> None:
    chip = catalogue.system("h200-sxm").chip
    dense, mixture = catalogue.model("llama-3.1-8b"), catalogue.model("qwen3-30b-a3b")
    hybrid = catalogue.model("qwen3-next-80b-a3b")
    fractions = {v: rules_of("vllm", v, dense).fraction(chip, 1.0, 8192.0) for v in (0.19, 0.20, 0.33)}
    assert fractions == {0.19: 0.9, 0.20: 0.92, 0.33: 0.92}
    taken = {
        v: [rules_of("vllm", v, m).graphs_taken_off for m in (dense, mixture, hybrid)] for v in (0.2, 0.21, 0.25, 0.29)
    }
    assert taken == {0.2: [False] * 3, 0.21: [True] * 3, 0.25: [False, True, True], 0.29: [True] * 3}
    in_place = {v: [rules_of("vllm", v, m).in_place for m in (dense, mixture, hybrid)] for v in (0.24, 0.25, 0.29)}
    assert in_place == {0.24: [False] * 3, 0.25: [True, False, False], 0.29: [True] * 3}


def test_the_newest_version_is_that_of_the_launch_lines() -> None:
    assert f"vLLM {NEWEST_VERSION:g}.0," in ENGINES


def test_passes_in_flight_hold_what_left_the_window() -> None:
    """gpt-oss: 1,250 blocks of full layers, and of a window of 128 tokens 127 and two passes of 8,192, and one more."""
    chip, model = catalogue.system("h200-sxm").chip, catalogue.model("gpt-oss-20b")
    each = {}
    for version, stages in ((0.25, 1), (0.26, 1), (0.26, 2), (0.29, 2)):
        account = start(model, chip, Layout(pipeline=stages), EngineStart(family="vllm", version=version))
        each[version, stages] = account.blocks.per_sequence(20_000.0, account.in_flight)
    window = {passes: -(-(127 + 8192 * passes) // 16) + 1 for passes in (1, 2)}
    assert each[0.25, 1] == 1250 + window[1]
    assert each[0.26, 1] == each[0.26, 2] == 1250 + window[2] == 2283
    assert each[0.29, 2] == 1250 + 1250  # Three passes are longer than the request.


def test_a_draft_model_takes_all_of_its_weights() -> None:
    target, draft = catalogue.model("llama-3.1-70b"), catalogue.model("llama-3.1-8b")
    layout = Layout(tensor=4)
    plain, both, alone = (
        start(model, H100, layout, server(draft=beside)).weights.value
        for model, beside in ((target, None), (target, draft), (draft, None))
    )
    # As the same model does alone, but for its table of 131,072 positions of 128 in 16 bit, which both share.
    assert both - plain == alone - 131_072 * 128 * 2


def test_a_stage_gets_the_cache_of_the_last_one() -> None:
    """The log says 1,075,312 tokens at two stages, from the stage that samples."""
    account = start(catalogue.model("llama-3.1-8b"), H100, Layout(pipeline=2), server())
    assert account.cached_tokens(8192.0).value == pytest.approx(1_075_312, rel=0.002)


def test_all_published_starts() -> None:
    """Weights within 0.5 %, tokens within 1 % at the median and 3 % at the 90th percentile."""
    path = SHARED / "measured/vllm_memory_startup.csv"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    starts = tool("memory")
    errors: dict[str, list[float]] = {"weight_memory": [], "kv_cache_tokens": []}
    inside = []
    for case in starts.cases(path):
        said = starts.values(case)
        for metric, collected in errors.items():
            collected.append(abs(said[metric][0] / case.measured[metric] - 1))
        inside.append(said["kv_cache_tokens"][1] <= case.measured["kv_cache_tokens"] <= said["kv_cache_tokens"][2])
    with path.open(encoding="utf-8") as file:
        assert len(inside) == len(
            {(r["path"], r["notes"], r["precision"], r["input_len"]) for r in csv.DictReader(file)}
        )
    assert np.quantile(errors["weight_memory"], 0.9) < 0.005
    assert np.median(errors["kv_cache_tokens"]) < 0.001
    assert np.quantile(errors["kv_cache_tokens"], 0.9) < 0.01
    assert np.mean(inside) >= 0.9


@pytest.mark.parametrize("family", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize("name", ["llama-3.1-8b", "deepseek-v3", "qwen3-next-80b-a3b", "gpt-oss-120b"])
def test_lines_add_up_and_the_part_is_kept(family: str, name: str) -> None:
    model = catalogue.model(name)
    account = start(model, catalogue.system("b200-sxm").chip, Layout(tensor=8), EngineStart(family=family))
    assert account.weights.low <= account.weights.value <= account.weights.high
    assert account.cache.low <= account.cache.value <= account.cache.high
    held = account.weights.value + account.outside.value + account.cache.value
    assert held <= account.visible.value
    if family == "vllm":
        assert held + account.activations.value == pytest.approx(account.requested.value)
    blocks = account.blocks
    assert account.count[0] * blocks.bytes_per_block <= account.cache.value
    assert (account.count[0] + 1) * blocks.bytes_per_block > account.cache.value


@given(st.floats(0.3, 1.0), st.floats(0.3, 1.0))
def test_more_memory_is_never_less_cache(first: float, second: float) -> None:
    model = catalogue.model("llama-3.1-8b")
    low, high = (start(model, H100, Layout(), server(fraction=f)).cache for f in sorted((first, second)))
    assert low.value <= high.value
    assert low.low <= high.low


@given(st.floats(256, 65536), st.floats(1, 4096))
def test_larger_passes_take_from_the_cache(tokens: float, sequences: float) -> None:
    model = catalogue.model("qwen3-30b-a3b")
    small = start(model, H100, Layout(), server(tokens=tokens, sequences=sequences))
    large = start(model, H100, Layout(), server(tokens=2 * tokens, sequences=2 * sequences))
    assert large.activations.value > small.activations.value
    assert large.cache.value <= small.cache.value


def test_graphs_are_taken_off_from_021_on() -> None:
    model = catalogue.model("llama-3.1-8b")
    before, after = (start(model, H100, Layout(), server(version=v)) for v in (0.19, 0.21))
    assert before.cache.value - after.cache.value == pytest.approx(after.graphs.value)
    assert start(model, H100, Layout(), server(version=0.21, graphs=False)).cache.value == before.cache.value


def brute(blocks: Blocks, context: int, budget: int) -> int:
    """Blocks that a sequence holds at most while it is read in passes, token by token of the table."""
    total = 0
    for kind in blocks.groups:
        most = 0
        for read in range(0, context + 1, budget):
            end = min(read + budget, context)
            first = 0 if kind.window is None else max(0, read - kind.window + 1)
            most = max(most, len({token // blocks.block for token in range(first, end)}))
        total += 1 if kind.recurrent else most
    return total


@given(st.integers(1, 40), st.integers(1, 200), st.integers(1, 700), st.sampled_from([1, 16, 32]), st.booleans())
def test_blocks_of_a_sequence(passes: int, budget: int, window: int, block: int, recurrent: bool) -> None:
    """Never less than a sequence takes; at most two blocks more, for how a window may lie across them."""
    kinds = (
        CacheKind(layers=4, window=None, recurrent=False),
        CacheKind(layers=4, window=window, recurrent=False),
        *((CacheKind(layers=4, window=None, recurrent=True),) if recurrent else ()),
    )
    blocks = Blocks(block=block, page=100.0, group=4, groups=kinds)
    context = passes * budget
    taken, said = brute(blocks, context, budget), blocks.per_sequence(context, budget)
    assert taken <= said
    if window + budget <= context:
        assert said <= taken + 2


def test_layers_of_two_kinds_share_tables() -> None:
    """Gemma 3 4B: 29 sliding layers and 5 full ones are seven tables of five layers, one of them padded."""
    blocks = cache_blocks(catalogue.model("gemma-3-4b"), lambda parts: 1.0, 16)
    assert (blocks.group, len(blocks.groups)) == (5, 7)
    assert blocks.page == 16 * 2 * 4 * 256 * 2
    # 12 of each: one table of each kind.
    assert len(cache_blocks(catalogue.model("gpt-oss-20b"), lambda parts: 1.0, 16).groups) == 2


def test_states_make_blocks_longer() -> None:
    """vLLM says of Qwen3-Next at tp4: "Setting attention block size to 272 tokens"."""
    account = start(catalogue.model("qwen3-next-80b-a3b"), H100, Layout(tensor=4), server())
    assert isinstance(account.blocks, Blocks)
    assert account.blocks.block == 272


@pytest.mark.parametrize(
    ("scaling", "rows"),
    [
        ({}, 4096),
        ({"rope_type": "linear", "factor": 8.0}, 8 * 4096),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}, 8192),
        ({"rope_type": "llama3", "factor": 8.0}, 4096),
        ({"type": "longrope", "original_max_position_embeddings": 1024}, 5120),
        ({"type": "mrope", "mrope_section": [16, 24, 24]}, 4 * 4096),
    ],
)
def test_tables_of_positions(scaling: dict[str, Any], rows: int) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "vocab_size": 1000,
        "max_position_embeddings": 4096,
        "partial_rotary_factor": 0.5,
        "rope_scaling": scaling,
    }
    assert read_config(config).rotary_elements == rows * 64


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gpu_memory_utilization": 1.5}, "--gpu-memory-utilization"),
        ({"engine_version": 3}, "0.11"),
        ({"engine": "sglang", "engine_version": 0.19}, "not of sglang"),
        ({"mtp": True}, "--mtp"),
        ({"max_model_len": 0}, "--max-model-len"),
        ({"max_num_seqs": float("inf")}, "max-num-seqs"),
    ],
)
def test_bad_input_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        run_memory(MemoryRequest(model="llama-3.1-8b", on="h100-sxm", **changes))


def test_a_model_that_does_not_fit_says_so() -> None:
    facts = run_memory(MemoryRequest(model="llama-3.1-405b", on="h100-sxm", gpus=1)).facts
    assert not facts["fits"]
    assert facts["cache_tokens"] == 0
    assert facts["weights_bytes"] > 700e9


def test_the_fewest_that_hold_a_request() -> None:
    request = MemoryRequest(model="llama-3.1-70b", on="h100-sxm", max_model_len=16384)
    facts = run_memory(request).facts
    assert facts["gpus"] == 4
    assert facts["fits"]
    assert not run_memory(replace(request, gpus=2)).facts["fits"]
    assert run_memory(replace(request, gpus=2, max_model_len=8192)).facts["fits"]


def test_every_line_has_a_range() -> None:
    facts = run_memory(MemoryRequest(model="llama-3.1-8b", on="h100-sxm")).facts
    for name in ("weights_bytes", "activation_bytes", "graph_bytes", "other_bytes", "cache_bytes", "cache_tokens"):
        low, high = facts[name + "_range"]
        assert low <= facts[name] <= high
    assert sum(facts["weights"].values()) == pytest.approx(facts["weights_bytes"])


def test_engines_that_nobody_read_are_refused() -> None:
    with pytest.raises(InputError, match=r"llama\.cpp"):
        rules_of("llama.cpp", None, catalogue.model("llama-3.1-8b"))


def test_ranges_are_twice_as_wide_where_no_start_was_measured() -> None:
    """What is outside PyTorch: 0.08 below, a tenth and a tenth of a GiB above on Hopper under vLLM, twice elsewhere."""
    a100 = catalogue.system("a100-sxm").chip
    for chip, family, wide in ((H100, "vllm", 1.0), (a100, "vllm", 2.0), (H100, "trtllm", 2.0)):
        account = start(catalogue.model("llama-3.1-8b"), chip, Layout(), EngineStart(family=family))
        outside, graphs, weights = account.outside, account.graphs, account.weights
        assert weights.value - weights.low == pytest.approx(0.005 * weights.value * wide)
        assert weights.high - weights.value == pytest.approx(0.005 * weights.value * wide)
        assert outside.value - outside.low == pytest.approx(0.08 * outside.value * wide)
        assert outside.high - outside.value == pytest.approx((0.1 * outside.value + 0.1 * GIB) * wide)
        assert graphs.high - graphs.value == pytest.approx(0.35 * graphs.value * wide)


@pytest.mark.parametrize(
    ("on", "tokens"),
    [("rtx-4090", 2048), ("l40s", 4096), ("h100-sxm", 8192), ("mi210", 8192), ("b200", 16_384), ("mi300x", 16_384)],
)
def test_sglang_reads_as_much_in_a_pass_as_an_accelerator_has_room_for(on: str, tokens: int) -> None:
    """Of a card of 24 GB 8,192 tokens would leave less than a half to weights and cache."""
    facts = run_memory(MemoryRequest(model="llama-3.1-8b", on=on, engine="sglang")).facts
    assert facts["max_num_batched_tokens"] == tokens
    assert facts["fits"]


def test_a_pass_that_leaves_nothing_is_refused_by_its_own_name() -> None:
    """1.5 MB a token are more than an H100 has."""
    asked = MemoryRequest(model="llama-3.1-8b", on="h100-sxm", engine="sglang", max_num_batched_tokens=65_536)
    with pytest.raises(
        InputError,
        match="--max-num-batched-tokens = 65536: so many in a pass leave no memory to the default of --mem-fraction-static",
    ):
        run_memory(asked)
    assert run_memory(replace(asked, gpu_memory_utilization=0.8)).facts["fits"]
