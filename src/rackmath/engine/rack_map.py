"""What lies on each accelerator of a layout, and what crosses its links: a rack as a drawing has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from math import inf
from typing import Any

from rackmath.engine.gather import gathered
from rackmath.engine.layout import Layout, as_floats, expert_count, widths
from rackmath.engine.sharding import expert_bytes, memory, outside_bytes
from rackmath.hardware import System
from rackmath.models.architecture import Architecture


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMemory:
    """What one accelerator holds."""

    rank: int
    stage: int
    """Stage of the pipeline; 0 for accelerators that hold routed experts only."""
    group: int
    """Data-parallel group; -1 for accelerators that hold routed experts only."""
    tensor: int
    """Place among the tensor-parallel ranks of its group."""
    layers: range
    """Layers of its stage."""
    experts: range
    """Routed experts of each mixture, in order; copies beyond one of each are not told apart."""
    sequences: int
    """Sequences whose caches it shares in. [sequences]"""
    weights: float
    """Weights outside of routed experts. [B]"""
    expert_weights: float
    """Weights of routed experts. [B]"""
    cache: float
    """[B]"""
    activations: float
    """[B]"""

    @property
    def total(self) -> float:
        """Sum of its parts. [B]"""
        return self.weights + self.expert_weights + self.cache + self.activations


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTraffic:
    """One kind of collective of a pass."""

    name: str
    ranks: int
    """Accelerators that take part in one of them."""
    scale_up: bool
    """Whether all of them stand in one scale-up domain."""
    wire: float
    """At the network's bandwidth, all layers. [s]"""
    latency: float
    """[s]"""


def parts_of(total: int, ranks: int) -> list[range]:
    """Contiguous parts that differ by one at most, the longer ones first."""
    short, longer = divmod(total, ranks)
    sizes = [short + (i < longer) for i in range(ranks)]
    ends = accumulate(sizes)
    return [range(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def rack_map(
    architecture: Architecture, system: System, layout: Layout, settings: Mapping[str, Any]
) -> list[RankMemory]:
    """Every accelerator of a layout: ranks of tensor parallelism side by side, then groups, then stages.

    Parameters
    ----------
    settings : mapping
        Other arguments of :func:`rackmath.engine.estimate`, numbers instead of arrays.

    Layers are dealt to stages, sequences to groups and experts to ranks in contiguous parts that differ by one at most.
    The fullest accelerator of layouts with one stage holds what :func:`~rackmath.engine.sharding.memory` says; with
    stages, layers of unlike size make it differ.
    """
    wide = as_floats(layout)
    tensor, data, pipeline, ffn = (int(n) for n in (layout.tensor, layout.data, layout.pipeline, layout.ffn))
    point = _point(settings, layout)
    whole = gathered(architecture, system, settings.get("phase", "decode"), point, settings.get("absorbed"))
    fullest = memory(architecture, wide, whole.held, whole.context, whole.tokens, system.chip.usable_memory)
    count = expert_count(architecture)
    experts = parts_of(count, int(layout.expert)) if count else []
    stages = parts_of(len(architecture.layers), pipeline)
    sequences = parts_of(max(round(float(point["batch"])), 1), data)
    first, last = outside_bytes(architecture, wide)
    result: list[RankMemory] = []
    for stage, layers in enumerate(stages):
        own_bytes, routed_bytes, per_sequence = _stage_bytes(architecture, layers, wide, float(whole.context))
        own_bytes += float(first) if stage == 0 else float(last) if stage == pipeline - 1 else 0.0
        for group in range(data):
            for place in range(tensor):
                expert_range = experts[_expert_rank(layout, group, place)] if experts and not ffn else range(0)
                part = len(expert_range) / len(experts[0]) if expert_range else 0.0
                result.append(
                    RankMemory(
                        rank=len(result),
                        stage=stage,
                        group=group,
                        tensor=place,
                        layers=layers,
                        experts=expert_range,
                        sequences=len(sequences[group]),
                        weights=own_bytes,
                        expert_weights=routed_bytes * part,
                        cache=per_sequence * len(sequences[group]),
                        activations=float(fullest.activations),
                    )
                )
    if not ffn:
        return result
    every_layer = range(len(architecture.layers))
    _, routed_bytes, _ = _stage_bytes(architecture, every_layer, wide, float(whole.context))
    for rank in range(ffn):
        part = len(experts[rank]) / len(experts[0])
        result.append(
            RankMemory(
                rank=len(result), stage=0, group=-1, tensor=rank, layers=every_layer,
                experts=experts[rank], sequences=0, weights=0.0, expert_weights=routed_bytes * part, cache=0.0,
                activations=float(fullest.experts) - routed_bytes,
            )
        )  # fmt: skip
    return result


def link_traffic(
    architecture: Architecture, system: System, layout: Layout, settings: Mapping[str, Any]
) -> list[LinkTraffic]:
    """Collectives of one pass at the bound, the longest first; kinds that a layout does not have are left out."""
    point = _point(settings, layout)
    whole = gathered(architecture, system, settings.get("phase", "decode"), point, settings.get("absorbed"))
    wire, latency, passes = whole.work.wire, whole.work.latency, float(whole.passes)
    stage = int(layout.tensor * layout.data)
    # Between pools every accelerator of both takes part.
    expert_ranks = stage + int(layout.ffn) if layout.ffn else int(layout.expert)
    kinds = {
        "all-reduce of tensor parallelism": ("tensor", int(layout.tensor), int(layout.tensor)),
        "vocabulary": ("outside", int(layout.tensor), int(layout.tensor)),
        "tokens to their experts": ("dispatch", expert_ranks, expert_ranks),
        "results of experts back": ("combine", expert_ranks, expert_ranks),
        "hand-over between stages": ("pipeline", int(layout.pipeline), stage * int(layout.pipeline)),
    }
    result = [
        LinkTraffic(
            name=name,
            ranks=ranks,
            scale_up=span <= system.domain,
            wire=passes * float(getattr(wire, kind)),
            latency=passes * float(getattr(latency, kind)),
        )
        for name, (kind, ranks, span) in kinds.items()
    ]
    return sorted((t for t in result if t.wire + t.latency > 0), key=lambda t: -(t.wire + t.latency))


def _point(settings: Mapping[str, Any], layout: Layout) -> dict[str, Any]:
    names = ("batch", "context", "cached_tokens", "draft_tokens", "two_batch")
    return {name: settings.get(name, 0) for name in names} | {"piece": settings.get("piece", inf)} | widths(layout)


def _stage_bytes(
    architecture: Architecture, layers: range, layout: Layout, context: float
) -> tuple[float, float, float]:
    """Of a stage on the fullest rank: weights inside layers but for routed experts, these, a sequence's cache. [B]"""
    part = replace(architecture, layers=tuple(architecture.layers[i] for i in layers))
    alone = replace(layout, pipeline=1.0)
    memory_use = memory(part, alone, 1.0, context, 0.0, 0.0)
    routed_bytes = sum(float(count * expert_bytes(part, layer, layout)) for layer, count in part.groups)
    inside = float(memory_use.weights) - float(outside_bytes(part, alone)[0])
    return inside - (0.0 if layout.ffn else routed_bytes), routed_bytes, float(memory_use.cache)


def _expert_rank(layout: Layout, group: int, place: int) -> int:
    """Rank of expert parallelism of a place in a group."""
    tensor, expert = int(layout.tensor), int(layout.expert)
    if expert <= tensor:
        return place // (tensor // expert)
    return group % (expert // tensor) * tensor + place
