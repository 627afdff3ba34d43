"""The same model at other number formats: what ``--weights`` and ``--kv`` mean."""

from __future__ import annotations

from dataclasses import replace

from rackmath.models.architecture import Architecture, Layer
from rackmath.models.counts import main_format
from rackmath.models.formats import GGUF_FILES, Format
from rackmath.models.gguf import in_file
from rackmath.models.weights import layer_weights

CONVERTED = ("attention", "recurrent", "indexer", "feed_forward", "shared", "experts")
"""Tensor classes that a quantiser converts; embedding, head, router and norms keep their format."""

_FEED_FORWARD = ("feed_forward", "shared", "experts")


def requantise(
    architecture: Architecture,
    weights: Format | None = None,
    cache: Format | None = None,
    *,
    keep_attention: bool = False,
) -> Architecture:
    """Return the model with its linear layers, its cache, or both at another format.

    The format that most of its weights are in means the model as it comes: experts in MXFP4 have attention in 16 bit.
    ``keep_attention`` converts feed-forward blocks and experts only, as 4-bit releases of
    models with latent attention do. File types of llama.cpp convert every tensor, by
    :func:`rackmath.models.gguf.in_file`.
    """
    result = architecture if cache is None else replace(architecture, cache_format=cache)
    if weights is None:
        return result
    if weights.name in GGUF_FILES:
        return in_file(result, weights.name)
    if weights.name == main_format(architecture).name:
        return result
    roles = _FEED_FORWARD if keep_attention else CONVERTED
    layers = {layer: _converted(layer, architecture.hidden, weights, roles) for layer, _ in architecture.groups}
    return replace(result, layers=tuple(layers[layer] for layer in architecture.layers))


def _converted(layer: Layer, hidden: int, form: Format, roles: tuple[str, ...]) -> Layer:
    names = [w.name for w in layer_weights(layer, hidden) if w.columns and w.role in roles]
    other_formats = tuple(pair for pair in layer.formats if pair[0] not in names)
    return replace(layer, formats=other_formats + tuple((name, form) for name in dict.fromkeys(names)))
