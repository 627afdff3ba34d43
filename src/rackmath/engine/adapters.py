"""What low-rank adapters add to a pass: loads from host memory, and how far their time may be off."""

from __future__ import annotations

from rackmath.engine.gather import IdealPass
from rackmath.engine.losses import Losses
from rackmath.engine.sharding import adapter_bytes
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number

UNMEASURED = (0.5, 2.0)
"""Measured over computed time of the kernels of adapters: no service with them is among the rows. An inference; Punica
(Chen et al. 2023, arXiv:2310.18547) states 2 ms per token where this says about 1."""


def adapter_loads(architecture: Architecture, system: System, phase: str, point: IdealPass) -> Number:
    """Time in which adapters of new requests come from host memory, one after the other, before their prompts. [s]

    Source: vLLM's worker loads an adapter into its slot before the pass of the first request that names it.
    """
    adapters, link = architecture.adapters, system.host_link
    if phase != "prefill" or adapters is None or not adapters.missing or link is None:
        return 0.0
    return point.held * adapters.missing * adapter_bytes(architecture, adapters, point.layout) / link


def adapter_time(point: IdealPass, k: Losses) -> Number:
    """Time of the kernels of adapters in a pass. [s]"""
    work = point.work
    return point.passes * sum(
        (work.kernels_time(op, k.kernels, k.factors) for op in work.operators if ".lora_" in op.operator.name),
        start=0.0,
    )
