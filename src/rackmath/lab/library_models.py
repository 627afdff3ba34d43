"""Hugging Face transformers' own Llama and Qwen3-MoE, random weights: models that were not written here."""

from __future__ import annotations

from typing import Any

import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

from rackmath.lab.networks import NetworkSizes
from rackmath.lab.subjects import Step, Subject
from rackmath.models.config import read_config


def subject(sizes: NetworkSizes, device: str) -> Subject:
    """The library's class of the same sizes, its own config read by the engine."""
    options = {k: v for k, v in sizes.config().items() if k not in ("model_type", "architectures", "torch_dtype")}
    config: Any = Qwen3MoeConfig(**options) if sizes.experts else LlamaConfig(**options)
    kind: Any = Qwen3MoeForCausalLM if sizes.experts else LlamaForCausalLM
    torch.manual_seed(0)
    # Made where it runs: random weights of a billion parameters take a processor minutes.
    with torch.device(device):
        model = kind(config).to(dtype=torch.bfloat16).eval()
    config_fields = {**config.to_dict(), "torch_dtype": "bfloat16"}
    name = f"transformers {'Qwen3-MoE' if sizes.experts else 'Llama'}"

    def pass_of(phase: str, batch: int, context: int) -> Step:
        new = 1 if phase == "decode" else context
        tokens = torch.randint(sizes.vocabulary, (batch, new), device=device)
        shape = (batch, sizes.kv_heads, context - new, sizes.head_width)
        past = DynamicCache()
        for layer in range(sizes.layers if context > new else 0):
            keys, values = (torch.randn(shape, device=device).to(torch.bfloat16) for _ in range(2))
            past.update(keys, values, layer)

        @torch.no_grad()
        def run() -> object:
            cache = past if context > new else DynamicCache()
            logits = model(tokens, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
            if context > new:
                # The new entry goes again, so that every run finds the same context.
                cache.crop(-new)
            return logits

        return run

    return Subject(name=name, architecture=read_config(config_fields, name), pass_of=pass_of)
