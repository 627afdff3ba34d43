"""Seconds of each operator on one accelerator, and what they are spent on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rackmath.engine.expert_load import rank_shares
from rackmath.engine.kernel_curves import KernelLoad
from rackmath.engine.kernels import HEADS_AT_ONCE
from rackmath.engine.layout import Layout
from rackmath.engine.sharding import operator_share, stage_share
from rackmath.hardware import Chip, System
from rackmath.models.adapter_weights import adapter_operators
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number, largest_part, maximum, minimum
from rackmath.models.operator import Operator, Pass
from rackmath.models.operators import operators

TERMS = ("compute", "weights", "cache", "activations", "communication")
"""What a second of a pass can be spent on."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OperatorTime:
    """Seconds of one operator, all its layers, on the busiest accelerator; its sums are computed once."""

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
    kernel: str
    """Kind of kernel whose curve times it: ``product.wide``, ``attention.decode``, ..."""
    outputs: Number
    """Output width of the matrix on one rank. [elements]"""
    inputs: Number
    """Input width of the matrix on one rank. [elements]"""
    launches: Number
    """Kernels that a pass starts for it. [kernels]"""
    matrices: Number
    """Parts that its kernels take one after the other, all launches. [1]"""

    @cached_property
    def load(self) -> KernelLoad:
        """What its kernels ask of the accelerator."""
        inner = np.where(np.isfinite(self.inputs), self.inputs, 0.0)
        return KernelLoad(
            compute=self.compute,
            memory=self.memory,
            rows=self.operator.rows,
            narrowness=1 / self.outputs + 1 / self.inputs,
            launches=self.launches,
            depth=self.launches * minimum(inner, DEEPEST),
            matrices=self.matrices,
        )

    @cached_property
    def memory(self) -> Number:
        """All its memory traffic. [s]"""
        return self.weights + self.cache + self.activations

    @cached_property
    def time(self) -> Number:
        """Roofline of the operator: the longer of compute and memory. [s]"""
        return maximum(self.compute, self.memory)


@dataclass(frozen=True, slots=True)
class TimeByBound:
    """Seconds of all operators by what binds each, and the two sums of the lecture."""

    terms: dict[str, Number]
    compute: Number
    traffic: Number
    """Weights and caches; activations are left out, since a fused kernel need not write them."""


def held_sequences(batch: Number, layout: Layout) -> Number:
    """Sequences on the fullest data-parallel group; no group is smaller than one. [sequences]"""
    return maximum(largest_part(batch, layout.data), 1.0)


def local_pass(
    phase: str,
    batch: Number,
    context: Number,
    cached_tokens: Number,
    layout: Layout,
    absorbed: bool | None,
    draft_tokens: Number = 0.0,
) -> Pass:
    """What the fullest data-parallel group sends through a stage at once.

    Every stage is kept busy with a micro-batch of its own; so are accelerators that hold experts only. Groups
    that share experts meet there with the tokens that they really have: at batch 1 there is one token,
    whatever the number of groups. Decode verifies ``draft_tokens`` tokens with each new one.
    """
    new = 1.0 + draft_tokens if phase == "decode" else context - cached_tokens
    if phase == "train":
        # One micro-batch of every group, as it passes all stages in turn; sequences may be shared.
        own_sequences = batch / layout.data
        shared_tokens = own_sequences * layout.expert_groups * new
        return Pass(phase=phase, sequences=own_sequences, new_tokens=new, context=context, expert_tokens=shared_tokens)
    parts = layout.pipeline * layout.micro_batches
    micro = maximum(largest_part(held_sequences(batch, layout), parts), 1.0)
    local_sequences = minimum(micro * layout.expert_groups, batch * layout.expert_groups / (layout.data * parts))
    return Pass(
        phase=phase,
        sequences=micro,
        new_tokens=new,
        context=context,
        expert_tokens=maximum(micro, local_sequences) * new,
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
    by_name: dict[str, OperatorTime] = {}
    for op in (*operators(architecture, work), *adapter_operators(architecture, work)):
        part, cache_part = operator_share(op, layout)
        read_share = part
        if op.kind == "experts" and architecture.routing is not None and op.parts is not None:
            tokens = work.tokens if work.expert_tokens is None else work.expert_tokens
            part, read_share = (
                share / layout.expert_slices for share in rank_shares(architecture, op.parts, layout, tokens)
            )
        scale = op.count * (uneven if op.layered else 1.0)
        per_byte = scale / chip.memory_bandwidth
        outputs, inputs = _sides(op, layout)
        operator_time = OperatorTime(
            operator=op,
            compute=op.flops * part * (scale / chip.rate(op.compute)),
            weights=op.weight_bytes * read_share * per_byte,
            cache=(op.cache_read + op.cache_written) * cache_part * per_byte,
            activations=op.activation_bytes * part * per_byte,
            scores=op.scores * part * per_byte,
            kernel=_kernel(op, work, architecture, chip),
            outputs=outputs,
            inputs=inputs,
            launches=0.0 if op.kind == "other" else scale,
            matrices=op.matrices * scale * _parts_held(op, read_share, cache_part, layout),
        )
        if not op.kernel:
            yield operator_time
            continue
        # A kernel reads what it computes on once, and one format of weights at a time.
        name = f"{op.kernel} {operator_time.kernel} {op.compute}"
        by_name[name] = _joined(by_name[name], operator_time) if name in by_name else operator_time
    yield from by_name.values()


def _joined(first: OperatorTime, second: OperatorTime) -> OperatorTime:
    """Two products of one input as one, wider product; two of one mixture in one kernel."""
    mixture = first.operator.kind == "experts"
    shared_part = 0.0 if mixture else second.operator.sides[1] / (second.operator.sides[0] + second.operator.sides[1])
    return replace(
        first,
        compute=first.compute + second.compute,
        weights=first.weights + second.weights,
        activations=first.activations + second.activations * (1 - shared_part),
        outputs=first.outputs if mixture else first.outputs + second.outputs,
    )


def _parts_held(op: Operator, part: Number, sequences: Number, layout: Layout) -> Number:
    """Part of an operator's matrices on one rank: experts whole, caches by their heads. [1]"""
    if op.kind == "experts":
        return part * layout.expert_slices
    return sequences if op.cache_split else 1.0


def _sides(op: Operator, layout: Layout) -> tuple[Number, Number]:
    """Output and input width of one matrix on one rank; of attention the width of a head, which no rank cuts.

    Of attention over one latent for all heads that chooses among keys, heads: its kernels take 64 or 128 at once.
    """
    if op.kind not in ("product", "experts", *HEADS_AT_ONCE):
        return op.sides
    if op.split == "none":
        ranks: Number = 1.0
    else:
        ranks = layout.expert_slices if op.split == "experts" else layout.tensor
    cut_side = op.sides[op.cut] / ranks
    return (cut_side, op.sides[1]) if op.cut == 0 else (op.sides[0], cut_side)


def _kernel(op: Operator, work: Pass, architecture: Architecture, chip: Chip) -> str:
    """Kind of kernel that runs an operator, and the variant of its curve."""
    if op.kind in ("product", "experts"):
        return f"{op.kind}.{stored_width(op.bits, op.codebook, chip.runs_at(op.compute))}"
    if op.kind == "other":
        return "other.train" if work.phase == "train" else "other"
    if op.kind == "hyper_connection":
        return op.kind
    phase = "decode" if work.phase == "decode" else "prompt"
    narrow = op.kind == "attention" and phase == "decode" and architecture.cache_format.bytes_per_element < WIDE
    return f"{op.kind}.{phase}{'_byte' if narrow else ''}"


DEEPEST = 16_384.0
"""Widest sum over inputs among the kernel timings: kernels of wider matrices split it. [elements]"""

WIDE = 1.5
"""Bytes of a cache's element above which kernels read it as 16 bit. [B]"""


def stored_width(bits: float, codebook: bool, precision: str) -> str:
    """How weights of ``bits``, in a codebook or not, stand to a multiplication at ``precision``: of ``WIDTHS``."""
    product_bits = {"bf16": 16, "fp16": 16, "fp8": 8, "int8": 8, "fp4": 4}[precision]
    if bits < product_bits:
        return "codebook" if codebook else "expanded"
    return {16: "wide", 8: "byte", 4: "nibble"}[product_bits]


def spent(operator_times: Iterable[OperatorTime]) -> TimeByBound:
    """Sum operators by what binds each of them."""
    terms: dict[str, Number] = dict.fromkeys(TERMS, 0.0)
    compute: Number = 0.0
    traffic: Number = 0.0
    for operator_time in operator_times:
        bound = np.greater(operator_time.compute, operator_time.memory)
        free = 1.0 - bound
        terms["compute"] = terms["compute"] + bound * operator_time.compute
        terms["weights"] = terms["weights"] + free * operator_time.weights
        terms["cache"] = terms["cache"] + free * operator_time.cache
        terms["activations"] = terms["activations"] + free * operator_time.activations
        compute = compute + operator_time.compute
        traffic = traffic + operator_time.weights + operator_time.cache
    return TimeByBound(terms, compute, traffic)
