"""What fits in which scale-up domain, at what latency; and what the network between domains does.

Models are known by their totals here: all parameters, the part that a token uses, and
the bytes of cache per token, as on the blackboard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rackmath.engine import Layout, Losses, estimate
from rackmath.engine.collectives import all_to_all
from rackmath.engine.step import Estimate
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.models.formats import Format
from rackmath.models.numbers import Number
from rackmath.models.totals import from_totals

_LAYERS = 12
"""Layers per stage: enough that stages are equal."""
_KV = 70_000
"""Cache bytes per token, all layers (DeepSeek-V3). [B/token]"""
_CONTEXT = 8192.0
"""Tokens of a request. [tokens]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RackFit:
    """A model of a size and sparsity on one scale-up domain."""

    total_params: float
    sparsity: float
    """All parameters over those that a token uses. [1]"""
    fits: bool
    """Whether weights and the cache of one request fit."""
    share: float
    """Part of the domain's memory that weights take. [1]"""
    alone: float
    """Time per token of one user. [s]"""
    full: float
    """Time per token with memory full of requests; not a number where it does not fit. [s]"""
    batch: float
    """Requests that memory holds. [sequences]"""
    per_gpu: float
    """Tokens per second and accelerator with memory full. [tokens/s]"""


def domain_fits(
    system: System,
    sizes: Sequence[float],
    sparsities: Sequence[float],
    form: Format,
    *,
    context: float = _CONTEXT,
    kv_bytes_per_token: float = _KV,
    losses: Losses | None = None,
) -> list[RackFit]:
    """Every size and sparsity on one scale-up domain of a system.

    Parameters
    ----------
    system : System
        Its domain is used whole, with everything divided evenly over it.
    sizes : sequence of float
        Parameters. [1]
    sparsities : sequence of float
        Total over active parameters; 1 for a dense model. [1]
    form : Format
        Of weights.
    context, kv_bytes_per_token : float
        Tokens of a request, and cache bytes per token (70 kB: DeepSeek-V3). [tokens], [B/token]

    Errors: :class:`InputError` for sizes and sparsities that are no models.
    """
    result: list[RackFit] = []
    layout = Layout(tensor=system.domain)
    for total in sizes:
        for sparsity in sparsities:
            if not sparsity >= 1:
                raise InputError("sparsity", sparsity, "total over active parameters is at least 1")
            model = from_totals(f"{total:g}", total, total / sparsity, kv_bytes_per_token, weights=form)
            # One user reads the weights of his own token only.
            active = from_totals("active", total / sparsity, total / sparsity, kv_bytes_per_token, weights=form)
            alone = estimate(active, system, layout, batch=1, context=context, losses=losses)
            weight_bytes = total * form.bytes_per_element / system.domain
            room = max(system.chip.memory_capacity - weight_bytes, 0.0) * system.domain
            batch = float(np.floor(room / (kv_bytes_per_token * context)))
            fits = batch >= 1
            full = estimate(model, system, layout, batch=max(batch, 1.0), context=context, losses=losses)
            result.append(
                RackFit(
                    total_params=total,
                    sparsity=sparsity,
                    fits=fits,
                    share=weight_bytes / system.chip.memory_capacity,
                    alone=float(alone.time),
                    full=float(full.time) if fits else float("nan"),
                    batch=batch,
                    per_gpu=float(full.tokens_per_second_per_gpu) if fits else 0.0,
                )
            )
    return result


def largest_model(system: System, form: Format, *, share: float = 0.5) -> float:
    """Parameters whose weights take ``share`` of a domain's memory. [1]"""
    return share * system.domain_capacity / form.bytes_per_element


def domain_of(system: System, size: int) -> System:
    """The same system with another scale-up domain, as if one could be built.

    Errors: :class:`InputError` for a size that is none, and for a system without a network.
    """
    if not 1 <= size <= 1_000_000:
        raise InputError("--domain", size, "write a number from 1 to 1,000,000")
    if size > 1 and system.scale_up is None:
        raise InputError("--domain", size, f"{system.name} has no scale-up network to widen")
    inside = system.scale_up if size > 1 else None
    return replace(system, name=f"{system.name} as a domain of {size}", domain=size, default_gpus=size, scale_up=inside)


def slowdown_over(racks: Number, system: System, size: float = 1e7) -> Number:
    r"""Time of an all-to-all over ``racks`` domains over that inside one, at equal bytes per rank. [1]

    Latencies left out: :math:`\max(r (n - 1) / n, 1/n)` with r the ratio of both networks.
    Source: lecture chapter 2.

    Errors: :class:`InputError` where a system has no network between domains.
    """
    if system.scale_up is None or system.scale_out is None:
        raise InputError("SYSTEM", system.name, "needs both networks; choose one with a scale-up domain and scale-out")
    quiet = replace(
        system,
        scale_up=replace(system.scale_up, latency=0.0),
        scale_out=replace(system.scale_out, latency=0.0),
    )
    # So many ranks that what stays on a rank does not matter, as on the blackboard.
    single = all_to_all(size, system.domain * 1.0, quiet) / (1 - 1 / system.domain)
    return all_to_all(size, racks * system.domain * 1.0, quiet) / single


def half_memory(system: System) -> System:
    """The same system with half the memory on every chip, at the same bandwidth."""
    chip = replace(system.chip, name=f"{system.chip.name}, half of it", memory_capacity=system.chip.memory_capacity / 2)
    return replace(system, name=f"{system.name} with half the memory", chip=chip)


def pipelined(system: System, total_params: float, active_params: float, form: Format, stages: Number) -> Estimate:
    """One token of one user through ``stages`` domains in a row. Broadcasts over stages.

    Weights per accelerator fall with the stages; the token passes all of them.
    Source: lecture chapter 3.
    """
    layers = int(np.max(stages)) * _LAYERS
    layer_model = from_totals("layer", total_params / layers, active_params / layers, _KV / layers, weights=form)
    model = replace(layer_model, layers=layer_model.layers * layers)
    return estimate(model, system, Layout(tensor=system.domain, pipeline=stages), batch=1, context=_CONTEXT)
