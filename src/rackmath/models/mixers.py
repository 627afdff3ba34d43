"""The closed union of what mixes tokens: attention of every kind, and what replaces it.

Widths are in elements. Records hold plain integers and are hashable.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped:
    """Attention with ``query_heads`` sharing ``kv_heads`` (MHA, GQA, MQA)."""

    query_heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    window: int | None = None
    """Each query sees the last ``window`` tokens, itself included. [tokens]"""
    chunk: int | None = None
    """Each query sees its own chunk of this length up to itself (Llama 4). [tokens]"""
    input_width: int | None = None
    """Width that the projections read, if not the hidden width (Zamba 2)."""
    query_rank: int | None = None
    """Width between the two matrices of queries, with a norm there; None for one matrix (Step-3 has two)."""
    gate_width: int = 0
    """Width of a gate on the output, projected from the input; 0 without one."""
    query_bias: bool = False
    kv_bias: bool = False
    out_bias: bool = False
    norm_elements: int = 0
    """Elements of the norms on queries and keys."""
    sinks: bool = False
    stores: bool = True
    """False where the layer reads the cache of an earlier layer and has no own."""
    value_from_key: bool = False
    """True where no value projection exists: values are the keys before their norm."""
    fused: bool = False
    """True where checkpoints hold queries, keys and values as one matrix."""
    blocks: BlockIndex | None = None
    owned: bool = True
    """False where the weights are those of an earlier layer, read again."""
    cross: bool = False
    """True where queries meet vision tokens only: no cache per text token."""
    bidirectional: bool = False
    """True where queries meet the keys behind them too, as in an encoder: nothing is kept for later tokens."""
    convolution: int = 0
    """Inputs of convolutions around the attention that a sequence keeps. [elements]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockIndex:
    """Block-sparse attention: an index picks ``blocks`` blocks of ``block`` tokens."""

    heads: int
    dim: int
    block: int
    blocks: int
    local_blocks: int = 0
    norm_elements: int = 0

    @property
    def visible(self) -> int:
        """Tokens that a query reads at most. [tokens]"""
        return (self.blocks + self.local_blocks) * self.block


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexer:
    """DeepSeek sparse attention: a light index picks ``topk`` tokens per query."""

    heads: int
    dim: int
    topk: int
    owned: bool = True
    """False where the layer uses the choice that an earlier layer made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latent:
    """Multi-head latent attention (MLA): the cache holds one latent for all heads."""

    query_heads: int
    query_rank: int | None
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    bias: bool = False
    gate_width: int = 0
    indexer: Indexer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compressed:
    """DeepSeek V4 attention: a window, and beyond it one entry per ``ratio`` tokens.

    ``ratio`` 0 has the window only, 4 is CSA (indexed, overlapping compressor),
    larger ratios are HCA (all entries are read).
    """

    query_heads: int
    head_dim: int
    query_rank: int
    out_groups: int
    out_rank: int
    window: int
    ratio: int
    indexer: Indexer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedDelta:
    """Gated DeltaNet: a matrix state per value head, updated by the delta rule."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int
    norm_elements: int
    out_gate: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class KimiDelta:
    """Kimi Delta Attention (KDA): a delta rule with a gate per channel."""

    heads: int
    dim: int
    kernel: int
    full_rank_gate: bool = False
    full_rank_decay: bool = False
    """Whether one matrix makes the gate of forgetting, instead of two of low rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba1:
    """Selective state space with a diagonal state per channel."""

    inner: int
    state: int
    rank: int
    kernel: int
    conv_bias: bool = True
    proj_bias: bool = False
    norm_elements: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba2:
    """State space dual: scalar decay per head, state of ``head_dim`` x ``state``."""

    heads: int
    head_dim: int
    groups: int
    state: int
    kernel: int
    conv_bias: bool = True
    proj_bias: bool = False
    out_bias: bool = False
    norm_elements: int = 0

    @property
    def inner(self) -> int:
        """Width of the state-space branch. [elements]"""
        return self.heads * self.head_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class Lightning:
    """Lightning attention (MiniMax-01): linear attention with a fixed decay per head."""

    heads: int
    dim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortConvolution:
    """Gated short convolution over the hidden width (LFM2)."""

    kernel: int
    bias: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixMemory:
    """mLSTM of xLSTM: matrix memory of ``key_dim`` x ``value_dim`` per head."""

    heads: int
    key_dim: int
    value_dim: int
    bias: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledCache:
    """A cache known only by its size: the lecture's model, and closed models.

    It is read in full at every step and divides evenly over all accelerators.
    """

    elements: float
    """Cache elements per token of context. [elements]"""
    attention_flops: float = 0.0
    """FLOPs per query and token of context; the lecture takes 0. [FLOP]"""


Mixer = (
    Grouped
    | Latent
    | Compressed
    | GatedDelta
    | KimiDelta
    | Mamba1
    | Mamba2
    | Lightning
    | ShortConvolution
    | MatrixMemory
    | PooledCache
)
