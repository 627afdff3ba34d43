"""Number formats that a chip supports, for a model as it comes."""

from __future__ import annotations

from collections.abc import Sequence

from rackmath.hardware import Chip
from rackmath.models.architecture import Architecture
from rackmath.models.counts import main_format
from rackmath.models.formats import CACHE_FORMATS, FORMATS
from rackmath.models.requantise import requantise
from rackmath.serving.workload import Variant

_NARROWER = (("fp8", 8), ("nvfp4", 4))
"""Formats that engines convert to, with their bits, where a chip multiplies them."""


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
