"""What a row says of number formats -> the model at those formats."""

from __future__ import annotations

import re
from functools import lru_cache

from rackmath.errors import NotUnderstood
from rackmath.io import catalogue
from rackmath.models.architecture import Architecture
from rackmath.models.formats import GGUF_CACHES, GGUF_FILES, weight_format
from rackmath.models.mixers import Compressed, Latent
from rackmath.models.requantise import requantise
from rackmath.serving.engines import reads_own_files
from rackmath.serving.variants import cache_as_read

_WEIGHTS = (
    (r"^$", None),
    (r"nvfp4|^fp4", "nvfp4"),
    (r"mxfp4", "mxfp4"),
    (r"int4|awq|gptq|mq4|4bit", "int4"),
    (r"int8|8bit", "int8"),
    (r"fp8|mxfp8", "fp8"),
    (r"^f16$", "f16"),
    (r"bf16|fp16|float16", "bf16"),
)
"""Formats as tables name them, in order; files of llama.cpp have names of their own."""
_FILE = re.compile(r"^(?:ud-)?(?P<type>i?q\d_(?:\d|xxs|xs|nl|s|m|k))(?:_(?P<size>xl|l|m|s|p))?\b")
"""File types, and the larger ones of other quantisers beside them, which have no published rule."""

_CACHE = re.compile(rf"(fp8|bf16|fp16|f16|int8|fp4|nvfp4|{'|'.join(GGUF_CACHES)})(?![a-z0-9/])")
"""Formats of a cache, whatever follows that says how it is scaled; keys and values in formats of their own are not
read."""


@lru_cache(maxsize=512)
def model_at(name: str, weights: str, cache: str, expert_weights: str = "", family: str = "") -> Architecture:
    """Return a catalogue model at the formats that a row states.

    A model published at 4 bit (gpt-oss) stays so when a row says fp4 or mxfp4, except for
    a ``family`` of engines that reads files of its own: there its experts stay so. 4-bit
    releases of models with latent attention keep attention wider.

    Errors: :class:`NotUnderstood` for a precision that nobody here knows.
    """
    model = catalogue.model(name)
    form = _form(weights)
    narrow = _form(expert_weights)
    files = reads_own_files(family)
    # A file with experts in MXFP4 holds 8-bit blocks beside them, whatever the checkpoint holds there.
    if files and (form == "mxfp4" or (narrow == "mxfp4" and form == "bf16")):
        form = narrow = "mxfp4_moe"
    if narrow is not None and form != narrow and _expert_bits(model) < 8:
        form = None
    if form in ("nvfp4", "mxfp4") and _expert_bits(model) < 8:
        form = None
    if form is not None:
        latent = any(isinstance(m, (Latent, Compressed)) for layer, _ in model.groups for m in layer.mixers)
        model = requantise(model, weights=weight_format(form), keep_attention=latent and form == "nvfp4")
    # What was measured there was.
    return requantise(model, cache=cache_as_read(model, family if files else "", _cache_form(cache)))


def _cache_form(text: str) -> str | None:
    if not text:
        return None
    match = _CACHE.match(text.strip().lower())
    if match is None:
        raise NotUnderstood("kv", text, "write one of bf16, fp8, int8, nvfp4, q8_0, q4_0")
    return match.group(1)


def _form(text: str) -> str | None:
    plain = text.strip().lower().removeprefix("amp_")
    file = _file_type(plain)
    if file:
        return file
    for pattern, form in _WEIGHTS:
        if re.search(pattern, plain):
            return form
    raise NotUnderstood("weights", text, "write one of bf16, fp8, int8, int4, nvfp4, mxfp4, q4_k_m, q8_0")


def _file_type(text: str) -> str | None:
    """Type of a GGUF file, or the next of its kind that llama.cpp has; None of anything else."""
    file = _FILE.match(text)
    if file is None:
        return None
    base, size = file["type"], file["size"] or ""
    sizes = {"xl": ("l", "m"), "l": ("l", "m"), "p": ("m",)}.get(size, (size, "m"))
    names = [*(f"{base}_{name}" for name in sizes if name), base, base.removesuffix("_k") + "_0"]
    return next((name for name in names if name in GGUF_FILES), None)


def _expert_bits(model: Architecture) -> float:
    """Fewest bits of any linear layer as published."""
    return min((form.bits for layer, _ in model.groups for _, form in layer.formats), default=16.0)
