"""What a row says of number formats -> the model at those formats."""

from __future__ import annotations

import re
from functools import lru_cache

from rackmath import catalogue
from rackmath.errors import NotUnderstood
from rackmath.models.architecture import Architecture
from rackmath.models.formats import cache_format, weight_format
from rackmath.models.mixers import Compressed, Latent
from rackmath.models.requantise import requantise

_WEIGHTS = (
    (r"fp8 or fp4", "nvfp4"),
    (r"model default|^not stated|^alternate|^$", None),
    (r"nvfp4|^fp4", "nvfp4"),
    (r"mxfp4", "mxfp4"),
    (r"int4|awq|gptq|^q4_1", "int4"),
    (r"q4_k", "q4_k_m"),
    (r"q4_0", "q4_0"),
    (r"q8_0", "q8_0"),
    (r"int8", "int8"),
    (r"fp8|mxfp8|float8", "fp8"),
    (r"^f16$", "f16"),
    (r"bf16|fp16|float16", "bf16"),
)


@lru_cache(maxsize=512)
def model_at(name: str, weights: str, cache: str) -> Architecture:
    """Return a catalogue model at the formats that a row states.

    A model published at 4 bit (gpt-oss) stays so when a row says fp4 or mxfp4. 4-bit
    releases of models with latent attention keep attention wider.

    Errors: :class:`NotUnderstood` for a precision that nobody here knows.
    """
    model = catalogue.model(name)
    form = _form(weights)
    if form in ("nvfp4", "mxfp4") and _expert_bits(model) < 8:
        form = None
    if form is not None:
        latent = any(isinstance(m, (Latent, Compressed)) for layer, _ in model.groups for m in layer.mixers)
        model = requantise(model, weights=weight_format(form), keep_attention=latent and form == "nvfp4")
    narrow = re.match(r"(fp8|bf16|fp16|f16|int8|fp4|nvfp4)", cache.lower())
    if narrow:
        model = requantise(model, cache=cache_format(narrow.group(1)))
    return model


def _form(text: str) -> str | None:
    plain = text.strip().lower().removeprefix("amp_")
    for pattern, form in _WEIGHTS:
        if re.search(pattern, plain):
            return form
    raise NotUnderstood("precision_weights", text, "write one of bf16, fp8, int8, int4, nvfp4, mxfp4, q4_k_m, q8_0")


def _expert_bits(model: Architecture) -> float:
    """Fewest bits of any linear layer as published."""
    return min((form.bits for layer, _ in model.groups for _, form in layer.formats), default=16.0)
