"""The parallelism of a training row -> a training run."""

from __future__ import annotations

import re

from rackmath.engine import Layout
from rackmath.engine.layout import expert_count
from rackmath.errors import NotUnderstood
from rackmath.models.architecture import Architecture
from rackmath.training import TrainingRun
from rackmath.validation.rows import Row

_PAIR = re.compile(r"([a-z_]+)=(\d+)")
_FULL = r"act_ckpt=true"
_SELECTIVE = r"act_ckpt=selective"

SELECTIVE = 1 / 3
"""Part of the forward pass that selective recomputation repeats: attention and activations, not the products."""


def training_run(row: Row, architecture: Architecture) -> tuple[TrainingRun, tuple[str, ...]]:
    """Read how a training row is spread, and what had to be assumed.

    Errors: :class:`NotUnderstood` where global batch or length is missing, or widths do
    not divide the accelerators.
    """
    if row.load is None or row.input is None or row.input < 1:
        raise NotUnderstood("batch, input_len", (row.load, row.input), "a training row needs global batch and length")
    text = row.parallelism.lower()
    said = {key: int(value) for key, value in _PAIR.findall(text)}
    tensor = said.get("tp", said.get("ici_tensor_parallelism", 1))
    pipeline, context = said.get("pp", 1), said.get("cp", 1)
    held = tensor * pipeline * context
    if row.gpus % held:
        raise NotUnderstood("parallelism", row.parallelism, f"{row.gpus} accelerators do not divide by {held}")
    data = row.gpus // held
    expert = said.get("ep", 1)
    mixture = expert_count(architecture)
    assumed: list[str] = []
    micro = said.get("mbs", said.get("local_batch"))
    if micro is None:
        micro = max(1, round(row.load / data)) if pipeline == 1 else 1
        assumed.append(f"micro-batch of {micro}: the row does not say")
    sharded = "fsdp" in text and said.get("fsdp", 1) != 0
    if not said:
        sharded = True
        assumed.append("weights sharded over all accelerators: the row does not say")
    run = TrainingRun(
        layout=Layout(
            tensor=tensor,
            expert=min(expert, tensor * data) if mixture else 1,
            pipeline=pipeline,
            data=data,
        ),
        context=context,
        chunks=max(said.get("vp", 1), 1),
        microbatch=min(micro, max(row.load / data, 1 / context)),
        sequences=row.load,
        length=row.input,
        sharded=float(sharded),
        recompute=1.0 if re.search(_FULL, row.notes.lower() + ";" + text) else _partly(row, text),
        frozen=float("lora" in (row.note("task") or "").lower()),
    )
    return run, tuple(assumed)


def _partly(row: Row, text: str) -> float:
    return SELECTIVE if re.search(_SELECTIVE, row.notes.lower() + ";" + text) else 0.0
