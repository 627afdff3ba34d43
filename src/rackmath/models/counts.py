"""Exact counts of a model: parameters, active parameters, bytes by tensor class."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from rackmath.models.architecture import Architecture, AudioEncoder, Encoder, Experts, Layer, ParameterTotals, Weight
from rackmath.models.formats import Format
from rackmath.models.weights import layer_weights, model_weights

_EMBEDDINGS = ("embedding", "other_embedding")


def all_weights(architecture: Architecture) -> Iterator[tuple[Weight, int]]:
    """Tensors of the text model with their multiplicity; MTP layers are left out."""
    for weight in model_weights(architecture):
        yield weight, 1
    for layer, count in architecture.groups:
        for weight in layer_weights(layer, architecture.hidden):
            yield weight, count


def total_params(architecture: Architecture) -> float:
    """Parameters stored, each once: text model with embeddings and head. [1]

    Vision towers and MTP layers are counted apart, buffers not at all.
    """
    return _whole(sum(w.elements * n for w, n in all_weights(architecture) if w.owned))


def active_params(architecture: Architecture) -> float:
    """Parameters less the routed experts that a token does not meet. [1]

    Embedding and head are included; ``total - routed * (1 - k/E)``.
    """
    unmet = sum(n * _unmet(layer, architecture.hidden) for layer, n in architecture.groups)
    return _whole(total_params(architecture) - unmet)


def embedding_params(architecture: Architecture) -> float:
    """Parameters of the input embedding. [1]"""
    return _whole(sum(w.elements for w in model_weights(architecture) if w.role == "embedding"))


def params_by_role(architecture: Architecture) -> dict[str, float]:
    """Parameters by tensor class. [1]"""
    sums: defaultdict[str, float] = defaultdict(float)
    for weight, count in all_weights(architecture):
        sums[weight.role] += weight.elements * count * weight.owned
    return {role: _whole(value) for role, value in sorted(sums.items()) if value}


def encoder_params(architecture: Architecture) -> float:
    """Parameters of the encoders of images and of sound with their projections; 0 without any. [1]"""
    return _tower_params(architecture.encoder) + audio_params(architecture)


def audio_params(architecture: Architecture) -> float:
    """Parameters of the encoder of sound and of its projection; 0 without one. [1]"""
    return _tower_params(architecture.audio)


def _tower_params(encoder: Encoder | AudioEncoder | None) -> float:
    if encoder is None:
        return 0
    return _whole(total_params(encoder.tower) + sum(w.elements for w in encoder.projector))


def mtp_params(architecture: Architecture) -> float:
    """Parameters of the multi-token-prediction layers. [1]"""
    return _whole(
        sum(w.elements for layer in architecture.mtp for w in layer_weights(layer, architecture.hidden) if w.owned)
    )


def weight_format_of(architecture: Architecture, layer: Layer | None, weight: Weight) -> Format:
    """Format of one tensor: the rule for it of its layer, or of the model outside the layers, else the model's."""
    for name, weight_format in architecture.formats if layer is None else layer.formats:
        if name == weight.name:
            return weight_format
    return architecture.format


def _stored(architecture: Architecture, *, outside: bool = True) -> Iterator[tuple[Weight, int, Format]]:
    """Tensors that a model stores, with multiplicity and format; ``outside`` the layers too."""
    if outside:
        for weight in model_weights(architecture):
            if weight.owned:
                yield weight, 1, weight_format_of(architecture, None, weight)
    for layer, count in architecture.groups:
        for weight in layer_weights(layer, architecture.hidden):
            if weight.owned:
                yield weight, count, weight_format_of(architecture, layer, weight)


def elements_by_format(architecture: Architecture) -> dict[str, dict[Format, float]]:
    """Elements by tensor class and format, most first in each class. [elements]"""
    sums: defaultdict[str, defaultdict[Format, float]] = defaultdict(lambda: defaultdict(float))
    for weight, count, form in _stored(architecture):
        sums[weight.role][form] += count * weight.elements
    return {
        role: {form: _whole(n) for form, n in sorted(formats.items(), key=lambda pair: -pair[1])}
        for role, formats in sorted(sums.items())
    }


def main_format(architecture: Architecture) -> Format:
    """Format that most parameters inside layers are stored in."""
    elements: defaultdict[Format, float] = defaultdict(float)
    for weight, count, form in _stored(architecture, outside=False):
        elements[form] += count * weight.elements
    return max(elements, key=lambda form: elements[form], default=architecture.format)


def tensor_bytes(weight: Weight, form: Format) -> float:
    """Bytes of all copies of a tensor, scales included. [B]"""
    if weight.columns == 0:
        return weight.elements * form.bits / 8
    if weight.columns == 1:
        return weight.elements * form.bytes_per_element
    return form.matrix_bytes(weight.rows, weight.columns, weight.copies)


def weight_bytes(architecture: Architecture) -> dict[str, float]:
    """Bytes of the weights by tensor class, at the config's own formats. [B]"""
    sums: defaultdict[str, float] = defaultdict(float)
    for weight, count, form in _stored(architecture):
        sums[weight.role] += count * tensor_bytes(weight, form)
    return dict(sorted(sums.items()))


def multiplied_params(architecture: Architecture, head: bool = True) -> float:
    """Parameters that one token is multiplied by: matrices, experts at top-k. [1]

    Twice this is the linear part of the FLOPs per token.
    """
    total = sum(w.uses * w.elements for w in model_weights(architecture) if w.multiplied and (head or w.role != "head"))
    for layer, count in architecture.groups:
        for weight in layer_weights(layer, architecture.hidden):
            if weight.multiplied:
                total += count * weight.elements * met_fraction(layer, weight)
    return total


def met_fraction(layer: Layer, weight: Weight) -> float:
    """Fraction of a tensor's copies that one token meets: k/E for experts, else 1."""
    if weight.role == "experts":
        mixture = _mixture(layer)
        return mixture.expected_active / mixture.experts
    if weight.name == "pool":
        pool = next(f for f in layer.feed_forwards if isinstance(f, ParameterTotals))
        return pool.active / pool.total
    return 1.0


def _mixture(layer: Layer) -> Experts:
    return next(f for f in layer.feed_forwards if isinstance(f, Experts))


def _unmet(layer: Layer, hidden: int) -> float:
    unmet = 0.0
    for weight in layer_weights(layer, hidden):
        if weight.role == "experts":
            mixture = _mixture(layer)
            # Whole experts, so that counts stay integers: a mean of k stays k/E.
            unmet += weight.elements / mixture.experts * (mixture.experts - mixture.expected_active)
        elif weight.name == "pool":
            unmet += weight.elements * (1 - met_fraction(layer, weight))
    return unmet


def _whole(value: float) -> float:
    """Return an integer where the value is one, so that counts print without a point."""
    return int(value) if float(value).is_integer() else value
