"""Number formats that a chip supports, for a model as it comes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rackmath.hardware import Chip
from rackmath.models.architecture import Architecture
from rackmath.models.counts import weight_format_of
from rackmath.models.formats import CACHE_FORMATS, FORMATS, Format
from rackmath.models.requantise import requantise
from rackmath.models.weights import layer_weights
from rackmath.serving.workload import Variant

_NARROWER = (("fp8", 8), ("nvfp4", 4))
"""Formats that engines convert to, with their bits, where a chip multiplies them."""


def main_format(architecture: Architecture) -> Format:
    """Format that most parameters inside layers are stored in."""
    held: defaultdict[Format, float] = defaultdict(float)
    for layer, count in architecture.groups:
        for weight in layer_weights(layer, architecture.hidden):
            if weight.owned:
                held[weight_format_of(architecture, layer, weight)] += count * weight.elements
    return max(held, key=lambda f: held[f], default=architecture.format)


def supported(
    architecture: Architecture, chip: Chip, weights: Sequence[str] = (), kv: Sequence[str] = ()
) -> tuple[Variant, ...]:
    """Variants of a model that a chip multiplies natively; those asked for, if any are.

    By default the format of the checkpoint and each narrower one that the chip has a rate
    for; caches as the checkpoint has them, and in 8 bit where the chip has it. What a
    narrower format does to answers is not judged.
    """
    own = main_format(architecture)
    have = dict(chip.rates)
    if not weights:
        weights = [own.name] + [n for n, bits in _NARROWER if bits < own.bits and FORMATS[n].compute in have]
    if not kv:
        kv = [architecture.cache_format.name]
        kv += ["fp8"] if architecture.cache_format.bits > 8 and "fp8" in have else []
    return tuple(
        Variant(
            weights=form,
            kv=cache,
            architecture=requantise(
                architecture, None if form == own.name else FORMATS[form], CACHE_FORMATS.get(cache)
            ),
        )
        for form in weights
        for cache in kv
    )
