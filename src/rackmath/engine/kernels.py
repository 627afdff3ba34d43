"""How many kernels a pass launches: what each layer costs besides its bytes and FLOPs.

Engines fuse the projections of one input, a norm with its residual, and the gate with
its activation; what is left is counted here by structure, so a new model gets its count
from its config. Constants of time are fitted per kernel, never per model.
"""

from __future__ import annotations

from rackmath.models.adapter_weights import adapter_kernels
from rackmath.models.architecture import Architecture, Dense, Experts, Layer
from rackmath.models.mixers import Compressed, Grouped, Latent, Mixer, PooledCache

OUTSIDE = 6
"""Embedding, last norm, head, and the sampler's own: logits, top-k, choice."""

_NORM = 1
_DENSE = 3
_EXPERTS = 8
EXPERT_KERNELS = 5
"""Of those, what timings of grouped products hold, and what accelerators launch that hold experts only: sort, permute,
two products, activation."""
_SHARED = 2
_INDEXER = 4
_GROUPED = 5
_LATENT = 9
_COMPRESSED = 12
_RECURRENT = 6


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
    return mixers + blocks


def pass_kernels(architecture: Architecture) -> int:
    """Kernels of one pass through all layers, the head and the sampler. [kernels]"""
    layers = sum(count * layer_kernels(layer) for layer, count in architecture.groups)
    return layers + adapter_kernels(architecture) + OUTSIDE


def routed_layers(architecture: Architecture) -> int:
    """Layers of experts. [layers]"""
    return sum(
        count for layer, count in architecture.groups if any(isinstance(f, Experts) for f in layer.feed_forwards)
    )


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
