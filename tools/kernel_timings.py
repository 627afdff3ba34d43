"""Tables of kernel timings as arrays: what the tools that fit curves share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rackmath.engine.kernel_curves import KernelCurve, KernelLoad
from rackmath.hardware import Chip

Array = NDArray[np.float64]

FEWEST = 200
"""Timings below which a kind of kernel has no curve."""

MOST = 6000
"""Timings of one chip and kind that a fit sees."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timings:
    """Timings of one kind of kernel on one chip."""

    kind: str
    load: KernelLoad
    seconds: Array
    shape: Array
    """A number that timings of one shape share: shapes are left out as a whole."""
    index: KernelLoad | None = None
    """Load of choosing the keys, where a timing holds that as well."""
    beside: Array | float = 0.0
    """Seconds of them that kernels with curves of their own take. [s]"""
    tile: float = np.inf
    """Rows of the largest tile of the matrix units: products of fewer are padded to it at most. [tokens]"""

    def where(self, mask: NDArray[np.bool_]) -> Timings:
        """Those under a mask."""
        size = len(self.seconds)

        def kept(load: KernelLoad) -> KernelLoad:
            return KernelLoad(*(np.broadcast_to(np.asarray(x, dtype=float), (size,))[mask] for x in load))

        return replace(
            self,
            load=kept(self.load),
            seconds=self.seconds[mask],
            shape=self.shape[mask],
            index=None if self.index is None else kept(self.index),
            beside=np.broadcast_to(np.asarray(self.beside, dtype=float), (size,))[mask],
        )

    @property
    def loads(self) -> dict[str, KernelLoad]:
        """Loads by kind of kernel, without an engine."""
        kind, _, _ = self.kind.partition("@")
        own = {kind: self.load}
        return own if self.index is None else own | {kind.replace(".", "_index."): self.index}

    def by(self, curves: Mapping[str, KernelCurve]) -> Array:
        """Seconds that the curves of their kinds say of them. [s]"""
        own = sum(np.asarray(curves[kind].seconds(load).total) for kind, load in self.loads.items())
        return np.asarray(own + self.beside)


def product_load(
    m: Array, n: Array, k: Array, weight: Array | float, activation: float, rate: Array | float, chip: Chip
) -> KernelLoad:
    """Load of a product of m rows with an n x k matrix; bytes of an element of the matrix and of the activations."""
    return KernelLoad(
        compute=2 * m * n * k / rate,
        memory=(n * k * weight + activation * m * (n + k)) / chip.memory_bandwidth,
        rows=m,
        narrowness=1 / n + 1 / k,
        launches=1.0,
        depth=k,
        matrices=0.0,
    )


def mixture_load(
    slots: Array, read: Array, hidden: Array, wide: Array, weight: Array | float, rate: Array | float, chip: Chip
) -> KernelLoad:
    """Load of both products of a mixture with a gate, and its activation; ``slots`` are tokens times experts of each.

    Parameters
    ----------
    read : array
        Experts that any token meets.
    hidden, wide : array
        Width of the model, and of an expert on one rank. [elements]
    weight : array or float
        Bytes of an element of the matrices. [B]
    """
    moved = read * 3 * hidden * wide * weight + slots * (2 * hidden + 3 * wide) * 2
    return KernelLoad(
        compute=6 * slots * hidden * wide / rate,
        memory=moved / chip.memory_bandwidth,
        rows=slots / read,
        narrowness=1 / wide + 1 / hidden,
        launches=1.0,
        depth=0.0,
        matrices=read,
    )


def attention_load(
    batch: Array | float,
    heads: Array,
    groups: Array,
    width: Array | float,
    queries: Array,
    context: Array,
    pairs: Array,
    cached: float,
    chip: Chip,
) -> KernelLoad:
    """Load of attention of several heads; ``cached`` are bytes of an element of the cache."""
    moved = batch * (context * groups * 2 * width * cached + queries * heads * 2 * width * 2)
    return KernelLoad(
        compute=4 * batch * heads * width * pairs / chip.rate("bf16"),
        memory=moved / chip.memory_bandwidth,
        rows=context,
        narrowness=1 / width,
        launches=1.0,
        depth=0.0,
        matrices=batch * groups,
    )


FORMATS = {"gemm": "gemm_dtype", "moe": "moe_dtype"}
"""Column of the format of a table's weights: a later version of an engine may time some of them again, not all."""


def table(folder: Path, chip: str, name: str) -> pl.DataFrame:
    """One table of a chip, of all engines; of each engine the newest version, by format where a table has them."""
    frames: dict[tuple[str, str], pl.DataFrame] = {}
    for path in sorted(
        folder.rglob(f"data/{chip}/*/*/*/{name}_perf.parquet"), key=lambda p: (version(p.parent.name), p)
    ):
        engine = path.parent.parent.name
        frame = pl.read_parquet(path).with_columns(engine=pl.lit(engine))
        if "kernel_source" in frame.columns:
            # Mixtures without a gate have two matrices an expert, not three.
            frame = frame.filter(~pl.col("kernel_source").fill_null("").str.contains("nongated"))
        by_format = frame.partition_by(FORMATS[name], as_dict=True) if name in FORMATS else {("",): frame}
        for (form,), part in by_format.items():
            frames[engine, str(form)] = part
    return pl.concat(frames.values(), how="diagonal_relaxed") if frames else pl.DataFrame()


def version(text: str) -> tuple[int, ...]:
    """Numbers of a version, to sort by: 0.5.14 is later than 0.5.6.post2."""
    return tuple(int(number) for number in re.findall(r"\d+", text))


def columns(frame: pl.DataFrame, *names: str) -> list[Array]:
    """Columns as numbers."""
    return [frame[n].cast(pl.Float64).to_numpy() for n in names]


def sample(t: Timings) -> Timings:
    """At most ``MOST`` of them, the same each time."""
    chosen = np.random.default_rng(1).permutation(len(t.seconds))[:MOST]
    mask = np.zeros(len(t.seconds), dtype=bool)
    mask[chosen] = True
    return t.where(mask & (t.seconds > 0))
