"""Seconds of one pass, by what they are spent on: with experts beside attention, or in a pool of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from rackmath.engine.communication import Communication
from rackmath.engine.kernels import EXPERT_KERNELS
from rackmath.engine.layout import Layout
from rackmath.engine.losses import Losses, dispatch_time, host_time
from rackmath.engine.pass_work import LOSSES, PassWork, lost_seconds
from rackmath.engine.roofline import TERMS, spent
from rackmath.models.numbers import Number, maximum

POOLS = ("attention", "dispatch", "experts", "combine")
"""Where a micro-batch is in turn, layer after layer, where experts have accelerators of their own."""

APART_UNMEASURED = (0.75, 1.33)
"""Measured over computed time of passes with experts apart, beside the range of the engine: no such service is among
the rows. An inference; docs/accuracy-of-afd.md has the three published ones that were looked at."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassTime:
    """Seconds of one pass."""

    terms: Mapping[str, Number]
    """Ideal ones, by what binds: of :data:`~rackmath.engine.roofline.TERMS`. [s]"""
    lost: Mapping[str, Number]
    """What an engine adds, by cause. [s]"""
    overlapped: Number
    """Where compute, memory and network all overlap. [s]"""
    compute: Number
    """Multiplications at the peak rates, the mean over accelerators. [s]"""
    traffic: Number
    """Weights and caches at the peak bandwidth, the mean over accelerators. [s]"""
    busy: Mapping[str, Number] = field(default_factory=dict[str, Number])
    """Of the time, what each of :data:`POOLS` works; empty where no pool holds experts only. [s]"""

    def times(self, passes: Number) -> PassTime:
        """So many passes one after the other."""
        return PassTime(
            terms={name: passes * value for name, value in self.terms.items()},
            lost={name: passes * value for name, value in self.lost.items()},
            overlapped=passes * self.overlapped,
            compute=passes * self.compute,
            traffic=passes * self.traffic,
            busy={name: passes * value for name, value in self.busy.items()},
        )


def pass_time(work: PassWork, losses: Losses | None) -> PassTime:
    """Seconds of a pass on accelerators that each hold their part of all layers; ``losses`` None for the bound."""
    split = spent(work.operators)
    return PassTime(
        terms=split.terms | {"communication": work.exchange},
        lost=dict.fromkeys(LOSSES, 0.0) if losses is None else lost_seconds(work, losses),
        overlapped=maximum(maximum(split.compute, split.traffic), work.exchange),
        compute=split.compute,
        traffic=split.traffic,
    )


def apart_time(work: PassWork, micro_batches: Number, layout: Layout, losses: Losses | None) -> PassTime:
    r"""Seconds of a pass whose micro-batches take turns between attention and accelerators that hold experts only.

    .. math:: t = \max(a + d + e + c,\; n a,\; n d,\; n e,\; n c)

    for n micro-batches that each take a seconds of attention and all else but experts, d of dispatch, e of experts
    and c of combine, all layers: a micro-batch waits for its own round trip, or for the pool or the direction of the
    network that all of them need. What is lost beyond the bound is shared among the causes of what binds.

    Parameters
    ----------
    work : PassWork
        One micro-batch.
    micro_batches : Number
        Micro-batches. [micro-batches]

    Layers are taken as alike, and micro-batches; the first trip through the pipeline of a prompt is left out.
    Source: ping-pong pipelines of MegaScale-Infer (Zhu et al. 2025, arXiv:2504.02263); three stages of Step-3
    (StepFun 2025, arXiv:2507.19427).
    """
    attention, experts = _pools(work)
    parts = {"attention": pass_time(attention, None), "experts": pass_time(experts, None)}
    wire, late = work.wire, work.latency
    ideal: dict[str, Number] = {
        "attention": _total(parts["attention"].terms),
        "dispatch": wire.dispatch + late.dispatch,
        "experts": _total(parts["experts"].terms),
        "combine": wire.combine + late.combine,
    }
    bounds = _Bounds.of(ideal, micro_batches)
    terms = {
        name: bounds.of_pools(
            {pool: parts[pool].terms[name] if pool in parts else 0.0 for pool in POOLS}, micro_batches
        )
        for name in TERMS
    }
    send_time = bounds.of_pools({"dispatch": ideal["dispatch"], "combine": ideal["combine"]}, micro_batches)
    terms["communication"] = terms["communication"] + send_time
    exchange = maximum(ideal["dispatch"], ideal["combine"])
    overlap_time = maximum(maximum(parts["attention"].overlapped, parts["experts"].overlapped), exchange)
    attention_part, experts_part = layout.tensor * layout.data / layout.gpus, layout.ffn / layout.gpus
    losses_by_name, actual = _lost(work, (attention, experts), ideal, micro_batches, losses)
    return PassTime(
        terms=terms,
        lost=losses_by_name,
        overlapped=micro_batches * overlap_time,
        compute=micro_batches * (attention_part * parts["attention"].compute + experts_part * parts["experts"].compute),
        traffic=micro_batches * (attention_part * parts["attention"].traffic + experts_part * parts["experts"].traffic),
        busy={pool: micro_batches * value for pool, value in actual.items()},
    )


def _pools(work: PassWork) -> tuple[PassWork, PassWork]:
    """What both pools do with a micro-batch; what they send each other is in neither."""
    no_communication = Communication(tensor=0.0, dispatch=0.0, combine=0.0, outside=0.0, pipeline=0.0)
    expert_operators = tuple(op for op in work.operators if op.operator.kind == "experts")
    launches = work.routed * EXPERT_KERNELS
    attention = replace(
        work,
        operators=tuple(op for op in work.operators if op.operator.kind != "experts"),
        wire=replace(work.wire, dispatch=0.0, combine=0.0),
        latency=replace(work.latency, dispatch=0.0, combine=0.0),
        kernels=work.kernels - launches,
        routed=0.0,
        routed_experts=0.0,
    )
    experts = replace(
        work, operators=expert_operators, wire=no_communication, latency=no_communication, kernels=launches, gaps=0.0
    )
    return attention, experts


def _lost(
    work: PassWork,
    pools: tuple[PassWork, PassWork],
    ideal: Mapping[str, Number],
    micro_batches: Number,
    k: Losses | None,
) -> tuple[dict[str, Number], dict[str, Number]]:
    """Seconds beyond the bound by cause, and seconds of a micro-batch in each of :data:`POOLS`."""
    losses_by_name: dict[str, Number] = dict.fromkeys(LOSSES, 0.0)
    if k is None:
        return losses_by_name, dict(ideal)
    # The host schedules a whole step at once.
    alone = replace(k, host=0.0, host_sequence=0.0, remote=0.0, remote_sequence=0.0, software=1.0, own_kernels=1.0)
    more = {name: lost_seconds(pool, alone) for name, pool in zip(("attention", "experts"), pools, strict=True)}
    for way in ("dispatch", "combine"):
        send_time = dispatch_time(getattr(work.wire, way), getattr(work.latency, way), k.kernels) * k.exchange
        more[way] = {"network": maximum(send_time - ideal[way], 0.0)}
    actual = {pool: ideal[pool] + _total(more[pool]) for pool in POOLS}
    bounds = _Bounds.of(actual, micro_batches)
    causes = {
        name: bounds.of_pools({pool: more[pool].get(name, 0.0) for pool in POOLS}, micro_batches)
        for name in LOSSES
        if name not in ("host", "software")
    }
    excess, of_causes = bounds.time - _Bounds.of(ideal, micro_batches).time, _total(causes)
    part = excess / np.where(np.greater(of_causes, 0.0), of_causes, 1.0)
    losses_by_name |= {name: value * part for name, value in causes.items()}
    losses_by_name["host"] = host_time(work.sequences * micro_batches, work.several, bounds.time, k)
    losses_by_name["software"] = (bounds.time + losses_by_name["host"]) * (k.whole - 1)
    return losses_by_name, actual


@dataclass(frozen=True, slots=True, eq=False)
class _Bounds:
    """How long a pass of micro-batches in turns takes, and which of its bounds that is."""

    time: Number
    binds: Mapping[str, Number]
    """1 for the bound that is reached, else 0: the round trip, or one of :data:`POOLS`."""

    @staticmethod
    def of(seconds: Mapping[str, Number], micro_batches: Number) -> _Bounds:
        """``seconds`` of one micro-batch in each of :data:`POOLS`."""
        bounds = {"round trip": _total(seconds)} | {pool: micro_batches * seconds[pool] for pool in POOLS}
        bounds_array = np.stack(np.broadcast_arrays(*bounds.values()))
        first = np.argmax(bounds_array, axis=0)
        return _Bounds(np.max(bounds_array, axis=0), {name: (first == n) * 1.0 for n, name in enumerate(bounds)})

    def of_pools(self, seconds: Mapping[str, Number], micro_batches: Number) -> Number:
        """Seconds of a kind, of those that make the bound that is reached."""
        once = self.binds["round trip"]
        return sum(((once + micro_batches * self.binds[pool]) * value for pool, value in seconds.items()), 0.0)


def _total(seconds: Mapping[str, Number]) -> Number:
    return sum(seconds.values(), 0.0)
