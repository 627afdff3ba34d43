"""The same model at other number formats: what ``--weights`` and ``--kv`` mean."""

from __future__ import annotations

from dataclasses import replace

from rackmath.models.architecture import Architecture, Layer
from rackmath.models.formats import Format
from rackmath.models.weights import layer_weights

CONVERTED = ("attention", "recurrent", "indexer", "feed_forward", "shared", "experts")
"""Tensor classes that a quantiser converts; embedding, head, router and norms keep their format."""


def requantise(architecture: Architecture, weights: Format | None = None, cache: Format | None = None) -> Architecture:
    """Return the model with its linear layers, its cache, or both at another format."""
    changed = architecture if cache is None else replace(architecture, cache_format=cache)
    if weights is None:
        return changed
    layers = {layer: _converted(layer, architecture.hidden, weights) for layer, _ in architecture.groups}
    return replace(changed, layers=tuple(layers[layer] for layer in architecture.layers))


def _converted(layer: Layer, hidden: int, form: Format) -> Layer:
    names = [w.name for w in layer_weights(layer, hidden) if w.columns and w.role in CONVERTED]
    return replace(layer, formats=tuple((name, form) for name in dict.fromkeys(names)))
