"""Bytes of tensors at every format, against sums by hand and published checkpoint sizes."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files

import pytest

from rackmath.errors import InputError, NotUnderstood
from rackmath.io import catalogue
from rackmath.models.architecture import Weight
from rackmath.models.config import read_config
from rackmath.models.counts import (
    elements_by_format,
    multiplied_params,
    params_by_role,
    tensor_bytes,
    total_params,
    weight_bytes,
)
from rackmath.models.formats import FORMATS, cache_format, weight_format
from rackmath.models.requantise import requantise
from tests.conftest import SHARED


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("bf16", 16),
        ("fp8", 8 + 32 / 128**2),
        ("mxfp4", 4.25),
        ("nvfp4", 4.5),
        ("int4", 4.5),
        ("awq", 4.15625),
        ("mxfp8", 8.25),
        ("nf4", 4.126953125),
    ],
)
def test_bits_per_weight_match_the_formats_definition(name: str, bits: float) -> None:
    assert weight_format(name).bytes_per_element * 8 == pytest.approx(bits, rel=1e-12)


def test_every_scale_of_an_odd_matrix_is_counted() -> None:
    # 200 x 130 in blocks of 128 x 128: 2 x 2 scales of four bytes.
    assert weight_format("fp8").matrix_bytes(200, 130) == 200 * 130 + 4 * 4
    # One byte per 16 elements of each row, and four for the tensor.
    assert weight_format("nvfp4").matrix_bytes(10, 33) == 10 * 33 / 2 + 10 * 3 + 4
    assert weight_format("int8").matrix_bytes(10, 33, copies=3) == 3 * (330 + 10 * 4)
    # One scale for each row, of however many columns.
    assert weight_format("fp8-channel").matrix_bytes(10, 33) == 330 + 10 * 4


def test_tensors_have_their_scales_and_vectors_none() -> None:
    form = weight_format("fp8")
    assert tensor_bytes(Weight(name="a", role="attention", rows=200, columns=130), form) == 200 * 130 + 4 * 4
    assert tensor_bytes(Weight(name="a", role="norm", rows=200), form) == 200
    # What is known by its total alone has scales in proportion.
    assert tensor_bytes(Weight(name="pool", role="feed_forward", rows=128**2, columns=1), form) == 128**2 + 4


def test_formats_scale_weights_or_look_them_up() -> None:
    assert [name for name, form in FORMATS.items() if form.codebook] == [
        "iq3_m", "iq3_s", "iq3_xs", "iq3_xxs", "iq2_m", "iq2_s", "iq2_xs", "iq2_xxs", "iq1_m", "iq1_s",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["gemma-3-4b", "qwen3-30b-a3b", "gpt-oss-20b"])
def test_parts_of_a_model_are_the_whole(name: str) -> None:
    a = catalogue.model(name)
    total, held = total_params(a), elements_by_format(a)
    assert sum(params_by_role(a).values()) == total
    assert sum(n for formats in held.values() for n in formats.values()) == total
    assert {role: sum(formats.values()) for role, formats in held.items()} == params_by_role(a)
    # Each token meets the head once more where the embedding is the head.
    head = a.vocabulary * a.hidden
    assert multiplied_params(a) - multiplied_params(a, head=False) == head


def test_gpt_oss_weighs_what_its_checkpoint_does() -> None:
    total = sum(weight_bytes(catalogue.model("gpt-oss-120b")).values())
    assert total / 2**30 == pytest.approx(60.77, abs=0.01)


def test_deepseek_v3_is_fp8_but_for_embedding_head_norms_and_router() -> None:
    size = weight_bytes(catalogue.model("deepseek-v3"))
    assert size["embedding"] == size["head"] == 2 * 129_280 * 7168
    assert size["experts"] == pytest.approx(653_908_770_816 * (1 + 4 / 128**2), rel=1e-12)
    assert size["router"] == 58 * 256 * 7168 * 2


def test_v4_has_experts_of_four_bits_beside_attention_of_eight() -> None:
    size = weight_bytes(catalogue.model("deepseek-v4-flash"))
    assert size["experts"] == pytest.approx(277_025_390_592 * 4.25 / 8, rel=1e-9)
    assert size["attention"] < 1.1 * 6.0e9


def test_a_layer_list_keeps_just_the_layers_it_names() -> None:
    base = json.loads(files("rackmath").joinpath("data/models/llama-3.1-8b.json").read_text(encoding="utf-8"))["config"]
    kept = ["lm_head", "model.layers.0*", "model.layers.3.self_attn.q_proj", "model.layers.*.mlp.down_proj"]
    config = {
        **base,
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": kept},
    }
    layers = [dict(layer.formats) for layer in read_config(config).layers]
    assert layers[0] == {}
    assert "self_attn.q_proj" not in layers[3]
    assert "self_attn.k_proj" in layers[3]
    assert all("mlp.down_proj" not in layer for layer in layers)
    assert "mlp.up_proj" in layers[1]


def test_regular_expressions_of_compressed_tensors_are_matched() -> None:
    # Kimi-K2.5: four bits for routed experts only.
    size = weight_bytes(catalogue.model("kimi-k2.5"))
    assert size["experts"] == pytest.approx(1_014_686_023_680 * 4.5 / 8, rel=1e-9)
    assert size["shared"] == 60 * 3 * 7168 * 2048 * 2
    per_layer = 7168 * 1536 + 1536 * 64 * 192 + 7168 * 576 + 512 * 64 * 256 + 64 * 128 * 7168
    assert size["attention"] == 61 * per_layer * 2


def test_mixed_precision_sidecars_name_tensors_one_by_one() -> None:
    path = SHARED / "model-configs/nvidia__Qwen3.6-35B-A3B-NVFP4.json"
    if not path.exists():
        pytest.skip("../shared is not here")
    side = json.loads(path.with_suffix(".hf_quant_config.json").read_text())
    model = read_config(json.loads(path.read_text()), "m", side)
    by_name = {name: form.name for layer, _ in model.groups for name, form in layer.formats}
    assert by_name["mlp.experts.gate_proj"] == "nvfp4-a16"
    assert by_name["linear_attn.out_proj"] == "fp8-tensor"
    assert model.cache_format.name == "fp8-pure"


def test_an_unknown_method_is_refused_by_name() -> None:
    config = {**json.loads(json.dumps(LLAMA)), "quantization_config": {"quant_method": "hqq9"}}
    with pytest.raises(NotUnderstood, match="hqq9"):
        read_config(config)


def test_requantising_touches_linear_layers_only(llama) -> None:
    fp8 = requantise(llama, weights=weight_format("fp8"))
    before, after = weight_bytes(llama), weight_bytes(fp8)
    assert after["embedding"] == before["embedding"]
    assert after["norm"] == before["norm"]
    assert after["feed_forward"] == pytest.approx(before["feed_forward"] / 2, rel=1e-3)
    assert requantise(llama, cache=cache_format("fp8")).layers == llama.layers


@pytest.mark.parametrize("read", [weight_format, cache_format])
def test_unknown_formats_list_the_known_ones(read) -> None:
    with pytest.raises(InputError, match="bf16"):
        read("fp7")


def test_every_format_computes_at_a_known_precision() -> None:
    assert {f.compute for f in FORMATS.values()} <= {"bf16", "fp16", "fp8", "int8", "fp4"}
    assert replace(weight_format("fp4"), bits=4).bytes_per_element == 0.5


LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
}
