"""Matrices and operators of low-rank adapters (LoRA): two narrow products beside each matrix that they change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rackmath.errors import InputError
from rackmath.models.adapters import ALL_LINEAR, Adapters
from rackmath.models.architecture import Architecture, Layer, Weight
from rackmath.models.formats import BF16
from rackmath.models.numbers import maximum
from rackmath.models.operator import Operator, Pass
from rackmath.models.operators import linear_operator, shared_kernel
from rackmath.models.weights import layer_weights

ADAPTED = ("attention", "recurrent", "feed_forward", "shared", "experts")
"""Tensor classes whose matrices take adapters; routers, embedding and head do not."""
_DIVIDED_INPUT = ("o_proj", "o_b_proj", "out_proj", "down_proj")
"""Matrices whose input tensor parallelism divides. Source: Megatron's and vLLM's row-parallel layers."""


def adapter_weights(layer: Layer, hidden: int, adapters: Adapters) -> Iterator[tuple[Weight, Weight, Weight]]:
    """Matrices of a layer that one adapter changes, each with the two beside it.

    Beside a matrix of m x n stand A, r x n, and B, m x r: ranks that share the outputs of the matrix hold all of A and
    their rows of B; those that share its inputs their columns of A and all of B.
    """
    for weight in layer_weights(layer, hidden):
        if not (weight.columns and weight.multiplied and weight.role in ADAPTED and _is_target(weight, adapters)):
            continue
        divided_input = weight.name.rpartition(".")[2] in _DIVIDED_INPUT
        # Whole experts lie on their ranks with their adapters.
        down, up = ("none", weight.split) if weight.role != "experts" else (weight.split, weight.split)
        if divided_input:
            down, up = up, down
        yield (
            weight,
            replace(weight, name=f"{weight.name}.lora_A", rows=adapters.rank, split=down, owned=True),
            replace(weight, name=f"{weight.name}.lora_B", columns=adapters.rank, split=up, owned=True),
        )


def adapter_params(architecture: Architecture, adapters: Adapters) -> float:
    """Parameters of one adapter: r (m + n) for each m x n matrix. [1]

    Errors: :class:`InputError` where it changes no matrix.
    """
    total = sum(
        count * (a.elements + b.elements)
        for layer, count in architecture.groups
        for _, a, b in adapter_weights(layer, architecture.hidden, adapters)
    )
    if not total:
        raise InputError(
            "--lora-target-modules",
            ",".join(adapters.targets),
            f"{architecture.name} has no such matrix: write {ALL_LINEAR}, classes such as attention, or names such as"
            " q_proj",
        )
    return total


def _is_target(weight: Weight, adapters: Adapters) -> bool:
    parts = weight.name.split(".")
    return any(target == ALL_LINEAR or target == weight.role or target in parts for target in adapters.targets)


def adapter_operators(architecture: Architecture, work: Pass) -> Iterator[Operator]:
    """Products of a pass with the adapters of its requests: down to their rank, and up again.

    Engines run one kernel for the projections of one input (vLLM's and SGLang's ``sgmv``): it reads each adapter of
    the batch once, whatever the number of its tokens. Nothing without adapters.
    """
    adapters = architecture.adapters
    if adapters is None:
        return
    plain = replace(architecture, format=BF16)
    distinct = adapters.distinct(work.sequences)
    for place, (layer, count) in enumerate(architecture.groups):
        for weight, a, b in adapter_weights(layer, architecture.hidden, adapters):
            name = shared_kernel(weight, place) or f"{place}.{weight.name}"
            for matrix, side in ((a, 1), (b, 0)):
                operator = linear_operator(plain, layer, matrix, count, work.tokens, work)
                yield replace(
                    operator,
                    kernel=f"{name}.{matrix.name[-1]}",
                    cut=side,
                    rows=operator.rows * adapters.share / maximum(distinct, 1.0),
                    matrices=operator.matrices * distinct,
                    flops=operator.flops * adapters.share,
                    weight_bytes=operator.weight_bytes * distinct,
                    activation_bytes=operator.activation_bytes * adapters.share,
                )


def adapter_kernels(architecture: Architecture) -> int:
    """Kernels that adapters add to a pass: two for the projections of one input. [kernels]"""
    if architecture.adapters is None:
        return 0
    return sum(
        2 * count * len({shared_kernel(weight, 0) or weight.name for weight, _, _ in matrices})
        for layer, count in architecture.groups
        if (matrices := list(adapter_weights(layer, architecture.hidden, architecture.adapters)))
    )
