"""Values of configs at the ends of what is allowed, and what stands in for those that are absent."""

from __future__ import annotations

from typing import Any

import pytest

from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.models.architecture import Experts
from rackmath.models.config import read_config
from rackmath.models.config.changes import changed_config
from rackmath.models.config.fields import Fields
from rackmath.models.counts import total_params
from rackmath.models.mixers import Grouped

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "vocab_size": 1000,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
"""What most families name alike."""
GPT: dict[str, Any] = {"vocab_size": 1000, "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4}


@pytest.mark.parametrize(
    ("config", "fused"),
    [
        ({"model_type": "gpt2", **GPT}, True),
        ({"model_type": "gpt_bigcode", **GPT}, True),
        ({"model_type": "gpt_neo", "hidden_size": 64, "num_layers": 2, "num_heads": 4, **GPT}, False),
        (
            {**SMALL, "model_type": "opt", "ffn_dim": 256, "max_position_embeddings": 64},
            False,
        ),
    ],
)
def test_queries_keys_and_values_are_one_matrix_where_the_checkpoint_has_one(
    config: dict[str, Any], fused: bool
) -> None:
    """``c_attn`` of GPT-2 and GPT-BigCode; ``q_proj``, ``k_proj`` and ``v_proj`` of GPT-Neo and OPT."""
    (mixer,) = read_config(config).layers[0].mixers
    assert isinstance(mixer, Grouped)
    assert mixer.fused is fused


def test_one_entry_serves_all_layers_and_several_are_one_for_each() -> None:
    assert Fields({"width": [7]}).per_layer("width", layer=5) == 7
    assert [Fields({"width": [7, 8]}).per_layer("width", layer=layer) for layer in (0, 1)] == [7, 8]
    with pytest.raises(InputError, match="layer 2"):
        Fields({"width": [7, 8]}).per_layer("width", layer=2)


@pytest.mark.parametrize(("key", "value"), [("n_layer", "1"), ("vocab_size", "1e9")])
def test_a_number_of_a_config_may_be_changed_to_either_end(key: str, value: str) -> None:
    assert changed_config({"model_type": "gpt2", **GPT}, key, value)[key] == float(value)
    for beyond in ("0.9", "1.1e9"):
        with pytest.raises(InputError, match="from 1 to 1e9"):
            changed_config({"model_type": "gpt2", **GPT}, key, beyond)


@pytest.mark.parametrize("name", ["swa_head_dim", "swa_v_head_dim", "swa_num_attention_heads"])
def test_shapes_of_window_layers_begin_at_one(name: str) -> None:
    config = {
        **SMALL,
        "model_type": "mimo_v2_flash",
        "num_hidden_layers": 2,
        "num_key_value_heads": 4,
        "head_dim": 16,
        "v_head_dim": 16,
        "sliding_window": 8,
        "hybrid_layer_pattern": [0, 1],
    }
    read_config({**config, "swa_num_key_value_heads": 1, "swa_num_attention_heads": 4, name: 4})
    with pytest.raises(InputError, match=name):
        read_config({**config, name: 0})


def test_zaya_keeps_the_inputs_of_its_convolutions_and_half_of_the_last_value() -> None:
    """Kernels of two over 1,280 channels of queries and keys keep one input each; two values of 128 are halved."""
    for layer in catalogue.model("Zyphra/ZAYA1-8B").layers:
        (mixer,) = layer.mixers
        assert isinstance(mixer, Grouped)
        assert mixer.convolution == 1280 * 2 + 2 * 128 / 2


@pytest.mark.parametrize(("end", "last"), [(-1, 3), (2, 2), (1, 1)])
def test_layers_of_experts_end_where_the_config_says_or_with_the_last(end: int, last: int) -> None:
    """ERNIE 4.5: ``moe_layer_end_index`` is the last layer with experts, -1 the last of all."""
    config = {
        **SMALL,
        "model_type": "ernie4_5_moe",
        "moe_intermediate_size": 32,
        "moe_num_experts": 4,
        "moe_k": 2,
        "moe_layer_start_index": 1,
        "moe_layer_interval": 1,
        "moe_layer_end_index": end,
    }
    layers = read_config(config).layers
    mixtures = [place for place, layer in enumerate(layers) if any(isinstance(b, Experts) for b in layer.feed_forwards)]
    assert mixtures == list(range(1, last + 1))


def test_a_list_of_layers_counts_them_where_no_number_does() -> None:
    config = {name: value for name, value in SMALL.items() if name != "num_hidden_layers"} | {"model_type": "llama"}
    for count in (1, 3):
        assert len(read_config({**config, "layer_types": ["full_attention"] * count}).layers) == count


def test_layers_of_experts_begin_with_the_second_where_no_offset_is_named() -> None:
    """As transformers' ``JambaConfig`` has it."""
    config = {
        **SMALL,
        "model_type": "jamba",
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "expert_layer_period": 2,
        "attn_layer_period": 1,
        "attn_layer_offset": 0,
    }
    layers = read_config(config).layers
    assert [any(isinstance(b, Experts) for b in layer.feed_forwards) for layer in layers] == [False, True, False, True]


def test_norms_of_olmo_have_no_parameters() -> None:
    """OLMo-1B: 1,176,764,416 in all, embeddings tied."""
    config = {
        "model_type": "olmo",
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "vocab_size": 50_304,
        "num_hidden_layers": 16,
        "num_attention_heads": 16,
        "tie_word_embeddings": True,
    }
    assert total_params(read_config(config)) == 1_176_764_416


def test_mpt_shares_its_embedding_with_its_head() -> None:
    """MPT-7B: 6,649,286,656 parameters; neither its config nor its checkpoint names a head."""
    config = {"model_type": "mpt", "d_model": 4096, "n_layers": 32, "n_heads": 32, "expansion_ratio": 4}
    config |= {"vocab_size": 50_432, "max_seq_len": 2048, "no_bias": True}
    assert total_params(read_config(config)) == 6_649_286_656
