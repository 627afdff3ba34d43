"""The parallelism of a row -> layouts: what it states, in any of the spellings in use."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from rackmath.engine import Layout
from rackmath.engine.layout import expert_count, head_count
from rackmath.errors import NotUnderstood
from rackmath.models.architecture import Architecture

_PAIR = re.compile(r"([a-z_]+)=(\d+)")
_POOL = re.compile(r"(prefill|decode)\[([^\]]*)\]")
_EXPERTS = frozenset({"ep", "moe_ep", "moe_tp"})
_CORES = re.compile(r"over (\d+) \w*cores \((\d+) chips\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One pool, or two: the layout of a worker and how many workers there are."""

    layout: Layout
    workers: float
    prefill: Layout | None = None
    """Layout of the prefill pool's workers, where it stands apart."""
    prefill_workers: float = 0.0
    two_batch: bool = False
    """Whether the row says that two half-batches overlap each other's communication."""
    layer_split: bool = False
    """Whether layers are split over accelerators as in llama.cpp."""
    inferred: str = ""
    """What was assumed where the row does not say."""


def deployment(text: str, gpus: int, architecture: Architecture) -> Deployment | None:
    """Read a row's parallelism; None where it says nothing on many accelerators.

    Errors: :class:`NotUnderstood` for widths that contradict the number of accelerators.
    """
    plain = text.lower()
    overlap = "two-batch overlap" in plain and "no two-batch" not in plain
    pools = dict(_POOL.findall(plain))
    if len(pools) == 2:
        first, first_gpus = _pool(pools["prefill"], architecture)
        second, second_gpus = _pool(pools["decode"], architecture)
        return Deployment(
            layout=second,
            workers=max(second_gpus / float(second.gpus), 1.0),
            prefill=first,
            prefill_workers=max(first_gpus / float(first.gpus), 1.0),
            two_batch=overlap,
        )
    if split := re.search(r"layer split over (\d+)", plain):
        return Deployment(layout=Layout(pipeline=int(split.group(1))), workers=1.0, layer_split=True)
    widths = {key: int(value) for key, value in _PAIR.findall(plain)}
    if not widths:
        return Deployment(layout=Layout(), workers=1.0) if gpus == 1 else None
    if cores := _CORES.search(plain):
        widths = _of_chips(widths, int(cores.group(1)) // max(int(cores.group(2)), 1))
    layout = _layout(widths, gpus, architecture)
    workers = gpus / float(layout.gpus)
    if workers < 1 or workers != int(workers):
        raise NotUnderstood("parallelism", text, f"its {layout.gpus} accelerators do not divide n_gpus = {gpus}")
    return Deployment(layout=layout, workers=workers, two_batch=overlap)


def _of_chips(widths: dict[str, int], cores: int) -> dict[str, int]:
    """Widths counted in cores as widths counted in chips: the cores of a chip share its tensor ranks first."""
    inside = math.gcd(widths.get("tp", 1), cores)
    outside = math.gcd(widths.get("attention_dp", 1), cores // inside)
    return widths | {"tp": widths.get("tp", 1) // inside, "attention_dp": widths.get("attention_dp", 1) // outside}


def attention_split(found: Deployment, architecture: Architecture) -> Deployment:
    """Return the deployment with attention data-parallel and experts spread, where there are experts."""
    experts = expert_count(architecture)
    if not experts:
        return found
    ranks = int(found.layout.tensor)
    return replace(found, layout=Layout(expert=min(ranks, experts), data=ranks, pipeline=found.layout.pipeline))


def _pool(text: str, architecture: Architecture) -> tuple[Layout, int]:
    """Layout of one worker of a pool of a disaggregated deployment, and the pool's accelerators.

    A worker has the pool's accelerators over its workers; widths that leave some of them
    over are completed: data-parallel attention where the row says so, wherever only the
    width of experts is named, or where heads do not divide; else tensor parallelism.
    """
    widths = {key: int(value) for key, value in _PAIR.findall(text)}
    ranks = widths.get("tp", 1) * widths.get("pp", 1) * widths.get("attention_dp", 1)
    gpus = max(widths.get("gpus", ranks * widths.get("workers", 1)), 1)
    each = max(gpus // widths.get("workers", max(gpus // max(ranks, widths.get("ep", 1)), 1)), 1)
    if "attention_dp" in widths:
        return _layout(widths, gpus, architecture), gpus
    heads = head_count(architecture) or each
    tensor = min(widths.get("tp", each if widths.get("ep", 1) == 1 else 1), each)
    spread = widths.get("dp_attention") == 1 or "tp" not in widths or heads % tensor != 0
    if spread:
        tensor = 1 if tensor == each or heads % tensor else tensor
        return Layout(tensor=tensor, expert=_ranks(architecture, each), data=each // tensor), gpus
    if each % tensor == 0 and tensor < each:
        tensor = each if heads % each == 0 else tensor
    data = each // tensor
    expert = _ranks(architecture, min(max(widths.get("ep", 1), 1 if data == 1 else each), tensor * data))
    return Layout(tensor=tensor, expert=expert, data=data), gpus


def _ranks(architecture: Architecture, width: int) -> int:
    """Ranks that experts are dealt to; one for a dense model."""
    return min(width, expert_count(architecture)) if expert_count(architecture) else 1


def _layout(widths: dict[str, int], gpus: int, architecture: Architecture) -> Layout:
    tensor, pipeline = widths.get("tp", 1), widths.get("pp", 1)
    data = widths.get("attention_dp", 1)
    if widths.get("dp_attention") == 1 and data == 1:
        # SGLang's switch: attention data-parallel over all ranks that hold the experts.
        tensor, data = 1, max(tensor, widths.get("ep", 1))
    elif data == 1 and "tp" not in widths and "dp" in widths:
        data = widths["dp"]
    expert = widths.get("moe_ep", widths.get("ep", 1))
    ranks = tensor * data
    if not expert_count(architecture):
        return Layout(tensor=tensor, pipeline=pipeline, data=data)
    if data > 1 and "moe_tp" in widths:
        # Slices of experts lie over groups as well: together the ranks hold one set.
        expert = widths["moe_tp"] * expert
    elif data > 1 and (widths.get("dp_attention") == 1 or (_EXPERTS.isdisjoint(widths) and "attention_dp" in widths)):
        # Only attention is data-parallel: its ranks together hold one set of experts.
        expert = ranks
    elif expert > ranks and expert <= gpus and "tp" in widths:
        # tp counts attention; the experts' ranks beyond it are data-parallel groups.
        data = expert // tensor
        ranks = tensor * data
    expert = min(max(expert, 1), ranks)
    return Layout(tensor=tensor, expert=expert, pipeline=pipeline, data=data)
