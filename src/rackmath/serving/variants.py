"""Number formats that a chip supports, for a model as it comes."""

from __future__ import annotations

from collections.abc import Sequence

from rackmath.errors import InputError
from rackmath.hardware import Chip
from rackmath.models.architecture import Architecture
from rackmath.models.counts import main_format
from rackmath.models.formats import (
    BF16,
    FORMATS,
    GGUF_CACHES,
    GGUF_FILES,
    GGUF_TENSORS,
    Format,
    cache_format,
    weight_format,
)
from rackmath.models.requantise import requantise
from rackmath.serving.engines import reads_own_files
from rackmath.serving.workload import Variant

_NARROWER = (("fp8", 8), ("nvfp4", 4))
"""Formats that engines convert to, with their bits, where a chip multiplies them."""


AUTO = "auto"
"""Name of an engine's default for the format of a cache. Source: ``--kv-cache-dtype`` of vLLM and SGLang."""
_OWN_CACHES = {"fp8-pure": "q8_0", "int8": "q8_0", "nvfp4": "q4_0", "fp4": "q4_0"}
"""Types of llama.cpp's cache next in width to those of other engines."""

_FILES = ("q8_0", "q4_k_m")
"""Types of files that are tried beside the checkpoint's own format, where an engine makes files."""


def file_of(architecture: Architecture, family: str) -> str | None:
    """Type of the file that an engine converts a checkpoint to, where its files lack the format; else None.

    Files of llama.cpp hold no floats of 8 bits, and no integers of 4 bits as GPTQ, AWQ or vLLM have them; beside
    experts in MXFP4 they hold 8-bit blocks.
    """
    own_format = main_format(architecture)
    if not reads_own_files(family) or own_format.bits > 8:
        return None
    if own_format.name == "mxfp4":
        return "mxfp4_moe"
    return None if own_format.name in GGUF_TENSORS else "q8_0" if own_format.bits == 8 else "q4_0"


def format_notes(family: str, weights: Sequence[str], kv: Sequence[str] = ()) -> tuple[str, ...]:
    """What to say of formats of weights and cache that an engine with files of its own does not have."""
    if not reads_own_files(family):
        return ()
    forms = (weight_format(name) for name in weights)
    strange = [f.name for f in forms if f.bits < 16 and f.name not in GGUF_FILES and f.name not in GGUF_TENSORS]
    caches = ((name, _OWN_CACHES.get(cache_format(name).name)) for name in kv if name.strip().lower() != AUTO)
    return (
        *(f"{family} has no file type {name}: its own are q8_0, q4_k_m and others" for name in strange),
        *(f"{family} has no cache type {name}: taken as {own_type}" for name, own_type in caches if own_type),
    )


def cache_as_read(architecture: Architecture, family: str, kv: str | None = None) -> Format:
    """The format in which an engine keeps a model's cache.

    By default the checkpoint's; llama.cpp keeps 16 bits whatever the checkpoint says, and has types of its own.

    Errors: :class:`~rackmath.errors.InputError` for a format that nobody here knows, or that the engine has not.
    """
    has_own = reads_own_files(family)
    if not kv or kv.strip().lower() == AUTO:
        form = architecture.cache_format
        return BF16 if has_own and form.bits < BF16.bits else form
    form = cache_format(kv)
    if has_own and form.name in _OWN_CACHES:
        return cache_format(_OWN_CACHES[form.name])
    if family and not has_own and form.name in GGUF_CACHES:
        raise InputError("kv", kv, f"only llama.cpp has this cache type: for {family} write bf16, fp8 or nvfp4")
    return form


def as_read(
    architecture: Architecture, family: str, weights: str | None = None, kv: str | None = None
) -> tuple[Architecture, tuple[str, ...]]:
    """The model in formats of ``weights`` and cache, by default as an engine reads its checkpoint; what to say of it.

    Errors: :class:`~rackmath.errors.InputError` for a format that nobody here knows, or that the engine has not.
    """
    file = None if weights else file_of(architecture, family)
    form = weights or file
    cache = cache_as_read(architecture, family, kv)
    notes = format_notes(family, [weights] if weights else [], [kv] if kv else [])
    model = requantise(
        architecture,
        weights=weight_format(form) if form else None,
        cache=None if cache == architecture.cache_format else cache,
    )
    if file is None:
        return model, notes
    note = f"{family} converts {architecture.name} to a file of its own, taken as {file}: --weights names another type"
    return model, (note, *notes)


def supported(
    architecture: Architecture, chip: Chip, weights: Sequence[str] = (), kv: Sequence[str] = (), family: str = ""
) -> tuple[Variant, ...]:
    """Variants of a model that a chip multiplies natively; those asked for, if any are.

    By default the format of the checkpoint and each narrower one that the chip has a rate
    for; caches as the checkpoint has them, and in 8 bit where the chip has it. An engine that
    makes files of its own has these instead. What a narrower format does to answers is not judged.
    """
    own_format = main_format(architecture)
    have = dict(chip.rates)
    if reads_own_files(family):
        narrower = [name for name in _FILES if weight_format(name).bits < own_format.bits]
        weights = weights or [file_of(architecture, family) or own_format.name, *narrower]
    if not weights:
        weights = [own_format.name] + [
            n for n, bits in _NARROWER if bits < own_format.bits and FORMATS[n].compute in have
        ]
    if not kv:
        kv = [AUTO]
        wide = architecture.cache_format.bits > 8 and not reads_own_files(family)
        kv += ["fp8"] if wide and "fp8" in have else []
    caches = dict.fromkeys(cache_as_read(architecture, family, text) for text in kv)
    return tuple(
        Variant(
            weights=form,
            kv=cache.name.removesuffix("-pure"),
            architecture=requantise(architecture, weight_format(form), cache),
        )
        for form in weights
        for cache in caches
    )
