"""What a language model is made of, as far as arithmetic is concerned.

An :class:`Architecture` is a sequence of layers; a layer holds mixers (attention
and its relatives), feed-forward blocks and loose tensors. The kinds form two small
closed unions, :data:`Mixer` and :data:`FeedForward`. Records hold plain integers
and are hashable, so equal layers are counted once.

Widths are in elements. Parameter counts follow from :mod:`rackmath.models.weights`,
cache sizes from :mod:`rackmath.models.cache`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from rackmath.models.formats import BF16, Format


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
    blocks: BlockIndex | None = None
    owned: bool = True
    """False where the weights are those of an earlier layer, read again."""
    cross: bool = False
    """True where queries meet vision tokens only: no cache per text token."""


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
    bias: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixMemory:
    """mLSTM of xLSTM: matrix memory of ``key_dim`` x ``value_dim`` per head."""

    heads: int
    key_dim: int
    value_dim: int
    bias: bool = False


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense:
    """A feed-forward block that every token passes."""

    width: int
    gated: bool = True
    bias: bool = False
    owned: bool = True
    input_width: int | None = None
    adapter_rank: int = 0
    """Rank of a per-layer adapter on the first projection (Zamba 2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture of experts: ``active`` of ``experts`` per token, plus shared ones."""

    experts: int
    active: int
    width: int
    gated: bool = True
    bias: bool = False
    latent: int | None = None
    """Width that the routed experts act on, if not the hidden width (latent MoE)."""
    latent_norm: bool = False
    shared_width: int = 0
    """Sum of the widths of the shared experts; 0 without any."""
    shared_gate: bool = False
    router_bias: bool = False
    router_elements: int = 0
    """Loose elements of the router (scales, learnt biases that are parameters)."""
    zero_experts: int = 0
    """Router slots that compute nothing and return the token (LongCat)."""
    router: bool = True
    """False where tokens are assigned by a table instead of a matrix."""

    @property
    def expected_active(self) -> float:
        """Experts with weights that a token meets on average. [experts]"""
        return self.active * self.experts / (self.experts + self.zero_experts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Parameters known only by their totals: the lecture's model, and closed models."""

    total: float
    active: float


FeedForward = Dense | Experts | Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """One tensor, or ``copies`` equal ones.

    Parameters
    ----------
    name : str
        Module path inside the layer, in the spelling of the Hugging Face classes;
        quantisation rules match it.
    role : str
        Tensor class: attention, recurrent, indexer, feed_forward, shared, experts,
        router, norm, embedding, head or other.
    rows, columns : int
        Output and input width. ``columns`` 0 marks a vector (norm, bias, convolution).
    copies : int
        Equal tensors, one per expert.
    multiplied : bool
        Whether each token is multiplied by it (2 FLOP per element).
    owned : bool
        False if the tensor belongs to another place and is only read here.
    split : str
        What tensor parallelism divides it by: heads, kv_heads, width, experts,
        vocabulary, all, or none (replicated).
    """

    name: str
    role: str
    rows: float
    columns: float = 0
    copies: int = 1
    multiplied: bool = True
    owned: bool = True
    split: str = "none"

    @property
    def elements(self) -> float:
        """Elements of all copies. [elements]"""
        return self.copies * self.rows * (self.columns or 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One decoder layer: what mixes tokens, what transforms them, what is left over."""

    mixers: tuple[Mixer, ...] = ()
    feed_forwards: tuple[FeedForward, ...] = ()
    norm_elements: int = 0
    extras: tuple[Weight, ...] = ()
    formats: tuple[tuple[str, Format], ...] = ()
    """Number formats of tensors, by name, that differ from the model's default."""
    parallel: bool = False
    """True where mixer and feed-forward read the same input: one reduction, not two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A whole model, with what was assumed while reading it."""

    name: str
    hidden: int
    vocabulary: int
    layers: tuple[Layer, ...]
    tied: bool = False
    head: bool = True
    head_bias: bool = False
    extras: tuple[Weight, ...] = ()
    """Loose tensors of the model: final norm, positions, per-layer embeddings."""
    vision_params: int = 0
    vision_exact: bool = True
    mtp: tuple[Layer, ...] = ()
    """Multi-token-prediction layers, outside every total."""
    residual_streams: int = 1
    format: Format = BF16
    """Format of tensors that no rule mentions (norms, embedding, head, router)."""
    cache_format: Format = BF16
    state_format: Format = BF16
    """Format of recurrent states."""
    max_context: int | None = None
    defaulted: tuple[str, ...] = ()
    not_understood: tuple[str, ...] = ()
    source: str = ""
    groups: tuple[tuple[Layer, int], ...] = field(init=False)
    """Distinct layers in order of appearance, with their multiplicity."""

    def __post_init__(self) -> None:
        """Group equal layers once; everything later runs over groups."""
        object.__setattr__(self, "groups", tuple(Counter(self.layers).items()))
