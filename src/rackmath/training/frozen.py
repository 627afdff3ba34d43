"""Training with frozen weights: what backward passes skip, and what narrow storage costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rackmath.errors import InputError
from rackmath.models.adapter_weights import adapter_operators, adapter_params
from rackmath.models.adapters import Adapters
from rackmath.models.architecture import Architecture
from rackmath.models.counts import total_params
from rackmath.models.formats import BF16, Format
from rackmath.models.operator import Operator, Pass
from rackmath.models.operators import operators

_EXPANDED = 10.0
"""Time in which bitsandbytes expands 4-bit weights before each product, over that of reading them at 16 bit; writing
and reading them would take 2. Differences between LoRA and QLoRA say 11 to 13 on A100 (Qwen's README), 9 on RTX 4090
(torchtune's): ``tests/data/finetuning.csv``."""
_PRODUCTS = ("product", "experts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """How much of a model a run leaves alone."""

    part: float = 0.0
    """FLOPs of products with frozen weights, over those of a forward pass: their gradients are not computed. [1]"""
    trained_part: float = 1.0
    """Parameters with gradients, over those of the model. [1]"""
    expansion: float = 0.0
    """Time of expanding weights before each product, over that of reading them at 16 bit. [1]"""


def frozen(architecture: Architecture, length: float, storage: Format) -> Frozen:
    """What a run with low-rank adapters leaves alone; nothing without adapters.

    Parameters
    ----------
    architecture : Architecture
        With its adapters, of which one is trained.
    length : float
        Tokens of a sequence. [tokens]
    storage : Format
        Of the frozen weights.

    Errors: :class:`InputError` for weights narrower than 16 bit that are trained themselves.
    """
    if architecture.adapters is None:
        if storage.bits < BF16.bits:
            raise InputError("--base-weights", storage.name, "only frozen weights are narrow: give --lora-rank")
        return Frozen()
    work = Pass(phase="train", sequences=1.0, new_tokens=length, context=length)
    work_of = [(_flops(op), op.kind in _PRODUCTS) for op in operators(architecture, work)]
    total = sum(flops for flops, _ in work_of) + sum(_flops(op) for op in adapter_operators(architecture, work))
    return Frozen(
        part=sum(flops for flops, product in work_of if product) / total,
        trained_part=adapter_params(architecture, architecture.adapters) / total_params(architecture),
        expansion=_EXPANDED if storage.bits < 8 else 0.0,
    )


def with_one_adapter(architecture: Architecture, rank: int, targets: tuple[str, ...]) -> Architecture:
    """The model with the adapter that is trained."""
    return replace(architecture, adapters=Adapters(rank=rank, targets=targets))


def _flops(operator: Operator) -> float:
    return operator.count * float(np.max(operator.flops))
