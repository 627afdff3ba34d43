"""What cannot be read is refused with the field, the value and a way out."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.errors import InputError, NotUnderstood, RackmathError
from rackmath.models.config import read_config
from rackmath.models.counts import active_params, total_params
from rackmath.models.totals import from_totals

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
MOE = {**LLAMA, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}


def test_a_small_llama_counts_by_hand() -> None:
    attention = 64 * 64 + 2 * 64 * 32 + 64 * 64
    assert total_params(read_config(LLAMA)) == 2 * 100 * 64 + 2 * (attention + 3 * 64 * 128 + 2 * 64) + 64


def test_a_small_mixture_counts_by_hand() -> None:
    attention = 64 * 64 + 2 * 64 * 32 + 64 * 64
    per_layer = attention + 8 * 3 * 64 * 32 + 64 * 8 + 2 * 64
    assert total_params(read_config(MOE)) == 2 * 100 * 64 + 2 * per_layer + 64
    assert active_params(read_config(MOE)) == total_params(read_config(MOE)) - 2 * 6 * 3 * 64 * 32


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"hidden_size": None}, "hidden_size"),
        ({"hidden_size": -64}, "hidden_size"),
        ({"hidden_size": 64.5}, "hidden_size"),
        ({"hidden_size": math.nan}, "hidden_size"),
        ({"hidden_size": "64"}, "hidden_size"),
        ({"hidden_size": True}, "hidden_size"),
        ({"num_hidden_layers": 1_000_000}, "num_hidden_layers"),
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"num_attention_heads": None}, "num_attention_heads"),
        ({"num_attention_heads": 5}, "head_dim"),
        ({"num_key_value_heads": 3}, "num_key_value_heads"),
        ({"vocab_size": 10**9}, "vocab_size"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
        ({"torch_dtype": "float7"}, "torch_dtype"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"layer_types": ["full_attention"] * 30}, "layer_types"),
        ({"layer_types": ["telepathy"] * 2}, "layer_types"),
        ({"layer_types": ["linear_attention"] * 2}, "layer_types"),
        ({"num_experts": 8}, "num_experts_per_tok"),
        ({"num_experts": 8, "num_experts_per_tok": 9}, "num_experts_per_tok"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder"),
        ({"model_type": "rwkv"}, "model_type"),
        ({"num_kv_shared_layers": 2}, "num_kv_shared_layers"),
        ({"quantization_config": {"quant_method": "fp8", "weight_block_size": [0, 1]}}, "weight_block_size"),
        ({"quantization_config": "fp8"}, "quantization_config"),
        (
            {
                "hidden_size": 4_000_000,
                "vocab_size": 16_000_000,
                "intermediate_size": 4_000_000,
                "num_hidden_layers": 4000,
            },
            "config",
        ),
    ],
)
def test_bad_fields_are_refused_by_name(change: dict[str, Any], field: str) -> None:
    config = {k: v for k, v in {**LLAMA, **change}.items() if v is not None}
    with pytest.raises(InputError) as caught:
        read_config(config)
    assert caught.value.field == field
    assert caught.value.way_out
    assert "\n" not in str(caught.value)


def test_what_was_defaulted_and_not_understood_is_listed() -> None:
    config = {k: v for k, v in LLAMA.items() if k not in ("tie_word_embeddings", "num_key_value_heads", "torch_dtype")}
    model = read_config({**config, "moonbeam_width": 7, "rope_theta": 1e6, "bos_token_id": 1})
    assert model.not_understood == ("moonbeam_width",)
    assert {entry.split("=")[0] for entry in model.defaulted} == {
        "tie_word_embeddings",
        "num_key_value_heads",
        "torch_dtype",
        "head_dim",
    }


def test_a_null_inside_does_not_hide_what_stands_outside() -> None:
    model = read_config({"tie_word_embeddings": True, "text_config": {**LLAMA, "tie_word_embeddings": None}})
    assert model.tied


def test_the_inner_level_wins_over_the_outer_one() -> None:
    model = read_config({"tie_word_embeddings": True, "hidden_size": 1, "text_config": LLAMA})
    assert not model.tied
    assert model.hidden == 64


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([*MOE, "layer_types", "text_config", "sliding_window", "quantization_config", "kv_lora_rank"]),
        JSON,
    )
)
def test_any_values_in_known_fields_are_read_or_refused(changes: dict[str, Any]) -> None:
    try:
        assert total_params(read_config({**MOE, **changes})) > 0
    except RackmathError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, 0.0])
def test_totals_refuse_numbers_that_are_none(bad: float) -> None:
    with pytest.raises(InputError):
        from_totals("x", bad, 1e9, 1000)


def test_totals_refuse_more_active_than_stored() -> None:
    with pytest.raises(InputError, match="active_params"):
        from_totals("x", 1e9, 2e9, 1000)


def test_classes_that_fields_cannot_describe_are_not_guessed() -> None:
    with pytest.raises(NotUnderstood, match="time mixing"):
        read_config({**LLAMA, "model_type": "rwkv"})
