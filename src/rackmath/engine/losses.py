"""What separates real engines from the bound: kernels by their curves, and what an engine adds to them.

Kernels are those of the chip, from timings (:mod:`rackmath.engine.kernel_curves`). The constants
of an engine are those of :mod:`rackmath.engine.terms`, fitted by :mod:`rackmath.validation.calibrate`
on services with kernels frozen. Whatever their values, no pass is faster than its bound.
Where measurements lie near, their correction multiplies what all of this gives (:mod:`rackmath.evidence`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import inf
from typing import NamedTuple

import numpy as np

from rackmath.engine.kernel_curves import Kernels, KernelSeconds, overlapped
from rackmath.engine.kernels import WHOLE
from rackmath.errors import InputError
from rackmath.models.numbers import Number, maximum

CORRECTION = "measurements"
"""What is lost, or gained where negative, by what near measurements tell."""
NARROW = ("experts.nibble", "experts.expanded", "experts.codebook")
"""Kinds of kernels that multiply by weights of experts of 4 bits, or narrower than the multiplication."""
_PARTS = ("shown", "hidden", "low")
_AT_LEAST_ONE = ("software", "own_kernels", "sustained", "high")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Losses:
    """Constants of one engine on one system; what is left out is not lost.

    Factors multiply times of kernels; times are in seconds; all broadcast like every other number.
    """

    kernels: Kernels = field(default_factory=Kernels)
    """Curves of the chip's kernels; without any, each kernel is its roofline."""
    compute: Number = 1.0
    """Time of multiplications over that of the curves."""
    memory: Number = 1.0
    """Time of memory traffic over that of the curves."""
    fixed: Number = 1.0
    """Time of starting kernels over that of the curves."""
    grouped: Number = 1.0
    """Time of grouped products of experts over that of the curves, beside both."""
    narrow: Number = 1.0
    """Time of grouped products of weights in 4 bits, or narrower than the multiplication, over that of the curves."""
    prompt_attention: Number = 1.0
    """Time of attention over prompts over that of the curves, beside both."""
    touches: Number = 0.0
    """Times that norms move their input again, for activations, casts and sums of residuals."""
    train_touches: Number = 0.0
    """The same in training."""
    sustained: Number = 1.0
    """Time of multiplications in training over that of the curves, whose timings are short: clocks fall."""
    unfused: Number = 0.0
    """Bytes that attention moves per score, where its kernel is not fused. [B]"""
    launch: Number = 0.0
    """Gap before each kernel. [s]"""
    routing: Number = 0.0
    """What each layer of experts takes besides its products. [s]"""
    routing_expert: Number = 0.0
    """What each expert of such a layer adds to that. [s]"""
    host: Number = 0.0
    """Gap of one step: scheduling, sampling, copying tokens. [s]"""
    host_sequence: Number = 0.0
    """What each sequence adds to that gap. [s]"""
    remote: Number = 0.0
    """What a step of several workers adds, where the host calls each of them with its metadata. [s]"""
    remote_sequence: Number = 0.0
    """What each sequence adds to such a call. [s]"""
    hidden: Number = 0.0
    """Part of the host's time that runs beside the device, where an engine schedules a step ahead."""
    network: Number = 1.0
    """Time of reductions over that of the timings."""
    exchange: Number = 1.0
    """Time of dispatch and combine of experts over that of the timings."""
    imbalance: Number = 0.0
    """Excess of the fullest expert rank over the mean, once experts are spread wide."""
    shown: Number = 0.0
    """Part of tensor parallelism's collectives that products do not hide in training."""
    started: Number = 0.0
    """Time in which the host starts one kernel of a decode step, where no graph replays them. [s]"""
    software: Number = 1.0
    """Time of a step of an early enablement over that of one that is ripe."""
    own_kernels: Number = 1.0
    """Time of a step of an engine without kernel timings over what the kernels of others say."""
    correction: Mapping[str, float] = field(default_factory=dict[str, float])
    """Measured over computed time that near measurements tell, by phase; 1 where a phase is not named."""
    low: Number = 1.0
    """Lower end of the 90 % range over the estimate."""
    high: Number = 1.0
    """Upper end of the 90 % range over the estimate."""
    basis: str = "ideal bound"
    """What the constants and the range were fitted on, for the reader of a result."""
    assumptions: tuple[str, ...] = ()
    """What no row or timing says of this engine on this chip."""

    @property
    def whole(self) -> Number:
        """Factor on the time of a whole step."""
        return self.software * self.own_kernels

    @property
    def factors(self) -> Factors:
        """What it makes of the times of kernels."""
        return Factors(*(getattr(self, name) for name in Factors._fields))

    def __post_init__(self) -> None:
        """Refuse constants that would beat the bound."""
        for name in _NUMBERS:
            value = list(self.correction.values()) or 1.0 if name == "correction" else getattr(self, name)
            # A search makes thousands of these, nearly all of plain numbers.
            plain = isinstance(value, (float, int))
            smallest, largest = (value, value) if plain else (float(np.min(value)), float(np.max(value)))
            if not 0 <= smallest <= largest < inf:
                raise InputError(name, value, "a loss is a finite number of at least 0")
            if name in _PARTS and largest > 1:
                raise InputError(name, value, "a part is at most 1")
            if name in _AT_LEAST_ONE and smallest < 1:
                raise InputError(name, value, "a factor on time is at least 1")


_NUMBERS = tuple(f.name for f in fields(Losses) if f.name not in ("kernels", "basis", "assumptions"))


def wider(k: Losses, low: float, high: float) -> Losses:
    """The same losses with a range that is so many times as far down and up."""
    return replace(k, low=k.low * low, high=k.high * high)


def without_host(k: Losses) -> Losses:
    """The same losses of a pass that follows another one: the host has scheduled both, and reads no token between."""
    return replace(k, host=0.0, host_sequence=0.0, remote=0.0, remote_sequence=0.0)


class Factors(NamedTuple):
    """What an engine makes of the times of kernels; fields of :class:`Losses`, where each is explained."""

    compute: Number
    memory: Number
    fixed: Number
    grouped: Number
    narrow: Number
    prompt_attention: Number
    touches: Number
    train_touches: Number
    sustained: Number
    unfused: Number
    imbalance: Number


def kernel_time(
    kind: str, ideal: Number, curve: KernelSeconds, scores: Number, ranks: Number, k: Factors, training: Number = 0.0
) -> Number:
    """Time of the kernels of one operator under an engine, never below their roofline. [s]

    Parameters
    ----------
    kind : str
        Kind of kernel, as ``product.wide``.
    ideal : Number
        The longer of its compute and its memory time at the peaks. [s]
    curve : KernelSeconds
        What its curve says.
    scores : Number
        Moving one byte for each of attention's scores. [s/B]
    ranks : Number
        Ranks that experts are dealt to. [ranks]
    training : Number
        1 in training, else 0.
    """
    compute, memory = curve.compute * k.compute * (1 + training * (k.sustained - 1)), curve.memory * k.memory
    if kind.startswith("experts"):
        # The fullest rank has more tokens, not more weights.
        compute, memory = compute * k.grouped * (1 + k.imbalance * (1 - 1 / ranks)), memory * k.grouped
    if kind in NARROW:
        compute, memory = compute * k.narrow, memory * k.narrow
    if kind.endswith("prompt"):
        compute, memory = compute * k.prompt_attention, memory * k.prompt_attention
    compute = maximum(compute, curve.least)
    if kind.startswith("other"):
        memory = memory * (1 + (k.train_touches if kind == "other.train" else k.touches))
    # What was timed as a whole block is no kernel whose start hides behind another's end.
    starts = curve.fixed if kind.partition(".")[0] in WHOLE else curve.fixed * k.fixed
    return maximum(starts + overlapped(compute, memory + scores * k.unfused), ideal)


def factors_of(kind: str) -> tuple[str, ...]:
    """Factors that the time of a kind of kernel depends on."""
    names = ["compute", "memory", "sustained"]
    if kind.partition(".")[0] not in WHOLE:
        names.append("fixed")
    if kind.startswith("experts"):
        names += ["grouped", "imbalance"]
    if kind in NARROW:
        names.append("narrow")
    if kind.startswith("attention"):
        names.append("unfused")
    if kind.endswith("prompt"):
        names.append("prompt_attention")
    if kind.startswith("other"):
        names.append("train_touches" if kind == "other.train" else "touches")
    return tuple(names)


def reduction_time(wire: Number, latency: Number, kernels: Kernels) -> Number:
    r"""Time of reductions, from their seconds on the wire and their ideal latencies. [s]

    .. math:: t = w + l + 2 \sqrt{w l}

    where they are cut into pieces that follow each other, with w seconds on the wire and l of latency: m pieces through
    two steps take (m + 1)(l + w/m), least for :math:`m = \sqrt{w/l}`. All-reduces of one to sixteen megabytes take
    that, where wire and latency alone explain half of it (kernel timings of aiconfigurator). Source: Hockney's model of
    a message, pipelined.
    """
    w, t = wire / kernels.wire, latency * kernels.reduction_latency
    return w + t + 2 * kernels.pieces * np.sqrt(w * t)


def dispatch_time(wire: Number, latency: Number, kernels: Kernels) -> Number:
    """Time of dispatch and combine of experts from their seconds on the wire and their ideal latencies. [s]"""
    return wire / kernels.wire_exchange + latency * kernels.exchange_latency


def launch_time(
    kernels: Number, gaps: Number, routed_layers: Number, routed_experts: Number, busy: Number, k: Losses
) -> Number:
    """Gaps between the kernels of a pass, and what layers of experts take besides products. [s]

    Where the host starts kernels one by one, a pass whose kernels take ``busy`` seconds waits for it.

    Parameters
    ----------
    kernels, gaps : Number
        Kernels, and those of them whose gap before them is in no timing. [kernels]
    routed_layers, routed_experts : Number
        Layers of experts, and experts of all of them. [layers], [experts]
    """
    waits = maximum(kernels * k.started - busy, 0.0)
    return maximum(gaps * k.launch, waits) + routed_layers * k.routing + routed_experts * k.routing_expert


def host_time(sequences: Number, several: Number, device: Number, k: Losses) -> Number:
    """Time of a pass in which the device waits for the host. [s]

    Where an engine schedules a step ahead, a part of the host's time runs beside the ``device`` seconds of the pass:
    only what is longer than these is waited for. ``several`` is 1 where more than one worker takes part, else 0.
    """
    host = k.host + several * k.remote + sequences * (k.host_sequence + several * k.remote_sequence)
    beside = k.hidden * host
    return host - beside + maximum(beside - device, 0.0)
