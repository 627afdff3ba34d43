"""Seconds of each operator on one accelerator, and what they are spent on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from rackmath.engine.layout import Layout
from rackmath.engine.sharding import operator_share, stage_share
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number, ceiling, maximum, minimum
from rackmath.models.operators import Operator, Pass, operators

TERMS = ("compute", "weights", "cache", "activations", "communication")
"""What a second of a pass can be spent on."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OperatorTime:
    """Seconds of one operator, all its layers, on the busiest accelerator."""

    operator: Operator
    compute: Number
    """Its multiplications at the chip's rate. [s]"""
    weights: Number
    """Reading its weights. [s]"""
    cache: Number
    """Reading and writing caches and states. [s]"""
    activations: Number
    """Reading inputs and writing outputs. [s]"""
    scores: Number
    """Moving one byte per score of attention to memory and back. [s/B]"""
    narrowness: Number
    """Sum of the inverse widths of one matrix on one rank. [1/elements]"""
    width: str
    """How its weights are stored against how they are multiplied (see ``WIDTHS``)."""

    @property
    def memory(self) -> Number:
        """All its memory traffic. [s]"""
        return self.weights + self.cache + self.activations

    @property
    def time(self) -> Number:
        """Roofline of the operator: the longer of compute and memory. [s]"""
        return maximum(self.compute, self.memory)


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of all operators by what binds each, and the two sums of the lecture."""

    terms: dict[str, Number]
    compute: Number
    traffic: Number
    """Weights and caches; activations are left out, since a fused kernel need not write them."""


def held_sequences(batch: Number, layout: Layout) -> Number:
    """Sequences on the fullest data-parallel group; no group is smaller than one. [sequences]"""
    return maximum(ceiling(batch / layout.data), 1.0)


def local_pass(
    phase: str,
    batch: Number,
    context: Number,
    cached: Number,
    layout: Layout,
    absorbed: bool | None,
    drafted: Number = 0.0,
) -> Pass:
    """What the fullest data-parallel group sends through a stage at once.

    Every stage is kept busy with a micro-batch of its own. Groups that share experts
    meet there with the tokens that they really have: at batch 1 there is one token,
    whatever the number of groups. Decode verifies ``drafted`` tokens with each new one.
    """
    new = 1.0 + drafted if phase == "decode" else context - cached
    if phase == "train":
        # One micro-batch of every group, as it passes all stages in turn; sequences may be shared.
        own = batch / layout.data
        shared = own * layout.expert_groups * new
        return Pass(phase=phase, sequences=own, new_tokens=new, context=context, expert_tokens=shared)
    micro = maximum(ceiling(held_sequences(batch, layout) / layout.pipeline), 1.0)
    met = minimum(micro * layout.expert_groups, batch * layout.expert_groups / (layout.data * layout.pipeline))
    return Pass(
        phase=phase,
        sequences=micro,
        new_tokens=new,
        context=context,
        expert_tokens=maximum(micro, met) * new,
        absorbed=absorbed,
    )


def timed_operators(architecture: Architecture, work: Pass, layout: Layout, system: System) -> Iterator[OperatorTime]:
    """Each operator of a pass with its seconds.

    Stages of unequal length wait for the longest: operators inside layers are scaled
    by its share times the number of stages. A prompt's queries meet all keys on every
    rank, so context parallelism spares reading in decode only.
    """
    chip = system.chip
    if work.phase != "decode":
        layout = replace(layout, context_parallel=1.0)
    uneven = stage_share(architecture, layout) * layout.pipeline
    for op in operators(architecture, work):
        part, held = operator_share(op, layout)
        scale = op.count * (uneven if op.layered else 1.0)
        per_byte = scale / chip.memory_bandwidth
        yield OperatorTime(
            operator=op,
            compute=op.flops * part * (scale / chip.rate(op.compute)),
            weights=op.weight_bytes * part * per_byte,
            cache=(op.cache_read + op.cache_written) * held * per_byte,
            activations=op.activation_bytes * part * per_byte,
            scores=op.scores * part * per_byte,
            narrowness=_narrowness(op, layout),
            width=stored_width(op.bits, chip.runs_at(op.compute)),
        )


def _narrowness(op: Operator, layout: Layout) -> Number:
    """Inverse output and input width of one matrix on one rank, added up. [1/elements]"""
    if op.split == "none":
        ranks: Number = 1.0
    else:
        ranks = layout.expert_slices if op.split == "experts" else layout.tensor
    return ranks / op.sides[op.cut] + 1 / op.sides[1 - op.cut]


def stored_width(bits: float, precision: str) -> str:
    """How weights of ``bits`` stand to a multiplication at ``precision``: one of ``WIDTHS``."""
    multiplied = {"bf16": 16, "fp16": 16, "fp8": 8, "int8": 8, "fp4": 4}[precision]
    if bits < multiplied:
        return "expanded"
    return {16: "wide", 8: "byte", 4: "nibble"}[multiplied]


def spent(found: Iterable[OperatorTime]) -> Spent:
    """Sum operators by what binds each of them."""
    terms: dict[str, Number] = dict.fromkeys(TERMS, 0.0)
    compute: Number = 0.0
    traffic: Number = 0.0
    for each in found:
        bound = np.greater(each.compute, each.memory)
        free = 1.0 - bound
        terms["compute"] = terms["compute"] + bound * each.compute
        terms["weights"] = terms["weights"] + free * each.weights
        terms["cache"] = terms["cache"] + free * each.cache
        terms["activations"] = terms["activations"] + free * each.activations
        compute = compute + each.compute
        traffic = traffic + each.weights + each.cache
    return Spent(terms, compute, traffic)
