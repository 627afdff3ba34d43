"""What separates real engines from the bound: named constants, and what each does to a pass.

Every constant is physical and bounded: no part of a peak above 1, no time below 0, so no
loss ever makes a pass faster than its bound. Their values are data, fitted by
:mod:`rackmath.validation.calibrate`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import inf
from typing import NamedTuple

import numpy as np

from rackmath.errors import InputError
from rackmath.models.numbers import Number, maximum

WIDTHS = ("wide", "byte", "nibble", "expanded")
"""How weights are stored against how they are multiplied: 16 bit, 8 bit and 4 bit as
they are, or narrower than the multiplication, so that a kernel expands them first."""

_PARTS = ("stream", "cache", "latent", "matmul", "attention", "grouped", "wire", "recurrence", "low")
_AT_LEAST_ONE = ("software", "reduction_latency", "exchange_latency", "high")


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Constants of one engine on one system; what is not given is not lost.

    Parts of a peak are in (0, 1]; times in seconds; factors at least 1. Fields broadcast
    like every other number.
    """

    stream: Number = 1.0
    """Part of the memory bandwidth that long reads of 16-bit weights reach."""
    stream_byte: Number = 1.0
    """The same for 8-bit weights, relative to ``stream``."""
    stream_nibble: Number = 1.0
    """The same for native 4-bit weights, relative to ``stream``."""
    stream_expanded: Number = 1.0
    """The same for weights that a kernel expands first, relative to ``stream``."""
    cache: Number = 1.0
    """Part of the bandwidth at which attention reads its cache."""
    latent: Number = 1.0
    """The same for latent attention, where all heads share one entry."""
    matmul: Number = 1.0
    """Part of the rate that large 16-bit products reach (power and clocks included)."""
    matmul_byte: Number = 1.0
    """The same in 8 bit, relative to ``matmul``."""
    matmul_nibble: Number = 1.0
    """The same in 4 bit, relative to ``matmul``."""
    matmul_expanded: Number = 1.0
    """The same where weights are expanded first, relative to ``matmul``."""
    energy: Number = 0.0
    """Energy of a 16-bit FLOP beyond what a chip's power allows at its printed rate: clocks fall. [J/FLOP]"""
    grouped: Number = 1.0
    """Part of ``matmul`` that grouped products of experts reach."""
    attention: Number = 1.0
    """Part of the 16-bit rate that attention reaches."""
    latent_attention: Number = 1.0
    """The same for absorbed latent attention."""
    recurrence: Number = 1.0
    """The same for the scans of recurrent layers."""
    unfused: Number = 0.0
    """Bytes that attention moves per score, where its kernel is not fused. [B]"""
    rows: Number = 0.0
    """Rows that a product wastes by tiles: work goes as rows + this. [tokens]"""
    expert_rows: Number = 0.0
    """The same for each expert of a grouped product. [tokens]"""
    side: Number = 0.0
    """Width that a product wastes on each side of its matrix. [elements]"""
    touches: Number = 0.0
    """Times that inputs and outputs of products are moved again, by norms, activations, casts, permutations."""
    launch: Number = 0.0
    """Time that one kernel takes whatever its size. [s]"""
    host: Number = 0.0
    """Gap of one step: scheduling, sampling, copying tokens. [s]"""
    host_sequence: Number = 0.0
    """What each sequence adds to that gap. [s]"""
    wire: Number = 1.0
    """Part of the network's bandwidth that collectives reach."""
    wire_exchange: Number = 1.0
    """The same for dispatch and combine of experts."""
    shown: Number = 0.0
    """Part of tensor parallelism's collectives that products do not hide in training."""
    reduction_latency: Number = 1.0
    """Latency of an all-reduce over that of the network."""
    pieces: Number = 0.0
    """1 where reductions go in pieces that follow each other, 0 where their wire and latency merely add up."""
    exchange_latency: Number = 1.0
    """Latency of dispatch or combine over that of the network."""
    imbalance: Number = 0.0
    """Excess of the fullest expert rank over the mean, once experts are spread wide."""
    software: Number = 1.0
    """What is left between these terms and an engine of its family and year."""
    low: Number = 1.0
    """Lower end of the 90 % range over the estimate."""
    high: Number = 1.0
    """Upper end of the 90 % range over the estimate."""
    basis: str = "ideal bound"
    """What the constants and the range were fitted on, for the reader of a result."""

    def __post_init__(self) -> None:
        """Refuse constants that would beat the bound."""
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, str):
                continue
            smallest, largest = float(np.min(value)), float(np.max(value))
            if not 0 <= smallest <= largest < inf:
                raise InputError(f.name, value, "a loss is a finite number of at least 0")
            if f.name.startswith(_PARTS) and not 0 < smallest <= largest <= 1:
                raise InputError(f.name, value, "a part of a peak lies above 0 and is at most 1")
            if f.name in ("shown", "pieces") and largest > 1:
                raise InputError(f.name, value, "a part is at most 1")
            if f.name in _AT_LEAST_ONE and smallest < 1:
                raise InputError(f.name, value, "a factor on time is at least 1")

    def parts(self, kind: str, width: str) -> tuple[Number, Number]:
        """Parts of compute and of memory that an operator of ``kind`` and ``width`` reaches."""
        if kind == "attention":
            return self.attention, self.cache
        if kind == "latent":
            return self.latent_attention, self.latent
        if kind == "recurrence":
            return self.recurrence, self.stream
        stream, matmul = self.stream, self.matmul
        if width != "wide":
            stream = stream * getattr(self, f"stream_{width}")
            matmul = matmul * getattr(self, f"matmul_{width}")
        return (matmul * self.grouped if kind == "experts" else matmul), stream


class Load(NamedTuple):
    """What an operator asks of an accelerator before losses; numbers broadcast."""

    compute: Number
    """Seconds of multiplications at the peak. [s]"""
    memory: Number
    """Seconds of memory traffic at the peak. [s]"""
    rows: Number
    """Tokens that meet one matrix. [tokens]"""
    narrowness: Number
    """Sum of the inverse widths of a matrix. [1/elements]"""
    scores: Number
    """Moving one byte per score of attention. [s/B]"""
    ranks: Number
    """Ranks that experts are dealt to. [ranks]"""
    heat: Number
    """FLOPs that the printed rate asks of each joule. [FLOP/J]"""
    activations: Number
    """Seconds of ``memory`` that inputs and outputs take. [s]"""


def operator_time(kind: str, width: str, load: Load, k: Losses) -> Number:
    """Time of an operator. [s]

    Parameters
    ----------
    kind : str
        As in :class:`~rackmath.models.operators.Operator`.
    width : str
        One of ``WIDTHS``.
    """
    compute, memory = load.compute, load.memory
    of_compute, of_memory = k.parts(kind, width)
    if kind in ("product", "experts"):
        wasted = (k.expert_rows if kind == "experts" else k.rows) / maximum(load.rows, 1.0)
        compute = compute * (1 + wasted) * (1 + k.side * load.narrowness) * (1 + k.energy * load.heat)
    if kind == "experts":
        # The fullest rank has more tokens, not more weights.
        compute = compute * (1 + k.imbalance * (1 - 1 / load.ranks))
    between = k.touches * load.activations / k.stream if kind in ("product", "experts", "recurrence") else 0.0
    return overlapped(compute / of_compute, memory / of_memory + load.scores * k.unfused) + between


def overlapped(compute: Number, memory: Number) -> Number:
    r"""Time of a kernel that computes while it reads. [s]

    .. math:: t = \sqrt{c^2 + m^2}

    Between their sum and the longer of both: near the ridge neither hides the other
    wholly. The exponent 2 is that of single products between batch 64 and 512 in
    aiconfigurator's kernel timings.
    """
    return np.hypot(compute, memory)


def network_time(wire: Number, latency: Number, reached: Number, factor: Number) -> Number:
    """Time of collectives from their seconds on the wire and their ideal latencies. [s]"""
    return wire / reached + latency * factor


def reduction_time(wire: Number, latency: Number, k: Losses) -> Number:
    r"""Time of reductions, from their seconds on the wire and their ideal latencies. [s]

    .. math:: t = w + l + 2 \sqrt{w l}

    where they are cut into pieces that follow each other, with w seconds on the wire and l of latency: m pieces through
    two steps take (m + 1)(l + w/m), least for :math:`m = \sqrt{w/l}`. All-reduces of one to sixteen megabytes take
    that, where wire and latency alone explain half of it (kernel timings of aiconfigurator). Source: Hockney's model of
    a message, pipelined.
    """
    simple = network_time(wire, latency, k.wire, k.reduction_latency)
    return simple + 2 * k.pieces * np.sqrt(wire / k.wire * latency * k.reduction_latency)


def host_time(kernels: Number, sequences: Number, k: Losses) -> Number:
    """Time of a pass that no byte and no FLOP explains: launches and the host's gap. [s]"""
    return kernels * k.launch + k.host + sequences * k.host_sequence
