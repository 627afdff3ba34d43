"""Counts of 98 published configs against what transformers allocates (../shared/model-configs/truth.csv)."""

from __future__ import annotations

import csv
import json
from functools import lru_cache

import pytest

from rackmath.models.architecture import Architecture
from rackmath.models.cache import kv_bytes_per_token, kv_window_bytes_per_token, state_elements
from rackmath.models.config import read_config
from rackmath.models.counts import active_params, embedding_params, encoder_params, mtp_params, total_params
from rackmath.models.formats import BF16
from rackmath.models.operator import Pass
from rackmath.models.operators import operators, total_flops
from tests.conftest import SHARED

FOLDER = SHARED / "model-configs"
TRUTH = FOLDER / "truth.csv"
pytestmark = pytest.mark.skipif(not TRUTH.exists(), reason="../shared/model-configs is not here")

ROWS = list(csv.DictReader(TRUTH.read_text(encoding="utf-8").splitlines())) if TRUTH.exists() else []

# Every row that differs, by how much, and why; docs/accuracy-of-counts.md prints this table.
DIFFERENCES: dict[tuple[str, str], tuple[float, str]] = {
    ("moonshotai__Kimi-K3.json", "total_params"): (
        -82_432,
        "the analytic truth counts 92 x 896 router biases, buffers elsewhere",
    ),
    ("moonshotai__Kimi-K3.json", "active_params"): (-82_432, "as its total"),
    ("deepseek-ai__DeepSeek-V4-Flash.json", "kv_window"): (
        -44_032,
        "transformers stores K and V of the window though K = V",
    ),
    ("deepseek-ai__DeepSeek-V4-Pro.json", "kv_window"): (
        -62_464,
        "transformers stores K and V of the window though K = V",
    ),
    ("nvidia__DeepSeek-V4-Flash-NVFP4.json", "kv_window"): (
        -44_032,
        "transformers stores K and V of the window though K = V",
    ),
    ("meta-llama__Llama-4-Scout-17B-16E-Instruct.json", "vision"): (
        -455_178_240,
        "trimmed copy: truth is class defaults",
    ),
    ("meta-llama__Llama-4-Maverick-17B-128E-Instruct.json", "vision"): (-455_178_240, "trimmed copy: class defaults"),
    ("google__gemma-4-E4B.json", "flops"): (
        3_318_571_008,
        "the counter saw most of the 18 cache-sharing layers for one token only",
    ),
    ("google__gemma-4-E4B.json", "attention"): (172_032, "as its flops: 15 x 8,192 and 3 x 16,384 of sharing layers"),
}


@lru_cache(maxsize=128)
def read(file: str) -> Architecture:
    path = FOLDER / file
    side = path.with_suffix(".hf_quant_config.json")
    sidecar = json.loads(side.read_text()) if side.exists() else None
    return read_config(json.loads(path.read_text()), path.stem, sidecar)


def expected(file: str, column: str, value: str) -> float:
    return float(value) + DIFFERENCES.get((file, column), (0.0, ""))[0]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r["file"])
def test_parameters_equal_what_the_model_class_allocates(row: dict[str, str]) -> None:
    model = read(row["file"])
    assert total_params(model) == expected(row["file"], "total_params", row["total_params"])
    assert active_params(model) == expected(row["file"], "active_params", row["active_params"])
    assert embedding_params(model) == float(row["embedding_params"])
    if row["mtp_params"]:
        assert mtp_params(model) == float(row["mtp_params"])


@pytest.mark.parametrize("row", [r for r in ROWS if r["vision_audio_params"]], ids=lambda r: r["file"])
def test_vision_towers_equal_what_the_model_class_allocates(row: dict[str, str]) -> None:
    model = read(row["file"])
    assert encoder_params(model) == expected(row["file"], "vision", row["vision_audio_params"])
    assert model.encoder_exact == ((row["file"], "vision") not in DIFFERENCES)


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r["file"])
def test_cache_equals_the_shapes_in_a_running_model(row: dict[str, str]) -> None:
    model = read(row["file"])
    assert kv_bytes_per_token(model, BF16) == float(row["kv_bytes_per_token_bf16"])
    if row["kv_window_bytes_per_token_bf16"]:
        wanted = expected(row["file"], "kv_window", row["kv_window_bytes_per_token_bf16"])
        assert kv_window_bytes_per_token(model, BF16) == wanted
    if row["state_elems_total"]:
        assert state_elements(model) == float(row["state_elems_total"])


@pytest.mark.parametrize(
    "row", [r for r in ROWS if r["hf_flops_per_token_excl_routed_and_head"]], ids=lambda r: r["file"]
)
def test_linear_flops_equal_the_flop_counter(row: dict[str, str]) -> None:
    work = Pass(phase="prefill", sequences=1.0, new_tokens=1.0, context=1.0)
    flops = total_flops(operators(read(row["file"]), work), but=("attention", "experts", "head", "recurrence"))
    products = [o for o in operators(read(row["file"]), work) if o.role == "attention" and o.name != "attention"]
    flops += sum(o.count * o.flops for o in products)
    assert flops == expected(row["file"], "flops", row["hf_flops_per_token_excl_routed_and_head"])


@pytest.mark.parametrize("row", [r for r in ROWS if r["hf_attn_flops_T2_coeff"]], ids=lambda r: r["file"])
def test_attention_flops_equal_the_flop_counter(row: dict[str, str]) -> None:
    # The counter computes the full square; one query at context 1 costs its coefficient.
    work = Pass(phase="prefill", sequences=1.0, new_tokens=1.0, context=1.0)
    cores = [o for o in operators(read(row["file"]), work) if o.name == "attention"]
    assert sum(o.count * o.flops for o in cores) == expected(row["file"], "attention", row["hf_attn_flops_T2_coeff"])


def test_no_difference_is_listed_that_is_none() -> None:
    files = {row["file"] for row in ROWS}
    assert {file for file, _ in DIFFERENCES} <= files


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r["file"])
def test_every_field_of_a_published_config_is_understood(row: dict[str, str]) -> None:
    # Nemotron-3-Nano-4B has no experts to use these fields; Kimi-K3's residual attention is left out and said so.
    left_out = {
        "nvidia__NVIDIA-Nemotron-3-Nano-4B-BF16.json": {
            "moe_shared_expert_intermediate_size",
            "n_routed_experts",
            "n_shared_experts",
            "num_experts_per_tok",
        },
        "moonshotai__Kimi-K3.json": {"attn_res_block_size"},
    }
    assert set(read(row["file"]).not_understood) == left_out.get(row["file"], set())
