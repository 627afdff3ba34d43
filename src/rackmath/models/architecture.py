"""What a language model is made of, as far as arithmetic is concerned.

An :class:`Architecture` is a sequence of layers; a layer holds mixers (attention
and its relatives, :mod:`rackmath.models.mixers`), feed-forward blocks and loose
tensors. The kinds form two small closed unions, :data:`Mixer` and
:data:`FeedForward`. Records hold plain integers and are hashable, so equal layers
are counted once.

Widths are in elements. Parameter counts follow from :mod:`rackmath.models.weights`,
cache sizes from :mod:`rackmath.models.cache`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from rackmath.models.adapters import Adapters
from rackmath.models.audio import Windows
from rackmath.models.formats import BF16, Format
from rackmath.models.images import Image, Sizing
from rackmath.models.mixers import Mixer
from rackmath.models.routing import Routing


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
class ParameterTotals:
    """Parameters known only by their totals: the lecture's model, and closed models."""

    total: float
    active: float


FeedForward = Dense | Experts | ParameterTotals


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
    uses : float
        Times that each token is multiplied by it: of a convolution, at the places of a spectrum that become one token.
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
    uses: float = 1.0
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
    encoder: Encoder | None = None
    """What turns images into tokens, outside every total."""
    encoder_exact: bool = True
    """False where the config does not tell all of its encoder."""
    audio: AudioEncoder | None = None
    """What turns sound into tokens, outside every total."""
    audio_exact: bool = True
    """False where the config has one of no known kind."""
    target_hidden: int | None = None
    """Hidden width of the model from whose states it drafts, as an EAGLE head does; None of a model of its own."""
    mtp: tuple[Layer, ...] = ()
    """Multi-token-prediction layers, outside every total."""
    residual_streams: int = 1
    format: Format = BF16
    """Format of tensors that no rule mentions (norms, embedding, head, router)."""
    formats: tuple[tuple[str, Format], ...] = ()
    """Number formats of tensors outside the layers, by name, that differ from ``format``."""
    cache_format: Format = BF16
    state_format: Format = BF16
    """Format of recurrent states."""
    max_context: int | None = None
    rotary_elements: int = 0
    """Elements of the tables of sines and cosines that an engine keeps, outside every total. [elements]"""
    adapters: Adapters | None = None
    """Low-rank adapters that requests choose among, outside every total."""
    images: Images | None = None
    """Images that every prompt holds; None without any."""
    routing: Routing | None = None
    """How tokens choose among experts; None where they choose evenly, as far as anybody says."""
    defaulted: tuple[str, ...] = ()
    not_understood: tuple[str, ...] = ()
    source: str = ""
    model_type: str = ""
    """Class that interprets its config, by the name of its habits; empty where none is known."""
    groups: tuple[tuple[Layer, int], ...] = field(init=False)
    """Distinct layers in order of appearance, with their multiplicity."""

    @property
    def narrowest_bits(self) -> float:
        """Bits of the narrowest format among its tensors. [bits]"""
        return min([self.format.bits, *(form.bits for layer, _ in self.groups for _, form in layer.formats)])

    def __post_init__(self) -> None:
        """Group equal layers once; everything later runs over groups."""
        object.__setattr__(self, "groups", tuple(Counter(self.layers).items()))

    def __repr__(self) -> str:
        """Name and shape: its layers in full are thousands of words."""
        return (
            f"<Architecture {self.name}: {len(self.layers)} layers, hidden {self.hidden}, vocabulary {self.vocabulary}>"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """What turns images into tokens of a prompt."""

    tower: Architecture
    """A transformer over patches, each of which meets all of its image."""
    projector: tuple[Weight, ...]
    """What each token goes through behind it."""
    sizing: Sizing
    """How an image becomes patches, and patches tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioEncoder:
    """What turns sound into tokens of a prompt."""

    tower: Architecture
    """A transformer over the positions of a window, each of which hears all of it."""
    projector: tuple[Weight, ...]
    """What each token goes through behind it."""
    windows: Windows
    """How a clip becomes positions, and positions tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Images of a prompt, or a clip of sound, as an encoder meets them."""

    count: float
    """Of one prompt. [images]"""
    image: Image
    """Pieces, patches and tokens of each."""
    tp_mode: str = "weights"
    """How ranks of a tensor group share the encoder: weights (each matrix split) or data (an image on one rank)."""
    sound: bool = False
    """Whether it is a clip of sound, for the encoder of sound."""

    @property
    def tokens(self) -> float:
        """Tokens of a prompt that they become. [tokens]"""
        return self.count * self.image.tokens
