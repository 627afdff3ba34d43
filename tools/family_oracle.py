"""Count parameters of Hugging Face classes: writes tests/data/families.json, and counts in audio_configs.json.

    pip install torch transformers
    python tools/family_oracle.py

Each class is built on the meta device, so nothing is downloaded or allocated. The
file holds, per class, the config keys that a reader needs and the parameters that
the class allocates. transformers is a test oracle only and no dependency.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

OUT = Path(__file__).parent.parent / "tests/data/families.json"
AUDIO = OUT.with_name("audio_configs.json")
"""Configs of models with an encoder of sound, whose classes are counted as wholes."""

FAMILIES = [
    "afmoe",
    "apertus",
    "arcee",
    "bamba",
    "biogpt",
    "bloom",
    "codegen",
    "cohere",
    "cohere2",
    "cohere2_moe",
    "cwm",
    "deepseek_v3",
    "deepseek_v32",
    "deepseek_v4",
    "ernie4_5",
    "ernie4_5_moe",
    "exaone4",
    "exaone_moe",
    "falcon",
    "falcon_h1",
    "falcon_mamba",
    "flex_olmo",
    "gemma",
    "gemma2",
    "gemma3_text",
    "gemma3n_text",
    "gemma4_text",
    "glm",
    "glm4",
    "glm4_moe_lite",
    "glm_moe_dsa",
    "gpt2",
    "gpt_bigcode",
    "gpt_neo",
    "gpt_neox",
    "gpt_oss",
    "gptj",
    "granite",
    "granite_swa",
    "granitemoe",
    "granitemoehybrid",
    "granitemoeshared",
    "helium",
    "hy_v3",
    "internlm3",
    "iquestcoder",
    "jais2",
    "jamba",
    "kimi_linear",
    "kolibri1",
    "laguna",
    "lfm2",
    "lfm3",
    "llama",
    "llama4_text",
    "mamba",
    "mamba2",
    "mellum",
    "minicpm3",
    "minimax",
    "minimax_m2",
    "minimax_m3_vl_text",
    "ministral3",
    "mistral",
    "mixtral",
    "mpt",
    "nanochat",
    "nemotron_h",
    "olmo",
    "olmo2",
    "olmo3",
    "olmo_hybrid",
    "olmoe",
    "opt",
    "persimmon",
    "phi",
    "phi3",
    "phimoe",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
    "qwen3_next",
    "qwen3_5_text",
    "qwen3_5_moe_text",
    "seed_oss",
    "smollm3",
    "solar_open",
    "stablelm",
    "starcoder2",
    "vaultgemma",
    "xlstm",
    "youtu",
    "zamba2",
]

SMALL = {"hidden_size": 1024, "num_attention_heads": 8, "num_hidden_layers": 4, "vocab_size": 1000}
GROUPED = {**SMALL, "num_key_value_heads": 4, "intermediate_size": 3000}
VARIANTS: dict[str, tuple[str, dict[str, object]]] = {
    "bamba with attention": (
        "bamba",
        {**GROUPED, "attn_layer_indices": [1], "mamba_n_heads": 32, "mamba_d_head": 64},
    ),
    "cohere with head norms": ("cohere", {**GROUPED, "use_qk_norm": True}),
    "deepseek_v2 without query rank": (
        "deepseek_v2",
        {
            **SMALL,
            "q_lora_rank": None,
            "kv_lora_rank": 128,
            "num_experts_per_tok": 4,
            "n_routed_experts": 16,
            "moe_intermediate_size": 300,
            "intermediate_size": 3000,
            "n_shared_experts": 2,
            "first_k_dense_replace": 1,
        },
    ),
    "dots1": (
        "dots1",
        {
            **GROUPED,
            "head_dim": 128,
            "moe_intermediate_size": 300,
            "n_routed_experts": 16,
            "num_experts_per_tok": 4,
            "n_shared_experts": 2,
            "first_k_dense_replace": 1,
            "n_group": 1,
            "topk_group": 1,
        },
    ),
    "ernie4_5_moe in part of the layers": (
        "ernie4_5_moe",
        {
            **GROUPED,
            "num_hidden_layers": 6,
            "moe_intermediate_size": 300,
            "moe_num_experts": 8,
            "moe_k": 2,
            "moe_num_shared_experts": 0,
            "moe_layer_start_index": 2,
            "moe_layer_end_index": 4,
            "moe_layer_interval": 2,
        },
    ),
    "falcon with the new decoder": (
        "falcon",
        {**SMALL, "num_kv_heads": 4, "new_decoder_architecture": True, "parallel_attn": True, "bias": False},
    ),
    "falcon_h1 with biases": (
        "falcon_h1",
        {
            **GROUPED,
            "mamba_d_ssm": 1536,
            "mamba_n_heads": 24,
            "mamba_d_head": 64,
            "mamba_rms_norm": False,
            "mamba_proj_bias": True,
        },
    ),
    "glm4_moe": (
        "glm4_moe",
        {
            **GROUPED,
            "head_dim": 128,
            "moe_intermediate_size": 300,
            "n_routed_experts": 16,
            "num_experts_per_tok": 4,
            "n_shared_experts": 1,
            "first_k_dense_replace": 1,
            "attention_bias": True,
            "use_qk_norm": True,
        },
    ),
    "gpt_neox in sequence": (
        "gpt_neox",
        {**SMALL, "intermediate_size": 3000, "use_parallel_residual": False, "attention_bias": False},
    ),
    "granitemoehybrid without experts": (
        "granitemoehybrid",
        {
            **GROUPED,
            "shared_intermediate_size": 800,
            "num_local_experts": 0,
            "num_experts_per_tok": 0,
            "layer_types": ["mamba", "mamba", "attention", "mamba"],
            "mamba_n_heads": 16,
            "mamba_d_head": 128,
            "mamba_d_state": 64,
        },
    ),
    "hunyuan_v1_dense": ("hunyuan_v1_dense", {**GROUPED, "head_dim": 128}),
    "lfm2_moe": (
        "lfm2_moe",
        {
            **GROUPED,
            "moe_intermediate_size": 300,
            "num_experts": 8,
            "num_experts_per_tok": 2,
            "num_dense_layers": 1,
            "layer_types": ["conv", "conv", "full_attention", "conv"],
        },
    ),
    "llama with biases": ("llama", {**GROUPED, "attention_bias": True, "mlp_bias": True}),
    "minimax with a head width": ("minimax", {**GROUPED, "head_dim": 96}),
    "nemotron": ("nemotron", {**GROUPED, "head_dim": 128}),
    "qwen2_moe in part of the layers": (
        "qwen2_moe",
        {
            **GROUPED,
            "num_hidden_layers": 6,
            "moe_intermediate_size": 300,
            "shared_expert_intermediate_size": 700,
            "num_experts": 10,
            "num_experts_per_tok": 3,
            "decoder_sparse_step": 2,
            "mlp_only_layers": [3],
        },
    ),
    "seed_oss with all biases": (
        "seed_oss",
        {**GROUPED, "head_dim": 96, "attention_out_bias": True, "mlp_bias": True},
    ),
    "stablelm with biases": ("stablelm", {**GROUPED, "use_qkv_bias": True}),
}
"""Small configs of classes whose defaults hide a field or cannot be built."""

DROPPED = ("token", "dropout", "label", "output", "rope", "return", "eps", "initializer", "transformers", "softcap")


def count_audio() -> None:
    """Write what models with an encoder of sound allocate, and of that the encoder of sound with its projection."""
    records = json.loads(AUDIO.read_text(encoding="utf-8"))
    for record in records.values():
        fields = record["config"]
        config = CONFIG_MAPPING[fields["model_type"]].from_dict(dict(fields))
        with torch.device("meta"):
            model = getattr(transformers, fields["architectures"][0])(config)
        sizes = {name: weight.numel() for name, weight in model.named_parameters() if "visual" not in name}
        record["params"] = sum(sizes.values())
        parts = ("audio_tower", "multi_modal_projector")
        record["audio_params"] = sum(size for name, size in sizes.items() if any(part in name for part in parts))
    AUDIO.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Build every family and write what it allocates."""
    count_audio()
    transformers.logging.set_verbosity_error()
    found = {}
    wanted = {family: (family, {}) for family in FAMILIES} | VARIANTS
    for label, (family, fields) in wanted.items():
        config = CONFIG_MAPPING[family](**fields)
        name = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[family]
        with torch.device("meta"):
            model = getattr(transformers, name if isinstance(name, str) else name[0])(config)
        total = sum(p.numel() for p in model.parameters())
        kept = {k: v for k, v in config.to_dict().items() if _kept(k, v)}
        found[label] = {"config": kept, "total_params": total}
    OUT.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _kept(key: str, value: object) -> bool:
    wanted = key in ("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "qk_rope_head_dim")
    if key == "attn_layer_indices":
        return True
    return value is not None and (wanted or not any(part in key for part in DROPPED)) and not key.startswith("_")


if __name__ == "__main__":
    main()
