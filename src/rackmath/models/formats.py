"""Number formats: bytes of a tensor with its scales, and the rate it is multiplied at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
# llama.cpp files: payload and scales together, mean over the tensors of a file; products run in 16 bit.
F16 = Format(name="f16", bits=16, compute="fp16")
Q8_0 = Format(name="q8_0", bits=8.5, compute="fp16")
Q4_K_M = Format(name="q4_k_m", bits=4.85, compute="fp16")
Q4_0 = Format(name="q4_0", bits=4.55, compute="fp16")
Q6_K = Format(name="q6_k", bits=6.57, compute="fp16")
Q5_K_M = Format(name="q5_k_m", bits=5.69, compute="fp16")
Q3_K_M = Format(name="q3_k_m", bits=3.91, compute="fp16")
Q2_K = Format(name="q2_k", bits=3.0, compute="fp16")
IQ4_XS = Format(name="iq4_xs", bits=4.3, compute="fp16")
IQ3_XXS = Format(name="iq3_xxs", bits=3.2, compute="fp16", codebook=True)
IQ2_XXS = Format(name="iq2_xxs", bits=2.4, compute="fp16", codebook=True)
IQ1_S = Format(name="iq1_s", bits=1.9, compute="fp16", codebook=True)

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
            F16,
            Q8_0,
            Q4_K_M,
            Q4_0,
            Q6_K,
            Q5_K_M,
            Q3_K_M,
            Q2_K,
            IQ4_XS,
            IQ3_XXS,
            IQ2_XXS,
            IQ1_S,
        )
    }
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
    "auto": "bf16",
}

CACHE_FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "fp32": FP32,
        "bf16": BF16,
        "fp8": PURE_FP8,
        "int8": Format(name="int8", bits=8, compute="int8"),
        "nvfp4": Format(name="nvfp4", bits=4.5, compute="fp4"),
        "fp4": FP4,
    }
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
