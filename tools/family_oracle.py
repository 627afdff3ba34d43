"""Count parameters of Hugging Face classes at their default configs; write tests/data/families.json.

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
    "ministral3",
    "mistral",
    "mixtral",
    "mpt",
    "nanochat",
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
    "seed_oss",
    "smollm3",
    "solar_open",
    "stablelm",
    "starcoder2",
    "vaultgemma",
    "youtu",
    "zamba2",
]

DROPPED = ("token", "dropout", "label", "output", "rope", "return", "eps", "initializer", "transformers", "softcap")


def main() -> None:
    """Build every family and write what it allocates."""
    transformers.logging.set_verbosity_error()
    found = {}
    for family in FAMILIES:
        config = CONFIG_MAPPING[family]()
        name = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[family]
        with torch.device("meta"):
            model = getattr(transformers, name if isinstance(name, str) else name[0])(config)
        total = sum(p.numel() for p in model.parameters())
        kept = {k: v for k, v in config.to_dict().items() if _kept(k, v)}
        found[family] = {"config": kept, "total_params": total}
    OUT.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _kept(key: str, value: object) -> bool:
    wanted = key in ("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "qk_rope_head_dim")
    if key == "attn_layer_indices":
        return True
    return value is not None and (wanted or not any(part in key for part in DROPPED)) and not key.startswith("_")


if __name__ == "__main__":
    main()
