"""How many kernels a pass launches: what each layer costs besides its bytes and FLOPs.

Engines fuse the projections of one input, a norm with its residual, and the gate with
its activation; what is left is counted here by structure, so a new model gets its count
from its config. Constants of time are fitted per kernel, never per model.
"""

from __future__ import annotations

from rackmath.models.adapter_weights import adapter_kernels
from rackmath.models.architecture import Architecture, Dense, Experts, Layer
from rackmath.models.mixers import Compressed, Grouped, Latent, Mixer, PooledCache
from rackmath.models.operators import HYPER_CONNECTION
from rackmath.models.traffic import core_kind

OUTSIDE = 6
"""Embedding, last norm, head, and the sampler's own: logits, top-k, choice."""

_NORM = 1
_DENSE = 3
_EXPERTS = 8
_HYPER_CONNECTION = 2
"""Of each of a layer's two mixes of residual streams: before a block, and behind it."""
EXPERT_KERNELS = 5
"""Of those, what timings of grouped products hold, and what accelerators launch that hold experts only: sort, permute,
two products, activation."""
_SHARED = 2
_INDEXER = 4
_GROUPED = 5
_LATENT = 9
_COMPRESSED = 12
_RECURRENT = 6


HEADS_AT_ONCE = ("sparse", "sparse_shared", "compressed", "compressed_sparse")
"""Kinds of attention over one latent for all heads that chooses among keys or pools them: their kernels take 64 or 128
heads at once, and as long for fewer. Source: FlashMLA's ``flash_mla_sparse_fwd``."""

CHOOSING = (*HEADS_AT_ONCE, "block_sparse")
"""Kinds of attention that chooses among keys or pools them."""

WHOLE = (*CHOOSING, *(f"{kind}_index" for kind in CHOOSING), "hyper_connection")
"""Kinds of operators whose timings hold the gaps of their whole block: such attention was timed with its projections,
norms and choice."""


def layer_kernels(layer: Layer) -> int:
    """Kernels that one layer launches in one pass. [kernels]

    A mixer or feed-forward block has one fused norm. Grouped attention: joined
    projection, rotation with cache write, attention in two steps, output. Latent
    attention: two stages down and up, rotation, the absorbed products, attention in two
    steps, output. Experts: router, top-k, sort, permute, two grouped products, activation,
    weighted sum.
    """
    mixers = sum(_mixer_kernels(m) + _NORM for m in layer.mixers)
    blocks = 0
    for f in layer.feed_forwards:
        if isinstance(f, Dense):
            blocks += _DENSE + _NORM
        elif isinstance(f, Experts):
            blocks += _EXPERTS + _NORM + (_SHARED if f.shared_width else 0)
    return mixers + blocks + _hyper_connections(layer) * _HYPER_CONNECTION


def pass_kernels(architecture: Architecture) -> int:
    """Kernels of one pass through all layers, the head and the sampler. [kernels]"""
    layers = sum(count * layer_kernels(layer) for layer, count in architecture.groups)
    return layers + adapter_kernels(architecture) + OUTSIDE


def whole_kernels(architecture: Architecture) -> int:
    """Of those, kernels of blocks that were timed as a whole: no gap before them is to be added. [kernels]"""
    return sum(
        count
        * (
            sum(_mixer_kernels(m) for m in layer.mixers if core_kind(m) in CHOOSING)
            + _hyper_connections(layer) * _HYPER_CONNECTION
        )
        for layer, count in architecture.groups
    )


def routed_layers(architecture: Architecture) -> int:
    """Layers of experts. [layers]"""
    return sum(
        count for layer, count in architecture.groups if any(isinstance(f, Experts) for f in layer.feed_forwards)
    )


def routed_experts(architecture: Architecture) -> int:
    """Routed experts of all layers. [experts]"""
    return sum(
        count * sum(f.experts for f in layer.feed_forwards if isinstance(f, Experts))
        for layer, count in architecture.groups
    )


def _hyper_connections(layer: Layer) -> int:
    """Mixes of residual streams in a layer."""
    return sum(w.copies for w in layer.extras if w.name == HYPER_CONNECTION)


def _mixer_kernels(mixer: Mixer) -> int:
    match mixer:
        case Grouped():
            return _GROUPED + (_INDEXER if mixer.blocks else 0)
        case Latent():
            return _LATENT + (_INDEXER if mixer.indexer else 0)
        case Compressed():
            return _COMPRESSED
        case PooledCache():
            return 0
        case _:
            return _RECURRENT
