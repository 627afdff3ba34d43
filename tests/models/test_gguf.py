"""Mixes of GGUF files against the sizes that llama.cpp prints and against rules of its quantiser, worked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.models.architecture import Architecture
from rackmath.models.counts import (
    main_format,
    tensor_bytes,
    total_params,
    weight_bytes,
    weight_format_of,
)
from rackmath.models.formats import GGUF_FILES, GGUF_TENSORS, weight_format
from rackmath.models.gguf import in_file
from rackmath.models.weights import layer_weights, model_weights

GIB = 2**30
# llama.cpp's tools/quantize/README.md: bits per weight of Llama 3.1 8B.
LLAMA = {
    "iq1_s": 2.0042, "iq1_m": 2.1460, "iq2_xxs": 2.3824, "iq2_xs": 2.5882, "iq2_s": 2.7403, "iq2_m": 2.9294,
    "iq3_xxs": 3.2548, "iq3_xs": 3.4977, "iq3_s": 3.6606, "iq3_m": 3.7628, "iq4_xs": 4.4597, "iq4_nl": 4.6818,
    "q2_k_s": 2.9697, "q2_k": 3.1593, "q3_k_s": 3.6429, "q3_k_l": 4.2979, "q4_k_s": 4.6672, "q4_k_m": 4.8944,
    "q5_k_s": 5.5704, "q5_k_m": 5.7036, "q6_k": 6.5633, "q8_0": 8.5008, "f16": 16.0005,
}  # fmt: skip
ROPE_FACTORS = 64
"""Elements of a table that Llama 3.1's files hold in 32 bits and no checkpoint does."""

# GiB as llama-bench prints them, of files that its own quantiser made; the first four are of one public list
# (Arc Pro B70, build 9739), the others of many.
SIZES = [
    ("llama-3.3-70b", "q2_k", 24.56), ("llama-3.3-70b", "iq3_xs", 27.29), ("qwen3-14b", "q4_k_m", 8.38),
    ("qwen3-32b", "q4_k_m", 18.40), ("llama-3.3-70b", "q4_k_m", 39.59), ("gemma-3-27b", "q4_k_m", 15.40),
    ("qwen3-30b-a3b", "q4_k_m", 17.28), ("gpt-oss-20b", "mxfp4_moe", 11.27), ("gpt-oss-120b", "mxfp4_moe", 59.02),
    ("llama-2-7b", "q4_0", 3.56), ("llama-2-7b", "q8_0", 6.67), ("mixtral-8x7b", "q4_k_m", 26.49),
    ("deepseek-v2-lite", "q4_k_m", 9.65), ("llama-4-scout", "q4_k_m", 60.86), ("qwen3-8b", "q4_k_m", 4.68),
    ("phi-4", "q4_k_m", 8.43),
]  # fmt: skip


def size(a: Architecture) -> float:
    return sum(weight_bytes(a).values())


def types(model: str | Architecture, file: str, name: str) -> list[str]:
    """Type of one tensor in each layer that has it."""
    a = in_file(catalogue.model(model) if isinstance(model, str) else model, file)
    return [
        weight_format_of(a, layer, weight).name
        for layer in a.layers
        for weight in layer_weights(layer, a.hidden)
        if weight.name == name
    ]


def outside(model: str, file: str) -> dict[str, str]:
    a = in_file(catalogue.model(model), file)
    return {weight.name: weight_format_of(a, None, weight).name for weight in model_weights(a)}


@pytest.mark.parametrize(("file", "bits"), LLAMA.items())
def test_bits_of_a_weight_are_llama_cpps_to_the_fourth_decimal(file: str, bits: float) -> None:
    a = in_file(catalogue.model("llama-3.1-8b"), file)
    stored = size(a) + 4 * ROPE_FACTORS
    assert 8 * stored / (total_params(a) + ROPE_FACTORS) == pytest.approx(bits, abs=5.1e-5)


@pytest.mark.parametrize(("model", "file", "gib"), SIZES)
def test_files_weigh_what_llama_bench_prints(model: str, file: str, gib: float) -> None:
    assert size(in_file(catalogue.model(model), file)) / GIB == pytest.approx(gib, abs=0.0051)


def test_values_and_second_matrices_are_wider_at_both_ends_and_every_third_between() -> None:
    # 32 layers: an eighth is four.
    wide = {*range(4), *range(28, 32), *range(6, 28, 3)}
    for name in ("self_attn.v_proj", "mlp.down_proj"):
        assert types("llama-3.1-8b", "q4_k_m", name) == ["q6_k" if i in wide else "q4_k" for i in range(32)]
    assert set(types("llama-3.1-8b", "q4_k_m", "self_attn.q_proj")) == {"q4_k"}


PARTS = {
    "v": "self_attn.v_proj", "k": "self_attn.k_proj", "q": "self_attn.q_proj", "o": "self_attn.o_proj",
    "g": "mlp.gate_proj", "u": "mlp.up_proj", "d": "mlp.down_proj",
}  # fmt: skip
# What is not of the main type in Llama 3.1 8B's first and its middle layer, by llama.cpp's rules.
LAYERS = {
    "q6_k": ("", ""), "q5_0": ("", ""), "q5_k_s": ("", ""), "q3_k_s": ("", ""),
    "q5_k_m": ("v q6_k, d q6_k", ""),
    "q4_k_m": ("v q6_k, d q6_k", ""),
    "q4_k_s": ("v q5_k, d q5_k", ""),
    "q3_k_l": ("v q5_k, o q5_k, d q5_k", "v q5_k, o q5_k, d q5_k"),
    "q3_k_m": ("v q5_k, o q4_k, d q5_k", "v q4_k, o q4_k, d q4_k"),
    "q2_k": ("v q4_k, o q3_k, d q3_k", "v q4_k, o q3_k, d q3_k"),
    "q2_k_s": ("v q4_k, d q4_k", "v q4_k"),
    "iq4_nl": ("v q5_k, d q5_k", "v q5_k"),
    "iq4_xs": ("v q5_k, d q5_k", "v q5_k"),
    "iq3_m": ("v q4_k, o q4_k, d q4_k", "v q4_k, o q4_k"),
    "iq3_s": ("v q4_k", "v q4_k"),
    "iq3_xs": ("v q4_k, k iq3_xxs, q iq3_xxs", "v q4_k, k iq3_xxs, q iq3_xxs, g iq3_xxs, u iq3_xxs"),
    "iq3_xxs": ("v q4_k, k iq2_s, q iq2_s, o iq3_s", "v q4_k, k iq2_s, q iq2_s, o iq3_s"),
    "iq2_m": ("v q4_k, o iq3_s, d iq3_s", "v q4_k, o iq3_s"),
    "iq2_s": ("v q4_k, o iq3_s, d iq3_s", "v q4_k, o iq3_s"),
    "iq2_xs": ("v q4_k, d q2_k", "v q4_k"),
    "iq2_xxs": ("v q4_k, d q2_k", "v q4_k"),
    "iq1_m": ("v q4_k, o iq2_xxs, d q2_k", "v q4_k, o iq2_xxs"),
    "iq1_s": ("v q4_k, o iq2_xxs, d q2_k", "v q4_k, o iq2_xxs"),
}  # fmt: skip
# Values of Gemma 3 4B, where two query heads share one, in the first and a middle layer.
FEW = {
    "q2_k": "q3_k q3_k", "q2_k_s": "q2_k q2_k", "iq3_xxs": "iq3_xxs iq3_xxs", "iq3_xs": "iq3_s iq3_s",
    "iq3_s": "iq3_s iq3_s", "iq3_m": "q4_k q4_k", "iq4_xs": "iq4_xs iq4_xs", "iq4_nl": "iq4_nl iq4_nl",
    "q3_k_m": "q5_k q4_k", "q3_k_l": "q5_k q5_k", "q4_k_s": "q5_k q4_k", "q4_k_m": "q6_k q4_k",
    "iq2_m": "iq3_s iq3_s", "iq2_s": "iq3_s iq3_s", "iq2_xs": "q2_k q2_k", "iq1_s": "q2_k q2_k",
}  # fmt: skip
# Values, keys and outputs of Mixtral in a middle layer: eight experts.
EIGHT = {
    "q6_k": "q8_0 q8_0 q6_k", "q5_k_m": "q8_0 q8_0 q5_k", "q4_k_m": "q8_0 q8_0 q5_k", "q3_k_l": "q8_0 q8_0 q3_k",
    "q3_k_m": "q8_0 q8_0 q5_k", "q3_k_s": "q8_0 q8_0 q5_k", "q2_k": "q8_0 q8_0 q5_k", "q2_k_s": "q8_0 q8_0 q2_k",
    "q4_0": "q8_0 q8_0 q4_0", "iq4_xs": "q8_0 q8_0 q5_k", "iq3_xxs": "q8_0 q8_0 q5_k", "iq3_xs": "q8_0 q8_0 q5_k",
    "iq2_m": "q4_k q4_k q5_k", "iq2_xxs": "q4_k q4_k q5_k", "iq1_s": "q4_k q4_k q5_k",
}  # fmt: skip


@pytest.mark.parametrize(("file", "layers"), LAYERS.items())
def test_each_tensor_of_a_layer_has_the_type_of_the_rules(file: str, layers: tuple[str, str]) -> None:
    for place, exceptions in zip((0, 16), layers, strict=True):
        changed = dict(entry.split() for entry in exceptions.split(", ") if entry)
        wanted = {part: changed.get(part, GGUF_FILES[file]) for part in PARTS}
        assert {part: types("llama-3.1-8b", file, name)[place] for part, name in PARTS.items()} == wanted, place


@pytest.mark.parametrize(("file", "values"), FEW.items())
def test_values_of_models_with_few_queries_per_key(file: str, values: str) -> None:
    held = types("gemma-3-4b", file, PARTS["v"])
    assert [held[0], held[16]] == values.split()


@pytest.mark.parametrize(("file", "held"), EIGHT.items())
def test_attention_of_models_with_eight_experts(file: str, held: str) -> None:
    assert [types("mixtral-8x7b", file, PARTS[part])[16] for part in "vko"] == held.split()


def test_second_matrices_of_eight_experts_are_wider_in_iq3_m_as_in_q4_k_m() -> None:
    downs = types("mixtral-8x7b", "iq3_m", "mlp.experts.down_proj")
    assert [t == "q4_k" for t in downs] == [
        t == "q6_k" for t in types("mixtral-8x7b", "q4_k_m", "mlp.experts.down_proj")
    ]


def test_a_mixture_of_many_experts_has_wide_values_at_two_bits_however_few_queries_share_a_key() -> None:
    # OLMoE: as many heads of keys as of queries, 64 experts.
    assert set(types("olmoe-1b-7b", "iq2_xxs", PARTS["v"])) == {"q4_k"}
    assert set(types("olmoe-1b-7b", "q2_k", PARTS["v"])) == {"q3_k"}


def test_a_70b_model_has_wider_values_in_every_file() -> None:
    assert set(types("llama-3.1-70b", "q3_k_s", "self_attn.v_proj")) == {"q5_k"}
    assert set(types("llama-3.1-70b", "q4_k_m", "self_attn.v_proj")) == {"q5_k", "q6_k"}
    assert set(types("llama-3.1-8b", "q3_k_s", "self_attn.v_proj")) == {"q3_k"}


def test_few_queries_per_key_keep_values_narrow() -> None:
    # Two query heads for each head of keys and values; Llama has four.
    assert set(types("gemma-3-4b", "q2_k", "self_attn.v_proj")) == {"q3_k"}
    assert set(types("llama-3.1-8b", "q2_k", "self_attn.v_proj")) == {"q4_k"}
    assert set(types("gemma-3-4b", "iq2_xxs", "self_attn.v_proj")) == {"q2_k"}


def test_eight_experts_widen_all_of_attention() -> None:
    assert set(types("mixtral-8x7b", "q4_k_m", "self_attn.v_proj")) == {"q8_0"}
    assert set(types("mixtral-8x7b", "q4_k_m", "self_attn.k_proj")) == {"q8_0"}
    assert set(types("mixtral-8x7b", "q4_k_m", "self_attn.o_proj")) == {"q5_k"}
    assert set(types("qwen3-30b-a3b", "q4_k_m", "self_attn.o_proj")) == {"q4_k"}


def test_queries_of_linear_attention_count_among_values() -> None:
    # llama.cpp's tests/snapshots/qwen3-coder-next.schema: the first four of all layers.
    fused = types("qwen3-next-80b-a3b", "q4_k_s", "linear_attn.in_proj_qkv")
    values = types("qwen3-next-80b-a3b", "q4_k_s", "self_attn.v_proj")
    assert (fused[:4], values[:2]) == (["q5_k", "q5_k", "q5_k", "q4_k"], ["q5_k", "q4_k"])
    assert set(types("qwen3-next-80b-a3b", "q2_k", "linear_attn.in_proj_qkv")) == {"q4_k"}


def test_one_matrix_of_queries_keys_and_values_has_the_type_of_values() -> None:
    # 40 layers: an eighth is five, then every third.
    wide = {*range(5), *range(35, 40), *range(7, 35, 3)}
    for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"):
        assert types("phi-4", "q4_k_m", name) == ["q6_k" if i in wide else "q4_k" for i in range(40)]
    assert set(types("mpt-7b", "q4_k_m", "self_attn.q_proj")) == {"q4_k", "q6_k"}
    assert set(types("qwen3-14b", "q4_k_m", "self_attn.q_proj")) == {"q4_k"}


def test_counts_of_two_bit_files_see_shared_experts_too() -> None:
    # 48 layers, two second matrices in each: the first six of 96 are wider.
    routed = types("qwen3-next-80b-a3b", "iq2_xxs", "mlp.experts.down_proj")
    shared = types("qwen3-next-80b-a3b", "iq2_xxs", "mlp.shared_experts.down_proj")
    assert routed[:4] == shared[:4] == ["q2_k", "q2_k", "q2_k", "iq2_xxs"]


def test_first_second_matrices_of_a_mixture_go_by_their_layer() -> None:
    routed = types("qwen3-next-80b-a3b", "q4_k_s", "mlp.experts.down_proj")
    assert routed == ["q5_k"] * 6 + ["q4_k"] * 42


def test_embeddings_that_are_the_head_have_its_type() -> None:
    assert outside("gemma-3-4b", "q4_k_m")["embed_tokens"] == "q6_k"
    assert outside("llama-3.1-8b", "q4_k_m") == {"embed_tokens": "q4_k", "lm_head": "q6_k", "norm": "f32"}
    assert outside("llama-3.1-8b", "iq2_xxs") == {"embed_tokens": "q2_k", "lm_head": "q5_k", "norm": "f32"}
    assert outside("llama-3.1-8b", "q8_0") == {"embed_tokens": "q8_0", "lm_head": "q8_0", "norm": "f32"}


def test_norms_and_routers_stay_in_32_bits() -> None:
    assert set(types("qwen3-30b-a3b", "q4_k_m", "mlp.gate")) == {"f32"}
    assert set(types("qwen3-30b-a3b", "q4_k_m", "norm")) == {"f32"}
    assert set(types("qwen3-30b-a3b", "f16", "mlp.gate")) == {"f32"}


def test_rows_that_blocks_do_not_divide_get_smaller_blocks() -> None:
    # gpt-oss: rows of 2,880 are 11.25 blocks of 256, and 90 of 32.
    assert set(types("gpt-oss-20b", "q4_k_s", "mlp.experts.up_proj")) == {"q5_0"}
    assert set(types("gpt-oss-20b", "q6_k", "mlp.experts.up_proj")) == {"q8_0"}
    assert set(types("gpt-oss-20b", "iq2_xxs", "mlp.experts.up_proj")) == {"iq4_nl"}
    assert outside("gpt-oss-20b", "q4_k_m")["lm_head"] == "q8_0"
    llama = catalogue.model("llama-3.1-8b")
    odd = replace(llama, hidden=4104, layers=llama.layers[:8])
    assert set(types(odd, "q4_k_s", "self_attn.q_proj")) == {"f16"}


def test_expansion_of_latents_is_the_mean_of_its_two_matrices() -> None:
    a = catalogue.model("deepseek-v3")
    # Keys: rows of 128, in Q5_0 for Q4_K's sake; values: rows of 512. As many of one as of the other.
    assert set(types(a, "q4_k_m", "self_attn.kv_b_proj")) == {"q5_0+q4_k"}
    layer = in_file(a, "q4_k_m").layers[5]
    weight = next(w for w in layer_weights(layer, a.hidden) if w.name == "self_attn.kv_b_proj")
    form = weight_format_of(in_file(a, "q4_k_m"), layer, weight)
    assert tensor_bytes(weight, form) == weight.elements * (5.5 + 4.5) / 2 / 8


def test_experts_in_mxfp4_leave_the_rest_in_8_bits() -> None:
    assert set(types("gpt-oss-20b", "mxfp4_moe", "mlp.experts.down_proj")) == {"mxfp4"}
    assert set(types("gpt-oss-20b", "mxfp4_moe", "self_attn.q_proj")) == {"q8_0"}
    assert set(types("llama-3.1-8b", "mxfp4_moe", "mlp.down_proj")) == {"q8_0"}


@pytest.mark.parametrize("file", GGUF_FILES)
@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen3-next-80b-a3b", "deepseek-v3", "gemma-4-e4b", "kimi-k3"])
def test_files_change_formats_and_nothing_else(model: str, file: str) -> None:
    a = catalogue.model(model)
    mixed = in_file(a, file)
    assert total_params(mixed) == total_params(a)
    assert [replace(layer, formats=()) for layer in mixed.layers] == [replace(layer, formats=()) for layer in a.layers]
    assert mixed.format == GGUF_TENSORS[GGUF_FILES[file]]
    if file != "iq3_xs":  # Where queries, keys and most first matrices are narrower than the main type.
        assert 8 * size(mixed) / total_params(a) >= GGUF_TENSORS[GGUF_FILES[file]].bits
    assert weight_format(file).bits == mixed.format.bits


def test_larger_files_of_a_kind_are_larger() -> None:
    for group in (
        ("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq2_m", "iq3_xxs", "iq3_xs", "iq3_s", "iq3_m", "iq4_xs"),
        ("q2_k_s", "q2_k", "q3_k_s", "q3_k_m", "q3_k_l", "q4_k_s", "q4_k_m", "q5_k_s", "q5_k_m", "q6_k", "q8_0", "f16"),
        ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0"),
    ):
        sizes = [size(in_file(catalogue.model("qwen3-32b"), file)) for file in group]
        assert sizes == sorted(sizes)
        assert len(set(sizes)) == len(sizes)


def test_most_weights_name_the_main_format() -> None:
    assert main_format(in_file(catalogue.model("llama-3.1-8b"), "q4_k_m")).name == "q4_k"
    assert main_format(catalogue.model("deepseek-v3")).name == "fp8"


def test_names_are_those_of_llama_cpp() -> None:
    assert weight_format("Q4_K") == weight_format("q4_k_m")
    with pytest.raises(InputError, match="q4_k_s"):
        weight_format("q4_k_xl")
