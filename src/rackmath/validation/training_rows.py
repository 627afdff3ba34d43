"""The parallelism of a training row -> a training run."""

from __future__ import annotations

from rackmath.engine import Layout
from rackmath.engine.layout import expert_count
from rackmath.errors import NotUnderstood
from rackmath.models.architecture import Architecture
from rackmath.models.formats import BF16
from rackmath.training import TrainingRun
from rackmath.training.frozen import Frozen, frozen, with_one_adapter
from rackmath.validation.rows import Row

SELECTIVE = 1 / 3
"""Part of the forward pass that selective recomputation repeats: attention and activations, not the products."""

_LORA_RANK, _LORA_TARGETS = 16, ("attention",)
"""Adapters of MLPerf's fine-tuning of Llama 2 70B. Source: its reference convergence points, ``lora_r`` 16."""

_REPEATED = {"full": 1.0, "selective": SELECTIVE}

_SHARDED = 3
"""Stage of ZeRO from which weights are sharded as well."""


def training_run(row: Row, architecture: Architecture) -> tuple[TrainingRun, tuple[str, ...]]:
    """Read how a training row is spread, and what had to be assumed.

    Errors: :class:`NotUnderstood` where global batch or length is missing, or widths do
    not divide the accelerators.
    """
    if not row.global_batch or not row.sequence_length:
        missing = "global_batch" if not row.global_batch else "sequence_length"
        raise NotUnderstood(missing, getattr(row, missing), "a training row needs global_batch and sequence_length")
    for name in ("tp", "pp", "cp"):
        if (getattr(row, name) or 1.0) % 1:
            raise NotUnderstood(name, getattr(row, name), "is no whole number of accelerators")
    tensor, pipeline, context = int(row.tp or 1), int(row.pp or 1), int(row.cp or 1)
    divisor = tensor * pipeline * context
    if row.gpus % divisor:
        raise NotUnderstood("tp, pp, cp", divisor, f"{row.gpus} accelerators do not divide by {divisor}")
    data = row.gpus // divisor
    mixture = expert_count(architecture)
    assumptions: list[str] = []
    micro = row.micro_batch
    if micro is None:
        micro = max(1, round(row.global_batch / data)) if pipeline == 1 else 1
        assumptions.append(f"micro_batch of {micro}: the row does not say")
    has_no_layout = row.tp is None and row.pp is None and row.zero_stage is None
    if has_no_layout:
        assumptions.append("weights sharded over all accelerators: the row does not say")
    frozen_parts = Frozen()
    if row.task == "lora":
        frozen_parts = frozen(with_one_adapter(architecture, _LORA_RANK, _LORA_TARGETS), row.sequence_length, BF16)
        assumptions.append(f"adapters of rank {_LORA_RANK} on {', '.join(_LORA_TARGETS)}: the row does not say")
    run = TrainingRun(
        layout=Layout(
            tensor=tensor,
            expert=min(int(row.ep or 1), tensor * data) if mixture else 1,
            pipeline=pipeline,
            data=data,
        ),
        context=context,
        chunks=max(int(row.virtual_stages or 1), 1),
        microbatch=min(micro, max(row.global_batch / data, 1 / context)),
        sequences=row.global_batch,
        length=row.sequence_length,
        sharded=float(has_no_layout or (row.zero_stage or 0) >= _SHARDED),
        recompute=_REPEATED.get(row.recompute, 0.0),
        frozen_part=frozen_parts.part,
        trained_part=frozen_parts.trained_part,
    )
    return run, tuple(assumptions)
