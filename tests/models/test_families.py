"""Other families than those of the shared folder: totals of transformers classes, and raw hub fields."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rackmath.models.cache import kv_bytes_per_token
from rackmath.models.config import read_config
from rackmath.models.counts import active_params, total_params
from rackmath.models.mixers import Grouped, KimiDelta, Latent, Lightning, Mamba1

FAMILIES = json.loads((Path(__file__).parents[1] / "data/families.json").read_text())


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_default_config_of_a_class_counts_what_the_class_allocates(family: str) -> None:
    entry = FAMILIES[family]
    assert total_params(read_config(entry["config"], family)) == entry["total_params"]


JAMBA = {
    "model_type": "jamba", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "num_experts": 16, "num_experts_per_tok": 2,
    "expert_layer_period": 2, "expert_layer_offset": 1, "attn_layer_period": 8, "attn_layer_offset": 4,
    "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": 256, "vocab_size": 65536,
    "tie_word_embeddings": False,
}  # fmt: skip
KIMI_LINEAR = {
    "model_type": "kimi_linear", "hidden_size": 2304, "intermediate_size": 9216, "moe_intermediate_size": 1024,
    "num_hidden_layers": 27, "num_attention_heads": 32, "num_key_value_heads": 32, "num_experts": 256,
    "num_experts_per_token": 8, "num_shared_experts": 1, "first_k_dense_replace": 1, "moe_layer_freq": 1,
    "kv_lora_rank": 512, "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "linear_attn_config": {
        "full_attn_layers": [4, 8, 12, 16, 20, 24, 27], "head_dim": 128, "num_heads": 32, "short_conv_kernel_size": 4,
        "kda_layers": [1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 25, 26],
    },
    "vocab_size": 163840, "tie_word_embeddings": False,
}  # fmt: skip
MINIMAX_M1 = {
    "model_type": "minimax_m1", "hidden_size": 6144, "intermediate_size": 9216, "num_hidden_layers": 80, "head_dim": 128,
    "num_attention_heads": 64, "num_key_value_heads": 8, "num_local_experts": 32, "num_experts_per_tok": 2,
    "attn_type_list": ([0] * 7 + [1]) * 10, "shared_intermediate_size": 0, "vocab_size": 200064,
    "tie_word_embeddings": False,
}  # fmt: skip
LONGCAT = {
    "model_type": "longcat_flash", "hidden_size": 6144, "num_layers": 28, "num_attention_heads": 64,
    "ffn_hidden_size": 12288, "expert_ffn_hidden_size": 2048, "n_routed_experts": 512, "zero_expert_num": 256,
    "moe_topk": 12, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "vocab_size": 131072, "tie_word_embeddings": False,
}  # fmt: skip


DBRX = {
    "model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "max_seq_len": 32768, "vocab_size": 100352,
    "attn_config": {"clip_qkv": 8, "kv_n_heads": 8, "rope_theta": 500000},
    "ffn_config": {"ffn_hidden_size": 10752, "moe_jitter_eps": 0, "moe_loss_weight": 0.05, "moe_num_experts": 16, "moe_top_k": 4},
}  # fmt: skip


def test_dbrx_keeps_its_fields_in_two_nested_objects() -> None:
    model = read_config(DBRX)
    attention = 6144 * 6144 * 2 + 2 * 6144 * 8 * 128
    layer = attention + 16 * 3 * 6144 * 10752 + 16 * 6144 + 2 * 6144
    assert total_params(model) == 40 * layer + 2 * 100352 * 6144 + 6144
    assert total_params(model) == pytest.approx(132e9, rel=0.01)
    assert active_params(model) == pytest.approx(36e9, rel=0.02)
    assert model.not_understood == ()


def test_jamba_has_one_attention_layer_in_eight_at_its_offset() -> None:
    model = read_config(JAMBA)
    assert total_params(model) == 51_570_323_328
    kinds = [type(layer.mixers[0]) for layer in model.layers]
    assert [i for i, kind in enumerate(kinds) if kind is Grouped] == [4, 12, 20, 28]
    assert kinds[0] is Mamba1
    # 4 layers of 8 heads x 128 x 2 at two bytes.
    assert kv_bytes_per_token(model) == 4 * 8 * 128 * 2 * 2


def test_kimi_linear_counts_its_layers_from_one() -> None:
    model = read_config(KIMI_LINEAR)
    full = KIMI_LINEAR["linear_attn_config"]["full_attn_layers"]
    kinds = ["full_attention" if i + 1 in full else "linear_attention" for i in range(27)]
    resolved = {**FAMILIES["kimi_linear"]["config"], "layer_types": kinds, "num_experts_per_token": 8}
    assert total_params(model) == total_params(read_config(resolved))
    assert isinstance(model.layers[3].mixers[0], Latent)
    assert isinstance(model.layers[0].mixers[0], KimiDelta)
    assert kv_bytes_per_token(model) == 8_064


def test_minimax_m1_matches_its_published_size() -> None:
    model = read_config(MINIMAX_M1)
    assert total_params(model) == pytest.approx(456.09e9, rel=1e-4)
    assert active_params(model) == pytest.approx(48.40e9, rel=2e-4)
    assert isinstance(model.layers[0].mixers[0], Lightning)


def test_longcat_has_two_attentions_per_layer_and_free_experts() -> None:
    model = read_config(LONGCAT)
    assert total_params(model) == pytest.approx(560.66e9, rel=1e-4)
    assert active_params(model) == pytest.approx(27.95e9, rel=2e-3)
    assert kv_bytes_per_token(model) == 56 * 576 * 2


def test_a_model_class_is_found_by_its_architecture_when_model_type_is_missing() -> None:
    config = {k: v for k, v in FAMILIES["qwen3"]["config"].items() if k != "model_type"}
    named = read_config({**config, "architectures": ["Qwen3ForCausalLM"]})
    assert total_params(named) == FAMILIES["qwen3"]["total_params"]


def test_an_unknown_class_is_read_as_llama_and_says_so() -> None:
    config = dict(FAMILIES["llama"]["config"], model_type="somebody_new")
    config.pop("architectures", None)
    model = read_config(config)
    assert total_params(model) == FAMILIES["llama"]["total_params"]
    assert any("somebody_new" in entry for entry in model.defaulted)


def test_the_name_of_a_model_decides_nothing() -> None:
    config = FAMILIES["mixtral"]["config"]
    assert read_config(config, "gpt2") == read_config(config, "gpt2")
    assert read_config(config, "deepseek-v3").layers == read_config(config, "llama").layers
