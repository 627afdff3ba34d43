"""Time of one kernel from what it computes and reads: one curve for all operators and chips.

Nine numbers with a meaning describe a kind of kernel on a chip. They are fitted to published
kernel timings by ``tools/kernels.py``, kept in ``data/kernels.toml`` and frozen: no measurement
of a service moves them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import inf
from typing import NamedTuple

import numpy as np

from rackmath.errors import InputError
from rackmath.models.numbers import Number, maximum

WIDTHS = ("wide", "byte", "nibble", "expanded", "codebook")
"""How weights are stored against how they are multiplied: 16 bit, 8 bit and 4 bit as they are, or
narrower than the multiplication, so that a kernel expands them first: by scaling, or from a table."""

TIMED = ("vllm", "sglang", "trtllm")
"""Engines whose kernels the timings are of."""


class KernelLoad(NamedTuple):
    """What the kernels of one operator ask of an accelerator in a pass; numbers broadcast."""

    compute: Number
    """Multiplications at the peak, all launches. [s]"""
    memory: Number
    """Memory traffic at the peak, all launches. [s]"""
    rows: Number
    """Tokens that meet one matrix; keys that a query of a prompt meets. [tokens]"""
    narrowness: Number
    """Inverse widths of one matrix on one rank, added up. [1/elements]"""
    launches: Number
    """Kernels started. [kernels]"""
    depth: Number
    """Input widths that the kernels sum over, added up over all launches. [elements]"""
    matrices: Number
    """Matrices of experts that are read, added up over all launches. [matrices]"""


class KernelSeconds(NamedTuple):
    """Seconds of the kernels of one operator, before compute and memory overlap."""

    fixed: Number
    """Starting, and summing over the depth of a matrix. [s]"""
    compute: Number
    """Multiplying. [s]"""
    memory: Number
    """Reading and writing. [s]"""
    least: Number
    """Multiplying at the largest part of the peak that any kernel reaches. [s]"""

    @property
    def total(self) -> Number:
        r"""Time of the kernels, :math:`t_0 + \sqrt{c^2 + m^2}`. [s]"""
        return self.fixed + overlapped(self.compute, self.memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCurve:
    r"""Time of one kind of kernel on one chip.

    .. math:: t = t_0 + \kappa k + \epsilon E + \sqrt{\left(\frac{F}{P} \min\left(\frac{1}{a} (1 + m_0/m)
              (1 + s (1/n + 1/k)), \frac{1}{r} (1 + x/m)\right)\right)^2 + \left(\frac{V}{b M}\right)^2}

    with F FLOPs at peak P, V bytes at bandwidth M, m rows that meet an n x k matrix, E matrices; the second of the
    minimum only where an engine has kernels that multiply row by row.
    """

    part: float = 1.0
    """a: part of the peak rate that large work reaches."""
    stream: float = 1.0
    """b: part of the memory bandwidth that long reads reach."""
    floor: float = 0.0
    """t0: time of a kernel whatever its size. [s]"""
    rows: float = 0.0
    """m0: rows (of a prompt's attention: keys) at which compute reaches half of that part. [tokens]"""
    side: float = 0.0
    """s: width that is wasted on each side of a matrix. [elements]"""
    depth: float = 0.0
    """kappa: what each element of the summed width adds. [s]"""
    matrix: float = 0.0
    """epsilon: what each further matrix of a grouped product adds. [s]"""
    by_row: float = 0.0
    """r: part of the peak rate of kernels that multiply row by row, for few rows; 0 where there are none."""
    expansion: float = 0.0
    """x: rows that take such kernels as long as expanding the matrix. [tokens]"""
    most: float = 1.0
    """Part of the peak rate that no engine's factor on this curve exceeds."""

    def __post_init__(self) -> None:
        """Refuse curves that would beat the roofline."""
        for f in fields(self):
            value = getattr(self, f.name)
            if not 0 <= value < inf:
                raise InputError(f.name, value, "a constant of a kernel is a finite number of at least 0")
            if f.name in ("part", "stream", "most") and not 0 < value <= 1:
                raise InputError(f.name, value, "a part of a peak lies above 0 and is at most 1")

    def seconds(self, load: KernelLoad) -> KernelSeconds:
        """Seconds of kernels with this load."""
        rows = maximum(load.rows, 1.0)
        tile_factor = (1 + self.rows / rows) * (1 + self.side * load.narrowness) / self.part
        waste = np.minimum(tile_factor, (1 + self.expansion / rows) / self.by_row) if self.by_row else tile_factor
        return KernelSeconds(
            fixed=load.launches * self.floor + load.depth * self.depth + load.matrices * self.matrix,
            compute=load.compute * waste,
            memory=load.memory / self.stream,
            least=load.compute / self.most,
        )


IDEAL = KernelCurve()
"""The roofline itself."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kernels:
    """All curves of one chip, and what its collectives reach."""

    curves: Mapping[str, KernelCurve] = field(default_factory=dict[str, KernelCurve])
    """By kind: product, experts and their width (``product.wide``), attention, latent and
    recurrence with prompt or decode (``attention.decode``), and other for element-wise work."""
    wire: float = 1.0
    """Part of the network's bandwidth that reductions reach."""
    reduction_latency: float = 1.0
    """Latency of an all-reduce over that of the network."""
    pieces: float = 0.0
    """1 where reductions go in pieces that follow each other, 0 where wire and latency merely add up."""
    wire_exchange: float = 1.0
    """Part of the network's bandwidth that dispatch and combine of experts reach."""
    exchange_latency: float = 1.0
    """Latency of dispatch or combine over that of the network."""
    basis: str = ""
    """Whose timings these are, for the reader of a result."""
    borrowed: frozenset[str] = frozenset()
    """Kinds whose curves are of other chips, where this one, or its generation, has timings of other kinds."""

    def curve(self, kind: str) -> KernelCurve:
        """Curve of a kind of kernel; the roofline for a kind without timings."""
        return self.curves.get(kind, IDEAL)


def overlapped(compute: Number, memory: Number) -> Number:
    r"""Time of a kernel that computes while it reads. [s]

    .. math:: t = \sqrt{c^2 + m^2}

    Between their sum and the longer of both: near the ridge neither hides the other
    wholly. The exponent 2 is that of single products between batch 64 and 512 in
    aiconfigurator's kernel timings.
    """
    return np.hypot(compute, memory)
