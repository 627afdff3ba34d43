"""What a backward pass needs of the forward one: bytes that wait, with and without computing them again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rackmath.errors import InputError
from rackmath.models.architecture import Architecture
from rackmath.models.operator import Operator, Pass
from rackmath.models.operators import CORES, operators

RECOMPUTE = ("none", "selective", "full", "reversible")
"""Ways to keep less than everything. Selective: attention, norms and activation functions are run again, products are
not; reversible: the inverse, which costs another forward pass."""
_BYTES = 2.0
"""Activations are kept at 16 bit. [B]"""
_TOKENS = 1024.0


def kept(architecture: Architecture, recompute: str) -> tuple[float, float]:
    """Bytes that wait per token, and those of the layer in work.

    Without recomputation every product's output waits but the last of its block, whose input waits, and the inputs and
    outputs of norms; attention is fused. Selective recomputation drops what attention, norms and activation functions
    make. Full keeps the input of each layer. Reversible layers keep two streams, whatever the depth.

    Returns
    -------
    tuple of float
        Of all layers, and of one layer that is being computed again. [B/token]

    Errors: :class:`InputError` for an unknown way. Source: Korthikanti et al. 2022, generalised from its 34 s b h.
    """
    if recompute not in RECOMPUTE:
        raise InputError("--recompute", recompute, f"known are {', '.join(RECOMPUTE)}")
    hidden = architecture.hidden
    whole = cheap = largest = 0.0
    for group in _layers(architecture):
        all_of_it, again = _layer(group, hidden)
        count = group[0].count
        whole += count * all_of_it
        cheap += count * again
        largest = max(largest, all_of_it)
    if recompute == "none":
        return whole, 0.0
    if recompute == "selective":
        return whole - cheap, 0.0
    depth = len(architecture.layers) if recompute == "full" else 2
    return depth * hidden * _BYTES, largest


def repeated(architecture: Architecture, recompute: str, length: float) -> float:
    """Part of the forward pass that a way runs again, by FLOPs; of the selective one attention's. [1]

    Errors: :class:`InputError` for an unknown way.
    """
    if recompute not in RECOMPUTE:
        raise InputError("--recompute", recompute, f"known are {', '.join(RECOMPUTE)}")
    if recompute != "selective":
        return 0.0 if recompute == "none" else 1.0
    work = Pass(phase="train", sequences=1.0, new_tokens=length, context=length)
    flops = [
        (operator.name, operator.count * float(np.max(operator.flops))) for operator in operators(architecture, work)
    ]
    return sum(value for name, value in flops if name in CORES) / sum(value for _, value in flops)


def _layers(architecture: Architecture) -> Iterator[list[Operator]]:
    """Operators of each kind of layer."""
    work = Pass(phase="train", sequences=1.0, new_tokens=_TOKENS, context=_TOKENS)
    group: list[Operator] = []
    for operator in operators(architecture, work):
        if not operator.layered:
            continue
        if any(operator.name == second.name for second in group):
            yield group
            group = []
        group.append(operator)
    if group:
        yield group


def _layer(group: list[Operator], hidden: int) -> tuple[float, float]:
    """Bytes per token of one layer, and those of them that selective recomputation makes again."""
    products = [
        operator for operator in group if operator.kind in ("product", "experts") and np.isfinite(operator.sides[1])
    ]
    last = {product.role: product for product in products}
    stored_bytes = again = 0.0
    for product in products:
        out, into = product.sides
        # Tokens meet a matrix once, or once for each expert that they are sent to.
        times = float(np.max(product.flops)) / (2 * out * into * _TOKENS)
        if product is last[product.role] and len([second for second in products if second.role == product.role]) > 1:
            stored_bytes += times * into
            again += times * into
        else:
            stored_bytes += times * out
    experts = [product for product in products if product.kind == "experts"]
    if experts:
        out, into = experts[0].sides
        stored_bytes += float(np.max(experts[0].flops)) / (2 * out * into * _TOKENS) * hidden
    norms = sum(operator.sides[0] for operator in group if operator.role == "norm" and operator.name == "norm")
    stored_bytes += 2 * norms
    again += norms
    return stored_bytes * _BYTES, again * _BYTES


def megatron_activations(
    *,
    hidden: float,
    heads: float,
    layers: float,
    length: float,
    microbatch: float,
    tensor: float = 1.0,
    pipeline: float = 1.0,
    chunks: float = 1.0,
    sequence_parallel: bool = False,
    recompute: str = "none",
) -> float:
    r"""Activation bytes of the first stage of a GPT, as Megatron's paper counts them. [B]

    .. math:: s b h L \left(10 + \frac{24}{t} + 5 \frac{a s}{h t}\right) \left(1 + \frac{p-1}{p v}\right)

    with dropout masks, unfused attention, 16 bit and blocks of four times the width; 1F1B keeps p micro-batches on
    the first stage, of L/p layers each. Sequence parallelism divides the ten as well, selective recomputation drops the
    attention term, full keeps 2 s b h. The last factor only where stages are interleaved (v > 1).

    Source: Korthikanti et al. 2022, arXiv:2205.05198, equations 1 to 6.
    """
    if recompute not in ("none", "selective", "full"):
        raise InputError("--recompute", recompute, "the published formula knows none, selective and full")
    scores = 0.0 if recompute == "selective" else 5 * heads * length / (hidden * tensor)
    if recompute == "full":
        per_layer = 2.0 / (tensor if sequence_parallel else 1.0)
    else:
        per_layer = 10 / (tensor if sequence_parallel else 1.0) + 24 / tensor + scores
    interleaving = 1 + (pipeline - 1) / (pipeline * chunks) if chunks > 1 else 1.0
    return length * microbatch * hidden * layers * per_layer * interleaving
