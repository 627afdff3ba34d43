"""What goes through a model at once, and one operator of the pass: the records of counting."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from rackmath.models.numbers import Number

PHASES = ("decode", "prefill", "train")
"""New tokens of running sequences, whole prompts, or whole sequences whose every position is predicted."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pass:
    """What goes through the model at once, on one attention group."""

    phase: str
    """decode or prefill; decides the form of latent attention unless ``absorbed`` does."""
    sequences: Number
    """Sequences in the pass. [sequences]"""
    new_tokens: Number
    """New tokens per sequence: 1 in decode (more with speculation). [tokens]"""
    context: Number
    """Tokens that the last new token sees, itself included. [tokens]"""
    expert_tokens: Number | None = None
    """Tokens that share one set of experts; None means those of this pass. [tokens]"""
    absorbed: bool | None = None
    """Latent attention on the latent itself; None: in decode yes, in prefill no."""

    @property
    def tokens(self) -> Number:
        """New tokens in the pass. [tokens]"""
        return self.sequences * self.new_tokens

    @property
    def uses_absorbed(self) -> bool:
        """Whether latent attention runs in its absorbed form."""
        return self.phase == "decode" if self.absorbed is None else self.absorbed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operator:
    """One distinct operator of one kind of layer, for the whole model's width.

    ``count`` layers have it; every other field is for one of them.
    """

    name: str
    role: str
    """Tensor class, or attention and recurrence for the cores of mixers."""
    compute: str
    """Precision of the multiplication: bf16, fp8, int8 or fp4."""
    split: str
    """What tensor parallelism divides it by (see :class:`Weight`)."""
    parts: int | None
    """Units that ``split`` can divide (heads, experts); None for as many as asked."""
    cache_split: int | None
    """Parts that the cache divides into: KV heads; 0 replicates, None divides evenly."""
    count: int
    layered: bool
    """False for embedding and head, which stand outside the layers."""
    kind: str = "product"
    """product, experts (a product per expert), attention, latent (one key for all heads), attention that chooses among
    keys (sparse, sparse_shared, block_sparse) or pools them (compressed, compressed_sparse), the index (sparse_index,
    ...), recurrence, hyper_connection (residual streams that are mixed) or other."""
    rows: Number = 1.0
    """Tokens that meet one matrix at once: those of one expert in the mean; keys that attention meets. [tokens]"""
    matrices: Number = 0.0
    """Parts that one kernel takes one after the other: experts that are read, caches that are attended to. [1]"""
    kernel: str = ""
    """Operators of one name here run as one kernel: projections of the same input, products of one mixture."""
    bits: float = 16
    """Bits of one stored weight. [bit]"""
    codebook: bool = False
    """Whether weights are looked up in a table."""
    scores: Number = 0.0
    """Products of a query and a key in attention, over all heads; a fused kernel keeps them on chip."""
    sides: tuple[float, float] = (inf, inf)
    """Output and input width of one matrix. [elements]"""
    cut: int = 0
    """Which of the two a split over ranks divides."""
    flops: Number = 0.0
    weight_bytes: Number = 0.0
    cache_read: Number = 0.0
    cache_written: Number = 0.0
    activation_bytes: Number = 0.0
