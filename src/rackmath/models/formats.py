"""Number formats: bytes of a tensor with its scales, and the rate it is multiplied at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from types import MappingProxyType

from rackmath.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How the elements of a tensor are stored and multiplied.

    Parameters
    ----------
    name : str
        Short name, as a user writes it.
    bits : float
        Payload bits per element.
    compute : str
        Precision of the multiplication on a chip that has it: bf16, fp8, int8, fp4.
    block : tuple of int
        Rows and columns that share one scale; 0 means the whole extent.
    scale_bytes : float
        Bytes per scale; 0 without scales.
    tensor_bytes : float
        Bytes per tensor on top (a second-level scale).
    codebook : bool
        Whether weights are looked up in a table instead of scaled, as in llama.cpp's IQ1 to IQ3.
    """

    name: str
    bits: float
    compute: str
    block: tuple[int, int] = (0, 0)
    scale_bytes: float = 0.0
    tensor_bytes: float = 0.0
    codebook: bool = False

    @property
    def bytes_per_element(self) -> float:
        """Payload and scales of a large tensor. [B]

        Scales of whole rows or whole tensors vanish in the limit.
        """
        rows, columns = self.block
        scales = self.scale_bytes / (rows * columns) if rows and columns else 0.0
        return self.bits / 8 + scales

    def matrix_bytes(self, rows: float, columns: float, copies: int = 1) -> float:
        """Bytes of ``copies`` matrices with every scale counted. [B]"""
        payload = rows * columns * self.bits / 8
        block_rows, block_columns = (b or n for b, n in zip(self.block, (rows, columns), strict=True))
        scales = ceil(rows / block_rows) * ceil(columns / block_columns) * self.scale_bytes
        return copies * (payload + scales + self.tensor_bytes)


FP32 = Format(name="fp32", bits=32, compute="bf16")
BF16 = Format(name="bf16", bits=16, compute="bf16")
FP8 = Format(name="fp8", bits=8, compute="fp8", block=(128, 128), scale_bytes=4)
FP8_UE8M0 = Format(name="fp8-ue8m0", bits=8, compute="fp8", block=(128, 128), scale_bytes=1)
FP8_CHANNEL = Format(name="fp8-channel", bits=8, compute="fp8", block=(1, 0), scale_bytes=4)
FP8_TENSOR = Format(name="fp8-tensor", bits=8, compute="fp8", tensor_bytes=4)
MXFP8 = Format(name="mxfp8", bits=8, compute="fp8", block=(1, 32), scale_bytes=1)
INT8 = Format(name="int8", bits=8, compute="int8", block=(1, 0), scale_bytes=4)
INT4 = Format(name="int4", bits=4, compute="bf16", block=(1, 32), scale_bytes=2)
AWQ = Format(name="awq", bits=4, compute="bf16", block=(1, 128), scale_bytes=2.5)
GPTQ = Format(name="gptq", bits=4, compute="bf16", block=(1, 128), scale_bytes=2.5)
NF4 = Format(name="nf4", bits=4, compute="bf16", block=(1, 64), scale_bytes=1 + 4 / 256)
"""Of bitsandbytes: a scale of 8 bit per 64 elements, and one of 32 bit per 256 of these. Source: QLoRA, Dettmers et
al. 2023, arXiv:2305.14314, section 3: 0.127 bit per parameter."""
MXFP4 = Format(name="mxfp4", bits=4, compute="bf16", block=(1, 32), scale_bytes=1)
MXFP4_FP8 = Format(name="mxfp4-fp8", bits=4, compute="fp8", block=(1, 32), scale_bytes=1)
NVFP4 = Format(name="nvfp4", bits=4, compute="fp4", block=(1, 16), scale_bytes=1, tensor_bytes=4)
NVFP4_A16 = Format(name="nvfp4-a16", bits=4, compute="bf16", block=(1, 16), scale_bytes=1, tensor_bytes=4)
FP4 = Format(name="fp4", bits=4, compute="fp4")
PURE_FP8 = Format(name="fp8-pure", bits=8, compute="fp8")
_BLOCK_BITS = {
    "f32": 32.0, "f16": 16.0, "q8_0": 8.5, "q6_k": 6.5625, "q5_1": 6.0, "q5_0": 5.5, "q5_k": 5.5, "q4_1": 5.0,
    "q4_0": 4.5, "q4_k": 4.5, "iq4_nl": 4.5, "iq4_xs": 4.25, "mxfp4": 4.25, "q3_k": 3.4375, "iq3_s": 3.4375,
    "iq3_xxs": 3.0625, "q2_k": 2.625, "iq2_s": 2.5625, "iq2_xs": 2.3125, "iq2_xxs": 2.0625, "iq1_m": 1.75,
    "iq1_s": 1.5625,
}  # fmt: skip
"""Bits per element of llama.cpp's tensor types, scales included: bytes of a block over its elements.

Source: ``ggml/src/ggml-common.h`` of llama.cpp.
"""
_CODEBOOKS = ("iq3", "iq2", "iq1")
GGUF_TENSORS: Mapping[str, Format] = MappingProxyType(
    {
        name: Format(name=name, bits=bits, compute="fp16", codebook=name.startswith(_CODEBOOKS))
        for name, bits in _BLOCK_BITS.items()
    }
)
"""Tensor types of GGUF files by name; products run in 16 bit."""

GGUF_FILES: Mapping[str, str] = MappingProxyType({
    "f16": "f16", "q8_0": "q8_0", "q6_k": "q6_k", "q5_k_m": "q5_k", "q5_k_s": "q5_k", "q5_1": "q5_1", "q5_0": "q5_0",
    "q4_k_m": "q4_k", "q4_k_s": "q4_k", "q4_1": "q4_1", "q4_0": "q4_0", "iq4_nl": "iq4_nl", "iq4_xs": "iq4_xs",
    "q3_k_l": "q3_k", "q3_k_m": "q3_k", "q3_k_s": "q3_k", "iq3_m": "iq3_s", "iq3_s": "iq3_s", "iq3_xs": "iq3_s",
    "iq3_xxs": "iq3_xxs", "q2_k": "q2_k", "q2_k_s": "q2_k", "iq2_m": "iq2_s", "iq2_s": "iq2_xs", "iq2_xs": "iq2_xs",
    "iq2_xxs": "iq2_xxs", "iq1_m": "iq1_m", "iq1_s": "iq1_s", "mxfp4_moe": "mxfp4",
})  # fmt: skip
"""File types of llama.cpp and the type of most of their tensors; :mod:`rackmath.models.gguf` has that of each.

Source: ``llama_ftype_get_default_type`` in ``src/llama-quant.cpp``.
"""

FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        f.name: f
        for f in (
            FP32,
            BF16,
            FP8,
            FP8_UE8M0,
            FP8_CHANNEL,
            FP8_TENSOR,
            MXFP8,
            INT8,
            INT4,
            AWQ,
            GPTQ,
            NF4,
            MXFP4,
            MXFP4_FP8,
            NVFP4,
            NVFP4_A16,
            FP4,
            PURE_FP8,
        )
    }
    | {name: replace(GGUF_TENSORS[tensor], name=name) for name, tensor in GGUF_FILES.items()}
)

_SPELLINGS = {
    "bfloat16": "bf16",
    "float16": "bf16",
    "half": "bf16",
    "fp16": "bf16",
    "float32": "fp32",
    "float": "fp32",
    "float8_e4m3fn": "fp8-pure",
    "fp8_e4m3": "fp8-pure",
    "fp8_e5m2": "fp8-pure",
    "auto": "bf16",
    "q3_k": "q3_k_m",
    "q4_k": "q4_k_m",
    "q5_k": "q5_k_m",
}

GGUF_CACHES = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
"""Tensor types below 16 bits that llama.cpp has for a cache. Source: ``--cache-type-k`` in ``common/arg.cpp``."""

CACHE_FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "fp32": FP32,
        "bf16": BF16,
        "fp8": PURE_FP8,
        "int8": Format(name="int8", bits=8, compute="int8"),
        "nvfp4": Format(name="nvfp4", bits=4.5, compute="fp4"),
        "fp4": FP4,
    }
    | {name: GGUF_TENSORS[name] for name in GGUF_CACHES}
)


def weight_format(text: str, field: str = "weights") -> Format:
    """Look up the format of weights by name or torch spelling.

    Errors: :class:`InputError` lists the known names.
    """
    name = text.strip().lower().removeprefix("torch.")
    name = _SPELLINGS.get(name, name)
    if name not in FORMATS:
        raise InputError(field, text, f"use one of {', '.join(FORMATS)}")
    return FORMATS[name]


def cache_format(text: str, field: str = "kv") -> Format:
    """Look up the format of a KV cache by name or torch spelling.

    Scales of an FP8 cache are per tensor and vanish; NVFP4 counts one byte per 16.
    """
    name = text.strip().lower().removeprefix("torch.")
    name = {"fp8-pure": "fp8", "f16": "bf16"}.get(_SPELLINGS.get(name, name), _SPELLINGS.get(name, name))
    if name not in CACHE_FORMATS:
        raise InputError(field, text, f"use one of {', '.join(CACHE_FORMATS)}")
    return CACHE_FORMATS[name]
