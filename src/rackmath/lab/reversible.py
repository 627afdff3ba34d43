"""Reversible transformer blocks: the same network as a stored graph, with checkpoints, and rebuilt backwards.

A block is a Feistel round on two streams: y1 = x1 + f(x2), y2 = x2 + g(y1), with f attention and g the feed-forward
half, both pre-norm. Its input follows from its output, so only the last output has to wait for the backward pass.
Source: Gomez et al. 2017, arXiv:1707.04585.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

Streams = tuple[Tensor, Tensor]

WAYS = ("standard", "per block", "sqrt", "reversible")
"""Stored graph; checkpoint of every block; of every square root of the depth; rebuilt from the output."""

FIXED_ONE = 2.0**16
"""One in fixed point: streams are integers of 2^-16, whose sums are exact and so are undone exactly."""


class Attention(nn.Module):
    """Pre-norm causal attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, width) -> the same."""
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        attention = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(attention.transpose(1, 2).reshape(batch, tokens, width))


class FeedForward(nn.Module):
    """Pre-norm two-layer network of four times the width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, width) -> the same."""
        return self.down(F.gelu(self.up(self.norm(x))))


class Block(nn.Module):
    """One Feistel round of attention and feed-forward."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.f, self.g = Attention(width, heads), FeedForward(width)

    def forward(self, x1: Tensor, x2: Tensor) -> Streams:
        """Inputs -> outputs; integers are streams in fixed point."""
        y1 = _add(x1, self.f(_real(x2, self)), 1)
        return y1, _add(x2, self.g(_real(y1, self)), 1)

    def inverse(self, y1: Tensor, y2: Tensor) -> Streams:
        """Outputs -> inputs, without inverting f or g."""
        x2 = _add(y2, self.g(_real(y1, self)), -1)
        return _add(y1, self.f(_real(x2, self)), -1), x2


class Network(nn.Module):
    """A stack of blocks; the mean of both streams goes on to whatever stands behind it."""

    def __init__(self, layers: int, width: int = 256, heads: int = 4, seed: int = 0, scale: float = 1.0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        for parameter in self.parameters():
            if parameter.dim() == 2:
                parameter.data = torch.randn(parameter.shape, generator=generator) * scale * parameter.shape[1] ** -0.5

    def forward(self, x: Tensor, way: str = "standard") -> Tensor:
        """Run all blocks in one of ``WAYS``."""
        if way == "reversible":
            y1, y2 = _ReversibleBlocks.apply(x, x, self.blocks, *self.parameters())
            return (y1 + y2) / 2
        streams: Streams = (x, x)
        if way == "standard":
            for block in self.blocks:
                streams = block(*streams)
        else:
            size = 1 if way == "per block" else max(round(len(self.blocks) ** 0.5), 1)
            for start in range(0, len(self.blocks), size):
                streams = checkpoint(_chain, list(self.blocks[start : start + size]), *streams, use_reentrant=False)
        return (streams[0] + streams[1]) / 2


class _ReversibleBlocks(torch.autograd.Function):
    """All blocks as one operation that keeps its output alone."""

    @staticmethod
    def forward(ctx: Any, x1: Tensor, x2: Tensor, blocks: Sequence[Block], *parameters: Tensor) -> Streams:
        """Run without a graph."""
        ctx.blocks = blocks
        with torch.no_grad():
            for block in blocks:
                x1, x2 = block(x1, x2)
        ctx.save_for_backward(x1, x2)
        # Parameters are given so that autograd calls backward; their gradients are added there, one block at a time.
        ctx.count = len(parameters)
        return x1, x2

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Any, ...]:
        """Rebuild the inputs of each block from its outputs, last block first, and go back through it."""
        dy1, dy2 = grad_outputs
        y1, y2 = ctx.saved_tensors
        for block in reversed(ctx.blocks):
            with torch.enable_grad():
                y1 = y1.detach().requires_grad_()
                second_branch = block.g(y1)
            with torch.no_grad():
                x2 = y2 - second_branch.detach()
            second_branch.backward(dy2)
            dy1 = dy1 + y1.grad
            with torch.enable_grad():
                x2 = x2.detach().requires_grad_()
                first_branch = block.f(x2)
            with torch.no_grad():
                x1 = y1.detach() - first_branch.detach()
            first_branch.backward(dy1)
            dy2 = dy2 + x2.grad
            y1, y2 = x1, x2.detach()
        return dy1, dy2, None, *([None] * ctx.count)


def drift(network: Network, x: Tensor, streams: str, functions: torch.dtype) -> float:
    """Relative error of the input after all blocks forward and back, in one arithmetic. [1]

    Parameters
    ----------
    streams : str
        Type of the two streams: bf16, fp32, fp64, or fixed for integers of 2^-16.
    functions : torch.dtype
        Type in which f and g work.
    """
    network = network.to(functions)
    start = torch.round(x.double() * FIXED_ONE).int() if streams == "fixed" else x.to(_TYPES[streams])
    first = two = start
    with torch.no_grad():
        for block in network.blocks:
            first, two = block(first, two)
        blocks: Any = list(network.blocks)
        for block in reversed(blocks):
            first, two = block.inverse(first, two)
    difference = torch.stack((first, two)).double() - torch.stack((start, start)).double()
    return float(difference.norm() / torch.stack((start, start)).double().norm())


_TYPES = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64}


def _chain(blocks: Sequence[Block], x1: Tensor, x2: Tensor) -> Streams:
    for block in blocks:
        x1, x2 = block(x1, x2)
    return x1, x2


def _real(x: Tensor, block: nn.Module) -> Tensor:
    """A stream as f and g take it."""
    kind = next(block.parameters()).dtype
    return x.to(kind) if x.is_floating_point() else (x.double() / FIXED_ONE).to(kind)


def _add(stream: Tensor, change: Tensor, sign: int) -> Tensor:
    """Add to a stream in the stream's own arithmetic; integers wrap around as a cipher's do."""
    if stream.is_floating_point():
        return stream + sign * change.to(stream.dtype)
    return stream + sign * torch.round(change.double() * FIXED_ONE).to(stream.dtype)
