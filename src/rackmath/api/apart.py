"""Routed experts on accelerators of their own, as answers tell of them."""

from __future__ import annotations

from typing import Any

from rackmath.engine import Estimate, Layout
from rackmath.engine.pass_time import APART_UNMEASURED

_WHY = (
    "no measurement nearby is of routed experts on accelerators of their own; three published steps took 0.7 to "
    "0.8 of the computed time (docs/accuracy-of-afd.md)"
)
AFD_NOTE = f"--afd: all times by physics alone, since {_WHY}"
"""What a reader of a plan has to know."""


def apart_note(layout: Layout) -> tuple[str, ...]:
    """What a reader has to know of a layout; nothing where every accelerator holds its part of all layers."""
    return (f"times by physics alone: {_WHY}",) if layout.ffn else ()


def apart_range(layout: Layout, kind: str, usual: tuple[float, float]) -> tuple[float, float]:
    """90 % range of measured over predicted values of a class under a layout, ``usual`` where experts are not apart."""
    if not layout.ffn or kind == "first token":
        return usual
    low, high = APART_UNMEASURED
    return (usual[0] / high, usual[1] / low) if kind == "throughput" else (usual[0] * low, usual[1] * high)


def apart_facts(step: Estimate) -> dict[str, Any] | None:
    """What each pool works of a pass, and what those hold that have experts only; None where there are none."""
    if not step.busy:
        return None
    return {
        "attention_gpus": float(step.layout.gpus - step.layout.ffn),
        "expert_gpus": float(step.layout.ffn),
        "micro_batches": float(step.micro_batches),
        "memory_per_expert_gpu": float(step.memory.experts),
        "busy": {name: float(value) for name, value in step.busy.items()},
    }
