"""What stands in an accelerator's memory whatever a pass reads: weights as loaded, tables, a draft model, adapters."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rackmath.engine.layout import Layout, draft_layout
from rackmath.engine.sharding import adapter_bytes, split_share, stage_share
from rackmath.models.architecture import Architecture
from rackmath.models.counts import encoder_params
from rackmath.models.loaded import LoadedWeights, Multiples, loaded_weights
from rackmath.serving.startup import working


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """On the tightest rank of a layout. All in bytes."""

    loaded: LoadedWeights
    vision: float
    tables: float
    """Sines and cosines of positions."""
    draft: float
    adapters: float
    """Room for low-rank adapters."""
    size: float
    """All of it, of the fuller of the first and the last stage."""
    stage: Architecture
    """The layers of the longest stage."""


def resident(
    architecture: Architecture,
    layout: Layout,
    *,
    multiples: Multiples,
    speculative: bool = False,
    draft: Architecture | None = None,
) -> Resident:
    """Account for what no budget of tokens and no part of the memory moves.

    Parameters
    ----------
    layout : Layout
        Of plain integers.
    multiples : Multiples
        What kernels pad experts in MXFP4 to.
    speculative : bool
        Whether the model's own layers that draft are loaded.
    draft : Architecture, optional
        Model that drafts beside it.
    """
    element = working.element_bytes(architecture)
    weights = _loaded(architecture, layout, multiples=multiples, speculative=speculative)
    vision = encoder_params(architecture) * element / float(layout.tensor)
    tables = architecture.rotary_elements * element
    drafting = 0.0
    if draft is not None:
        part = _loaded(draft, draft_layout(draft, layout), multiples=multiples, speculative=False)
        drafting = part.embedding + part.head + part.layers + part.outside
    adapters = architecture.adapters
    room = 0.0 if adapters is None else adapters.resident * float(adapter_bytes(architecture, adapters, layout))
    stage = architecture
    if layout.pipeline != 1:
        stage = replace(architecture, layers=architecture.layers[-stage_layers(architecture, layout) :])
    return Resident(
        loaded=weights,
        vision=vision,
        tables=tables,
        draft=drafting,
        adapters=room,
        size=_on_stage(weights, architecture, layout) + vision + tables + drafting + room,
        stage=stage,
    )


def stage_layers(architecture: Architecture, layout: Layout) -> int:
    """Layers of the longest stage. [layers]"""
    return round(float(stage_share(architecture, layout)) * len(architecture.layers))


def _loaded(architecture: Architecture, layout: Layout, *, multiples: Multiples, speculative: bool) -> LoadedWeights:
    return loaded_weights(
        architecture,
        lambda kind, parts: float(split_share(kind, parts, layout)),
        slices=float(layout.expert_slices),
        multiples=multiples,
        speculative=speculative,
    )


def _on_stage(weights: LoadedWeights, architecture: Architecture, layout: Layout) -> float:
    """Bytes of the fuller of the first and the last stage. [B]"""
    layers = weights.layers * float(stage_share(architecture, layout)) + weights.speculative
    if layout.pipeline == 1:
        return layers + weights.embedding + weights.head + weights.outside
    head = weights.head or weights.embedding
    return layers + max(weights.embedding, head + weights.outside)
