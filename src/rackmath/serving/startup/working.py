"""Working memory of an engine: the largest pass, what sampling needs, graphs, and what is not PyTorch's.

What is counted follows vLLM's ``profile_run``: one pass of the largest number of tokens, then a sampling of all
sequences. Constants are of the starts of vLLM 0.19 on H100 in docs/accuracy-of-memory.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from rackmath.engine.layout import Layout
from rackmath.models.architecture import Architecture, Dense, Experts, Layer
from rackmath.models.mixers import Compressed, Grouped, Latent

_MIB, _GIB = 2**20, 2**30

_LIVE = 3.5
"""Hidden-wide tensors alive beside the widest of a pass."""
_SAMPLED = 12.0
"""Bytes per logit beside the logits themselves: three copies of 32 bits (the logits, their exponentials, noise). [B]"""
_PROCESSORS = 132
"""Multiprocessors, each of which keeps a row of 32-bit logits while it looks for the top ones; of an H100."""
_BUFFERS = 50e6
"""Inputs and tables of the engine. [B]"""
_ENCODER = 2.5
"""Hidden-wide tensors per token of a pass that an encoder of images and its outputs take."""

_CONTEXT = 0.25 * _GIB
"""The driver's context and loaded kernels. [B]"""
_COLLECTIVES, _PER_RANK = 1.75 * _GIB, 0.04 * _GIB
"""Buffers of collectives from two ranks of a tensor group on, and for each rank. [B]"""

_GRAPHS, _PER_LAYER, _WITH_EXPERTS = 0.3 * _GIB, 17.5 * _MIB, 0.33 * _GIB
"""Graphs of all batches up to 512 together, for each layer, and where layers have experts. [B]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """Most that PyTorch allocates beside the weights. [B]"""

    forward: float
    """The pass itself."""
    sampling: float
    """Sampling behind it, with the pass's output."""
    experts: float
    """What kernels of experts keep."""
    images: float
    """An encoder of images and its outputs."""
    widest: float
    """Elements per token of the widest block on a rank. [elements]"""
    buffers: float = _BUFFERS
    """Inputs and tables of the engine."""

    @property
    def total(self) -> float:
        """The larger of pass and sampling, and what stands beside both."""
        return max(self.forward, self.sampling) + self.experts + self.images + self.buffers


def element_bytes(architecture: Architecture) -> float:
    """Bytes of an element of a pass: of the config's format, 16 bit where that is narrower. [B]"""
    return max(architecture.format.bytes_per_element, 2.0)


def peak(
    architecture: Architecture, layout: Layout, tokens: float, sequences: float, *, in_place: bool = False
) -> Peak:
    r"""Most that PyTorch allocates beside the weights, on the last stage, in a pass and the sampling behind it.

    .. math:: \max(T w (f + 3.5 d), \; S V (w + 12) + 4 P V + T w d) + 50 MB

    with T tokens, S sequences, w bytes of an element, f the elements alive in the widest block on a rank, d the
    hidden width, V the vocabulary, P multiprocessors; and what kernels of experts keep beside it. Sampling ``in_place``
    keeps S V w of logits.
    """
    width = element_bytes(architecture)
    token = width * architecture.hidden * architecture.residual_streams
    widest = max((_widest(layer, layout) for layer, _ in architecture.groups), default=0.0)
    vocabulary = architecture.vocabulary if architecture.head else 0
    copies = 0.0 if in_place else sequences * _SAMPLED + 4 * _PROCESSORS
    experts = max((_workspace(layer, architecture, layout, tokens) for layer, _ in architecture.groups), default=0.0)
    return Peak(
        forward=tokens * (width * widest + _LIVE * token),
        sampling=vocabulary * (sequences * width + copies) + tokens * token,
        experts=width / 2 * experts,
        images=_ENCODER * tokens * token if architecture.encoder or architecture.audio else 0.0,
        widest=widest,
    )


def _widest(layer: Layer, layout: Layout) -> float:
    """Elements per token of what is alive at once in the widest block of a layer, on one rank."""
    tensor = float(layout.tensor)
    wide = [0.0]
    for block in layer.feed_forwards:
        if isinstance(block, Dense):
            wide.append((3 if block.gated else 2) * block.width / tensor)
        elif isinstance(block, Experts):
            wide.append(3 * block.shared_width / tensor)
    for mixer in layer.mixers:
        match mixer:
            case Grouped():
                heads = 2 * mixer.query_heads * mixer.key_dim + mixer.kv_heads * (mixer.key_dim + mixer.value_dim)
                wide.append(heads / tensor)
            case Latent():
                wide.append(mixer.query_heads * (3 * (mixer.nope_dim + mixer.rope_dim) + 2 * mixer.value_dim) / tensor)
            case Compressed():
                wide.append(2 * mixer.query_heads * mixer.head_dim / tensor)
            case _:
                pass
    return max(wide)


def _workspace(layer: Layer, architecture: Architecture, layout: Layout, tokens: float) -> float:
    """Bytes at 16 bit that kernels of experts keep between passes: inputs and outputs of each token's experts. [B]

    Kernels for MXFP4 keep none.
    """
    formats = {form.name for name, form in layer.formats if "experts" in name and "shared" not in name}
    if any(name.startswith("mxfp4") for name in formats):
        return 0.0
    for block in layer.feed_forwards:
        if isinstance(block, Experts):
            hidden = block.latent or architecture.hidden
            slice_width = block.width / float(layout.expert_slices)
            pairs = tokens * block.active
            return 2 * pairs * (max(2 * slice_width, hidden) + max(slice_width, hidden))
    return 0.0


def outside(layout: Layout) -> float:
    """What is not PyTorch's: the driver's context, buffers of collectives. [B]"""
    if layout.tensor == 1 and layout.expert == 1:
        return _CONTEXT
    return _CONTEXT + _COLLECTIVES + _PER_RANK * float(max(layout.tensor, layout.expert))


def graphs(architecture: Architecture, layers: int, largest: float) -> float:
    """Memory of graphs of decode steps of all batches up to ``largest``. [B]"""
    mixture = any(isinstance(block, Experts) for layer, _ in architecture.groups for block in layer.feed_forwards)
    return largest / 512 * (_GRAPHS + _PER_LAYER * layers + _WITH_EXPERTS * mixture)
