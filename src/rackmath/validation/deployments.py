"""The parallelism of a row -> layouts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rackmath.engine import Layout
from rackmath.engine.layout import expert_count, head_count
from rackmath.engine.sharding import memory
from rackmath.errors import NotUnderstood
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.validation.rows import Row

_WEIGHTS = 2 / 3
"""Of an accelerator's memory that weights take at most where a layout is chosen for throughput. [1]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDeployment:
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


def deployment(row: Row, architecture: Architecture) -> RowDeployment | None:
    """Layouts of a row; None where it says nothing on many accelerators.

    Errors: :class:`NotUnderstood` for widths that contradict the number of accelerators.
    """
    overlap = row.flag("two_batch_overlap")
    if row.topology == "disaggregated":
        return replace(_pools(row, architecture), two_batch=overlap)
    if row.flag("layer_split"):
        return RowDeployment(layout=Layout(pipeline=int(row.pp or row.gpus)), workers=1.0, layer_split=True)
    if row.tp is None and row.pp is None and row.dp is None and row.ep is None:
        return RowDeployment(layout=Layout(), workers=1.0) if row.gpus == 1 else None
    data = int(row.dp or 1) if row.dp_kind == "attention" else 1
    layout = _layout(int(row.tp or 1), int(row.pp or 1), data, row.ep, row.moe_tp, architecture)
    if row.cp and row.cp > 1:
        layout = replace(layout, context_parallel=int(row.cp))
    workers = row.gpus / float(layout.gpus)
    if workers < 1 or workers != int(workers):
        raise NotUnderstood(
            "tp, pp, dp", layout.text(), f"its {layout.gpus} accelerators do not divide n_gpus = {row.gpus}"
        )
    return RowDeployment(layout=layout, workers=workers, two_batch=overlap)


def _pools(row: Row, architecture: Architecture) -> RowDeployment:
    """Two pools; a worker has the pool's accelerators over its workers."""
    for name in ("prefill_gpus", "decode_gpus"):
        if not getattr(row, name):
            raise NotUnderstood(name, getattr(row, name), "a disaggregated row needs the accelerators of both pools")
    first, readers = _pool(row, "prefill", architecture)
    second, writers = _pool(row, "decode", architecture)
    has_pools = row.prefill_workers is not None and row.decode_workers is not None
    return RowDeployment(
        layout=second,
        workers=writers,
        prefill=first,
        prefill_workers=readers,
        inferred="" if has_pools else "workers of a pool as their widths make them: the row does not say",
    )


def _pool(row: Row, pool: str, architecture: Architecture) -> tuple[Layout, float]:
    """Layout of one worker of a pool, and how many there are.

    Accelerators of a worker that no width names attend to other sequences where experts need them all
    or heads do not divide, else they widen tensor parallelism. Where both widths and the number of workers are named
    they are further stages: no column says them.
    """
    gpus, workers, tensor, data, expert = (
        getattr(row, f"{pool}_{name}") for name in ("gpus", "workers", "tp", "dp", "ep")
    )
    total = int(gpus or 1)
    ranks = int(tensor or 1) * int(data or 1)
    count = int(workers or max(total // max(ranks, int(expert or 1)), 1))
    per_worker = max(total // max(count, 1), 1)
    heads = head_count(architecture) or per_worker
    wide = min(int(tensor or per_worker), per_worker)
    if data is None and tensor is None and (int(expert or 1) > 1 or heads % per_worker):
        wide = 1
    groups = int(data) if data and wide * int(data) <= per_worker else max(per_worker // wide, 1)
    stages, rest = divmod(per_worker, ranks) if tensor and data and workers else (1, 0)
    layout = _layout(wide, 1 if rest else max(stages, 1), groups, expert, None, architecture)
    return layout, max(total / float(layout.gpus), 1.0)


def _layout(
    tensor: int, pipeline: int, data: int, expert: float | None, slices: float | None, architecture: Architecture
) -> Layout:
    """Layout of one worker; experts that nothing deals are sliced by tensor parallelism, or dealt to its groups."""
    experts = expert_count(architecture)
    ranks = tensor * data
    if not experts:
        return Layout(tensor=tensor, pipeline=pipeline, data=data)
    expert_ranks = int(expert or 1)
    if data > 1 and (expert is None or expert_ranks == 1 or slices):
        # Groups together hold one set of experts, whether dealt or sliced.
        expert_ranks = ranks
    elif expert_ranks > ranks:
        # Widths of attention are stated for one group of several.
        data, ranks = expert_ranks // tensor, expert_ranks
    expert_ranks = min(max(expert_ranks, 1), ranks, experts)
    while (
        ranks % expert_ranks
        or (expert_ranks > tensor and expert_ranks % tensor)
        or (expert_ranks <= tensor and tensor % expert_ranks)
    ):
        expert_ranks -= 1
    return Layout(tensor=tensor, expert=expert_ranks, pipeline=pipeline, data=data)


def inferred_deployment(row: Row, system: System, architecture: Architecture, *, alone: bool) -> RowDeployment:
    """Layout that engines choose when nothing is said.

    Tensor parallel inside a domain for users who wait; where only throughput counts, as many copies as leave a third of
    their memory to the cache, in stages where a domain is too small for that.
    """
    layout = Layout(tensor=min(row.gpus, system.domain))
    if not alone:
        widths = (w for w in range(1, int(layout.tensor) + 1) if layout.tensor % w == 0)
        stages = (s for s in range(2, row.gpus + 1) if row.gpus % (s * layout.tensor) == 0)
        choices = [*(Layout(tensor=w) for w in widths), *(Layout(tensor=layout.tensor, pipeline=s) for s in stages)]
        layout = next((choice for choice in choices if _roomy(architecture, system, choice)), layout)
    if row.gpus % int(layout.gpus):
        raise NotUnderstood("tp", row.tp, f"state it: {row.gpus} GPUs do not divide into domains")
    stages_text = f" in {layout.pipeline} stages" if layout.pipeline > 1 else ""
    return RowDeployment(
        layout=layout,
        workers=row.gpus / float(layout.gpus),
        inferred=f"tensor parallel over {layout.tensor} GPUs{stages_text}: the row does not say",
    )


def _roomy(architecture: Architecture, system: System, layout: Layout) -> bool:
    """Whether weights leave a third of the memory to the cache."""
    room = memory(architecture, layout, 1.0, 1.0, 1.0, system.chip.usable_memory)
    return float(room.weights) <= _WEIGHTS * float(room.capacity)
