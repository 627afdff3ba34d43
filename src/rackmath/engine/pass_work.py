"""Everything that one pass spends time on, before and after losses.

:func:`pass_work` gathers ideal seconds; :func:`lost_seconds` says what an engine adds to
them. The two are apart so that constants can be fitted without counting anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from rackmath.engine.communication import Communication, communication
from rackmath.engine.expert_load import rank_shares
from rackmath.engine.kernel_curves import Kernels
from rackmath.engine.kernels import EXPERT_KERNELS, pass_kernels, routed_experts, routed_layers, whole_kernels
from rackmath.engine.layout import Layout, expert_count
from rackmath.engine.losses import Factors, Losses, dispatch_time, host_time, kernel_time, launch_time, reduction_time
from rackmath.engine.roofline import OperatorTime, timed_operators
from rackmath.hardware import Link, System
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number, maximum, minimum
from rackmath.models.operator import Pass

LOSSES = ("below peak", "launches", "host", "network", "imbalance", "software")
"""What a second beyond the bound is lost to."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PassWork:
    """Ideal seconds of one pass through all stages, operator by operator; ``exchange`` is computed once."""

    operators: tuple[OperatorTime, ...]
    wire: Communication
    """Collectives at the network's bandwidth, without latency. [s]"""
    latency: Communication
    """Their latencies. [s]"""
    kernels: Number
    gaps: Number
    """Of these, kernels whose gap before them is in no timing. [kernels]"""
    routed: Number
    """Layers of experts. [layers]"""
    routed_experts: Number
    """Experts of all these layers. [experts]"""
    sequences: Number
    """Sequences that one group of ranks samples for. [sequences]"""
    ranks: Number
    """Ranks that experts are dealt to, 1 where it is known what the fullest has. [ranks]"""
    several: Number = 0.0
    """1 where a group of more than one worker takes part, else 0."""
    training: Number = 0.0
    """1 in training, where products hide a part of tensor parallelism's collectives, else 0."""
    hidden: Number = 0.0
    """Part of dispatch and combine that another half-batch's work may hide: 0 or 1. [1]"""

    def kernels_time(self, op: OperatorTime, kernels: Kernels, factors: Factors) -> Number:
        """Seconds that one of its operators takes with an engine's kernels. [s]"""
        time = kernels.curve(op.kernel).seconds(op.load)
        return kernel_time(op.kernel, op.time, time, op.scores, self.ranks, factors, self.training)

    @cached_property
    def exchange(self) -> Number:
        """Collectives that nothing hides, ideal. [s]"""
        local: Number = 0.0
        for op in self.operators:
            local = local + op.time
        tensor = self.wire.tensor + self.latency.tensor
        exposed_time = self.wire.total + self.latency.total - self.training * minimum(local, tensor)
        return maximum(exposed_time - self.hideable(local, self.experts), 0.0)

    @property
    def experts(self) -> Number:
        """Dispatch and combine, ideal. [s]"""
        w, t = self.wire, self.latency
        return w.dispatch + w.combine + t.dispatch + t.combine

    def hideable(self, local: Number, exchange: Number) -> Number:
        """Seconds of an expert exchange that work of ``local`` seconds hides.

        Two half-batches take turns: one computes while the other communicates, so the
        longer of the two remains.
        """
        return self.hidden * minimum(local, exchange)


def pass_work(architecture: Architecture, work: Pass, layout: Layout, system: System, hidden: Number = 0.0) -> PassWork:
    """Gather what a pass does on the busiest accelerator.

    Parameters
    ----------
    architecture, layout, system
        What is computed, spread how, on what.
    work : Pass
        What the fullest group sends through at once.
    hidden : Number
        1 where two half-batches overlap computation and expert exchange, else 0.
    """
    logits = work.sequences * (1.0 if work.phase == "prefill" else work.new_tokens)
    wire, latency = (
        communication(architecture, layout, part, work.tokens, logits, work.phase == "decode")
        for part in (_without_latency(system), _with_latency_only(system))
    )
    ranks: Number = layout.expert
    if architecture.routing is not None and (experts := expert_count(architecture)):
        # What is known of the fullest rank takes the place of the constant that stands for it.
        fullest = rank_shares(architecture, experts, layout, 1.0).tokens * layout.expert
        wire = replace(wire, dispatch=wire.dispatch * fullest, combine=wire.combine * fullest)
        ranks = 1.0
    kernels, routed_count = pass_kernels(architecture), float(routed_layers(architecture))
    return PassWork(
        operators=tuple(timed_operators(architecture, work, layout, system)),
        wire=wire,
        latency=latency,
        kernels=kernels,
        gaps=kernels - routed_count * EXPERT_KERNELS - whole_kernels(architecture),
        routed=routed_count,
        routed_experts=float(routed_experts(architecture)),
        sequences=work.sequences,
        ranks=ranks,
        several=minimum(layout.tensor * layout.pipeline - 1.0, 1.0),
        training=float(work.phase == "train"),
        hidden=hidden,
    )


def lost_seconds(work: PassWork, k: Losses) -> Mapping[str, Number]:
    """Seconds that an engine adds to the bound of a pass, by cause. [s]

    They add up to its time less the ideal one; none is negative.
    """
    factors = k.factors
    balanced_factors = factors._replace(imbalance=0.0)
    ideal: Number = 0.0
    even: Number = 0.0
    waiting: Number = 0.0
    for op in work.operators:
        ideal = ideal + op.time
        alone = work.kernels_time(op, k.kernels, balanced_factors)
        even = even + alone
        if op.operator.kind == "experts":
            waiting = waiting + work.kernels_time(op, k.kernels, factors) - alone
    network = shown_time(work, collectives_time(work, k.kernels), k, even + waiting)
    busy = even + waiting + network
    launches = launch_time(work.kernels, work.gaps, work.routed, work.routed_experts, busy, k)
    host = host_time(work.sequences, work.several, busy + launches, k)
    before = even + waiting + network + launches + host
    # Longer products hide more of the collectives than ideal ones do: what they gain is theirs, not the network's.
    slack = maximum(work.exchange - network, 0.0)
    by_products = minimum(slack, even - ideal)
    return {
        "below peak": even - ideal - by_products,
        "launches": launches,
        "host": host,
        "network": network - work.exchange + slack,
        "imbalance": waiting - (slack - by_products),
        "software": before * (k.whole - 1),
    }


class CollectiveSeconds(NamedTuple):
    """Seconds of the collectives of a pass with a chip's kernels. [s]"""

    tensor: Number
    outside: Number
    experts: Number
    hops: Number


def collectives_time(work: PassWork, kernels: Kernels) -> CollectiveSeconds:
    """Seconds of the collectives of a pass, none hidden."""
    w, t = work.wire, work.latency
    return CollectiveSeconds(
        tensor=reduction_time(w.tensor, t.tensor, kernels),
        outside=reduction_time(w.outside, t.outside, kernels),
        experts=dispatch_time(w.dispatch + w.combine, t.dispatch + t.combine, kernels),
        hops=(w.pipeline + w.placement) / kernels.wire + t.pipeline + t.placement,
    )


def shown_time(work: PassWork, seconds: CollectiveSeconds, k: Losses, local: Number) -> Number:
    """Seconds of the collectives of a pass under an engine that ``local`` seconds of work do not hide. [s]"""
    w, t = work.wire, work.latency
    tensor = maximum(seconds.tensor * k.network, w.tensor + t.tensor)
    tensor = tensor - work.training * minimum((1 - k.shown) * tensor, local)
    outside = maximum(seconds.outside * k.network, w.outside + t.outside)
    experts = maximum(seconds.experts * k.exchange, work.experts)
    return tensor + outside + experts + seconds.hops - work.hideable(local, experts)


def _without_latency(system: System) -> System:
    return replace(
        system,
        scale_up=None if system.scale_up is None else replace(system.scale_up, latency=0.0),
        scale_out=None if system.scale_out is None else replace(system.scale_out, latency=0.0),
    )


def _with_latency_only(system: System) -> System:
    return replace(
        system,
        scale_up=None if system.scale_up is None else Link(bandwidth=float("inf"), latency=system.scale_up.latency),
        scale_out=None if system.scale_out is None else Link(bandwidth=float("inf"), latency=system.scale_out.latency),
    )
