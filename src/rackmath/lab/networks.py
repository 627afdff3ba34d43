"""Decoders with random weights and a KV cache, described to the engine by their own config."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils._python_dispatch import TorchDispatchMode

from rackmath.models.architecture import Architecture
from rackmath.models.config import read_config

_VIEWS = ("view", "reshape", "transpose", "expand", "select", "slice", "unsqueeze", "squeeze", "t.default", "detach")
"""Operations that only change how memory is looked at."""


@dataclass(frozen=True)
class NetworkSizes:
    """A decoder of Llama's kind, or with experts one of Qwen3's."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    inner: int
    """Width of the feed-forward block, or of one expert."""
    vocabulary: int
    experts: int = 0
    chosen: int = 0

    @property
    def head_width(self) -> int:
        """Width of one head."""
        return self.hidden // self.heads

    def config(self) -> dict[str, Any]:
        """What a ``config.json`` of it says."""
        common: dict[str, Any] = {
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_width,
            "vocab_size": self.vocabulary,
            "hidden_act": "silu",
            "tie_word_embeddings": False,
            "max_position_embeddings": 131_072,
            "torch_dtype": "bfloat16",
        }
        if not self.experts:
            return {
                "model_type": "llama", "architectures": ["LlamaForCausalLM"], "intermediate_size": self.inner, **common,
            }  # fmt: skip
        return {
            "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "intermediate_size": self.inner,
            "moe_intermediate_size": self.inner, "num_experts": self.experts, "num_experts_per_tok": self.chosen,
            "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [], **common,
        }  # fmt: skip

    @cached_property
    def architecture(self) -> Architecture:
        """What the engine knows of it."""
        name = f"random {'mixture' if self.experts else 'dense'} decoder of {self.layers} layers"
        return read_config(self.config(), name)


DENSE = {
    "cpu": NetworkSizes(layers=8, hidden=1024, heads=16, kv_heads=4, inner=2816, vocabulary=8192),
    "cuda": NetworkSizes(layers=16, hidden=4096, heads=32, kv_heads=8, inner=14_336, vocabulary=32_768),
}
MIXTURE = {
    "cpu": NetworkSizes(layers=6, hidden=768, heads=12, kv_heads=4, inner=512, vocabulary=8192, experts=32, chosen=4),
    "cuda": NetworkSizes(
        layers=8, hidden=2048, heads=16, kv_heads=4, inner=768, vocabulary=32_768, experts=64, chosen=8
    ),
}
"""What is decoded on each kind of device; mps takes the CPU's."""


class Decoder(nn.Module):
    """Pre-norm blocks of grouped attention and a gated feed-forward block, dense or with experts."""

    def __init__(self, sizes: NetworkSizes, device: str, dtype: torch.dtype = torch.bfloat16, seed: int = 0) -> None:
        super().__init__()
        self.sizes = sizes
        # Drawn where they stay: a processor takes minutes for a billion of them.
        generator = torch.Generator(device).manual_seed(seed)

        def matrix(*shape: int) -> nn.Parameter:
            values = torch.randn(*shape, generator=generator, device=device) * shape[-1] ** -0.5
            return nn.Parameter(values.to(dtype=dtype), requires_grad=False)

        def ones() -> nn.Parameter:
            return nn.Parameter(torch.ones(sizes.hidden, device=device, dtype=dtype), requires_grad=False)

        width = sizes.heads * sizes.head_width
        key_value_width = 2 * sizes.kv_heads * sizes.head_width
        self.embedding = matrix(sizes.vocabulary, sizes.hidden)
        self.head = matrix(sizes.vocabulary, sizes.hidden)
        self.last_norm = ones()
        self.blocks = nn.ModuleList()
        for _ in range(sizes.layers):
            block = nn.Module()
            block.first_norm, block.second_norm = ones(), ones()
            block.qkv, block.out = matrix(width + key_value_width, sizes.hidden), matrix(sizes.hidden, width)
            if sizes.experts:
                block.router = matrix(sizes.experts, sizes.hidden)
                block.up = matrix(sizes.experts, 2 * sizes.inner, sizes.hidden)
                block.down = matrix(sizes.experts, sizes.hidden, sizes.inner)
            else:
                block.up, block.down = matrix(2 * sizes.inner, sizes.hidden), matrix(sizes.hidden, sizes.inner)
            self.blocks.append(block)
        self.touched: list[int] = []
        """Distinct experts of each layer in the last pass."""

    def cache(self, batch: int, context: int) -> Tensor:
        """Random keys and values: layers, two, batch, heads, tokens, width."""
        s = self.sizes
        shape = (s.layers, 2, batch, s.kv_heads, context, s.head_width)
        return torch.randn(shape, device=self.head.device, dtype=torch.float32).to(self.head.dtype)

    @torch.no_grad()
    def forward(self, tokens: Tensor, cache: Tensor, position: int) -> Tensor:
        """Logits of the last token of each sequence.

        Parameters
        ----------
        tokens : Tensor
            (batch, new) new tokens of each sequence, written to the cache from ``position`` on; they see all before.
        """
        self.touched = []
        new = tokens.shape[1]
        hidden = F.embedding(tokens, self.embedding)
        blocks: Any = self.blocks
        for block, (keys, values) in zip(blocks, cache, strict=True):
            hidden = hidden + self._attend(block, hidden, keys, values, position, new)
            norm = F.rms_norm(hidden, (self.sizes.hidden,), block.second_norm)
            hidden = hidden + (self._mix(block, norm) if self.sizes.experts else _gated(norm, block.up, block.down))
        last = F.rms_norm(hidden[:, -1], (self.sizes.hidden,), self.last_norm)
        return F.linear(last, self.head)

    def _attend(self, block: Any, hidden: Tensor, keys: Tensor, values: Tensor, position: int, new: int) -> Tensor:
        s, batch = self.sizes, hidden.shape[0]
        qkv = F.linear(F.rms_norm(hidden, (s.hidden,), block.first_norm), block.qkv)
        split = qkv.view(batch, new, s.heads + 2 * s.kv_heads, s.head_width).transpose(1, 2)
        query = split[:, : s.heads]
        keys[:, :, position : position + new] = split[:, s.heads : s.heads + s.kv_heads]
        values[:, :, position : position + new] = split[:, s.heads + s.kv_heads :]
        end = position + new
        out = F.scaled_dot_product_attention(
            query, keys[:, :, :end], values[:, :, :end], is_causal=new > 1, enable_gqa=True
        )
        return F.linear(out.transpose(1, 2).reshape(batch, new, -1), block.out)

    def _mix(self, block: Any, norm: Tensor) -> Tensor:
        """Route every token to its experts; each expert works on the tokens that came."""
        flat = norm.reshape(-1, self.sizes.hidden)
        weights, experts = F.softmax(F.linear(flat, block.router).float(), dim=-1).topk(self.sizes.chosen, dim=-1)
        weights = (weights / weights.sum(-1, keepdim=True)).to(flat.dtype)
        order = experts.flatten().argsort()
        owners = order // self.sizes.chosen
        counts = torch.bincount(experts.flatten(), minlength=self.sizes.experts).tolist()
        self.touched.append(sum(count > 0 for count in counts))
        out = torch.zeros_like(flat)
        start = 0
        for expert, count in enumerate(counts):
            if count:
                owners_part = owners[start : start + count]
                share = weights.flatten()[order[start : start + count]].unsqueeze(1)
                out.index_add_(0, owners_part, share * _gated(flat[owners_part], block.up[expert], block.down[expert]))
            start += count
        return out.view_as(norm)


def _gated(x: Tensor, up: Tensor, down: Tensor) -> Tensor:
    gate, value = F.linear(x, up).chunk(2, dim=-1)
    return F.linear(F.silu(gate) * value, down)


class _Counter(TorchDispatchMode):
    """Counts operations that do work."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, counted unless it is a view."""
        if not any(f"aten.{name}" in str(func) for name in _VIEWS):
            self.count += 1
        return func(*args, **(kwargs or {}))


def operations(work: Any) -> int:
    """Operations that PyTorch runs in a piece of work, views left out."""
    with _Counter() as counter:
        work()
    return counter.count
