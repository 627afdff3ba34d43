"""Kernel timings of AMD's accelerators: tables of AITER, the kernels of vLLM and SGLang on ROCm.

The tables say which kernel of which library is the quickest at a shape, and how long it takes (``us``). Their operands
change from one run to the next: no timing beats the memory's bandwidth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from kernel_timings import FEWEST, Array, Timings, columns, mixture_load, product_load, sample
from rackmath.engine.kernel_curves import KernelLoad
from rackmath.hardware import System


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What the tables call a chip."""

    gfx: str
    """Architecture of its instructions; older tables leave it out."""
    units: int
    """Compute units. [1]"""


SYSTEMS = {
    "mi300x": Part(gfx="gfx942", units=304),
    "mi355x": Part(gfx="gfx950", units=256),
}
"""Systems of the catalogue -> chips of the tables."""

_DEEPEST = 20_000
"""Largest width of a matrix that layers have. [elements]"""

_PER_OCTAVE = 100
"""Timings of a width and format in each octave of rows: tables hold thousands of long prompts, few decode steps."""

_TILE = 32.0
"""Rows of the largest tile of the matrix units of CDNA 3 and 4, ``v_mfma_32x32``. [tokens]"""

_FEWEST = 30
"""Timings from which a kind has a curve: tables of tuned mixtures hold few shapes."""

_PRODUCTS = {
    "bf16_tuned": ("wide", "bf16", 2.0),
    "a8w8": ("byte", "fp8", 1.0),
    "a4w4": ("nibble", "fp4", 0.53125),
}
"""Parts of the names of files -> width, precision of the multiplication, bytes of a weight with its scales."""

_EXPERTS = {
    ("bfloat16", "bfloat16"): ("wide", "bf16", 2.0),
    ("float8", "float8"): ("byte", "fp8", 1.0),
    ("float4", "float4"): ("nibble", "fp4", 0.53125),
    ("float8", "float4"): ("expanded", "bf16", 0.53125),
}
"""Formats of activations and of weights -> the same. 4-bit weights beside wider activations are expanded first; the
catalogue counts them at the 16-bit rate."""


def timings(folder: Path, name: str, system: System) -> Iterator[Timings]:
    """Matrix products and mixtures of one chip.

    Parameters
    ----------
    folder : Path
        A copy of the repository.
    name : str
        Of ``SYSTEMS``.
    """
    files = [path for path in sorted(folder.glob("aiter/configs/**/*.csv")) if "untuned" not in path.name]
    yield from _products(_table(files, "tuned_gemm", name), system)
    yield from _experts(_table(files, "tuned_fmoe", name), system)


def _table(files: list[Path], kind: str, name: str) -> pl.DataFrame:
    """Rows of one chip in all files of a kind, as text."""
    part = SYSTEMS[name]
    frames = [
        pl.read_csv(path, infer_schema=False).with_columns(file=pl.lit(path.name))
        for path in files
        if kind in path.name
    ]
    frame = pl.concat([f for f in frames if "cu_num" in f.columns], how="diagonal")
    of_chip = pl.col("gfx").fill_null(part.gfx) == part.gfx
    return frame.filter(of_chip, pl.col("cu_num").cast(pl.Int64) == part.units)


def _products(frame: pl.DataFrame, system: System) -> Iterator[Timings]:
    for prefix, (width, precision, size) in _PRODUCTS.items():
        part = frame.filter(pl.col("file").str.contains(prefix), pl.col("q_dtype_w").fill_null("") != "torch.int8")
        part = part.with_columns(pl.col("M", "N", "K", "us").cast(pl.Float64))
        part = part.filter(pl.all_horizontal(pl.col("N", "K").is_between(128, _DEEPEST)), pl.col("M") <= 32_768)
        # Weights are scaled by blocks or by rows. Two libraries' kernels of one shape: engines take the quicker one.
        by_blocks = pl.col("file").str.contains("blockscale").alias("by_blocks")
        part = part.group_by("M", "N", "K", by_blocks, maintain_order=True).agg(pl.col("us").min())
        if width == "byte" and min(part["by_blocks"].sum(), (~part["by_blocks"]).sum()) < FEWEST:
            # MI300X's tables hold products that are scaled by blocks alone: kernels of other models are quicker.
            continue
        octave = pl.col("M").log(2).floor()
        shuffled = part.sample(fraction=1.0, shuffle=True, seed=0)
        part = shuffled.filter(pl.int_range(pl.len()).over(octave, "by_blocks") < _PER_OCTAVE)
        m, n, k, micro = columns(part, "M", "N", "K", "us")
        load = product_load(m, n, k, size, 2.0, system.chip.rate(precision), system.chip)
        yield from _plausible(f"product.{width}", load, micro, n * 1e5 + k)


def _experts(frame: pl.DataFrame, system: System) -> Iterator[Timings]:
    """Both products and the activation of mixtures with a gate; tokens choose among experts at random."""
    for (activations, weights), (width, precision, size) in _EXPERTS.items():
        part = frame.filter(
            pl.col("q_dtype_a").str.contains(activations),
            pl.col("q_dtype_w").str.contains(weights),
            pl.col("use_g1u1") == "1",
        )
        keys = ["token", "model_dim", "inter_dim", "topk", "expert"]
        part = part.with_columns(pl.col(*keys, "us").cast(pl.Float64))
        part = part.group_by(keys, maintain_order=True).agg(pl.col("us").min())
        tokens, hidden, wide, topk, count, micro = columns(part, *keys, "us")
        slots = tokens * topk
        read = np.maximum(count * (1 - (1 - topk / count) ** tokens), 1.0)
        load = mixture_load(slots, read, hidden, wide, size, system.chip.rate(precision), system.chip)
        yield from _plausible(f"experts.{width}", load, micro, hidden * 1e8 + wide * 1e4 + count)


def _plausible(kind: str, load: KernelLoad, micro: Array, shape: Array) -> Iterator[Timings]:
    """Timings that do not beat the roofline, where there are enough."""
    timed = Timings(kind=kind, load=load, seconds=micro * 1e-6, shape=shape, tile=_TILE)
    timed = timed.where(timed.seconds >= np.maximum(load.compute, load.memory))
    if len(timed.seconds) >= _FEWEST:
        yield sample(timed)
