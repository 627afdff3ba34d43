"""Low-rank adapters (LoRA) that a server holds beside a model: the fields of requests, and what is made of them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Annotated, Any

from rackmath.api import kinds
from rackmath.api.fields import Option, refuse_without
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.models.adapter_weights import adapter_params
from rackmath.models.adapters import ALL_LINEAR, Adapters
from rackmath.models.architecture import Architecture
from rackmath.models.formats import BF16
from rackmath.units import show

TARGETS = Option(
    help="Matrices with adapters: all-linear, classes (attention), names (q_proj,v_proj).",
    names=("--lora-target-modules", "--target-modules"),
    flags={"sglang": "--lora-target-modules"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterFields:
    """Fields of every request that serves a model with adapters; they stand behind its own."""

    adapters: Annotated[
        int | None,
        Option(
            help="Low-rank adapters (LoRA) that requests choose from.",
            kind=kinds.whole(1, 10_000_000),
            names=("--adapters", "--loras"),
        ),
    ] = None
    max_lora_rank: Annotated[
        int,
        Option(
            help="Rank of the adapters.",
            kind=kinds.whole(1, 1024),
            flags={"vllm": "--max-lora-rank", "sglang": "--max-lora-rank"},
        ),
    ] = 16
    lora_target_modules: Annotated[str, TARGETS] = ALL_LINEAR
    max_loras: Annotated[
        int | None,
        Option(
            help="Adapters on the accelerators at a time, the others in host memory (default: all).",
            kind=kinds.whole(1, 10_000_000),
            names=("--max-loras", "--max-loras-per-batch"),
            flags={"vllm": "--max-loras", "sglang": "--max-loras-per-batch"},
        ),
    ] = None
    adapter_share: Annotated[float, Option(help="Part of the requests with an adapter, 0 to 1.", kind=kinds.NUMBER)] = (
        1.0
    )
    adapter_skew: Annotated[
        float,
        Option(help="Popularity of the i-th adapter: 1 / i^s; 0 where all are alike.", kind=kinds.NUMBER),
    ] = 0.0


def adapters_of(r: AdapterFields) -> Adapters | None:
    """The adapters of a request; None without any.

    Errors: :class:`InputError` for numbers out of range, and for what says nothing without adapters.
    """
    if r.adapters is None:
        refuse_without(r, "--adapters", *(f.name for f in fields(AdapterFields)))
        return None
    return Adapters(
        rank=r.max_lora_rank,
        targets=targets_of(r.lora_target_modules),
        count=r.adapters,
        resident=r.adapters if r.max_loras is None else r.max_loras,
        share=r.adapter_share,
        skew=r.adapter_skew,
    )


def targets_of(text: str) -> tuple[str, ...]:
    """Names of matrices with commas between them."""
    return tuple(part.strip() for part in text.split(",") if part.strip()) or (ALL_LINEAR,)


def with_adapters(architecture: Architecture, r: AdapterFields, system: System) -> Architecture:
    """The model with the adapters of a request beside it.

    Errors: :class:`InputError` for matrices that it has not, and for adapters that come over a link nobody knows.
    """
    adapters = adapters_of(r)
    if adapters is None:
        return architecture
    adapter_params(architecture, adapters)
    if adapters.missing and system.host_link is None:
        raise InputError("--max-loras", adapters.resident, f"{system.name} states no link to the host: hold all")
    return replace(architecture, adapters=adapters)


def adapter_facts(architecture: Architecture, sequences: float) -> dict[str, Any] | None:
    """Numbers of the adapters of a model in a batch; None without any."""
    adapters = architecture.adapters
    if adapters is None:
        return None
    params = adapter_params(architecture, adapters)
    return {
        "count": adapters.count,
        "rank": adapters.rank,
        "targets": list(adapters.targets),
        "params_each": params,
        "bytes_each": params * BF16.bytes_per_element,
        "resident": adapters.resident,
        "distinct_in_batch": float(adapters.distinct(sequences)),
        "requests_that_load": adapters.missing,
    }


def adapter_note(architecture: Architecture, sequences: float | None = None) -> tuple[str, ...]:
    """What a reader has to know of them, in a line; nothing without any."""
    facts = adapter_facts(architecture, sequences or 1.0)
    if facts is None:
        return ()
    line = (
        f"{facts['count']:,} adapters of rank {facts['rank']} on {', '.join(facts['targets'])}, "
        f"{facts['params_each'] / 1e6:,.3g} M parameters, {show(facts['bytes_each'], 'B')} each; "
        f"room for {facts['resident']:,}"
    )
    if sequences is not None:
        line += f", {facts['distinct_in_batch']:.3g} distinct in a batch"
    if facts["requests_that_load"]:
        line += f"; {facts['requests_that_load']:.0%} of the requests load theirs from the host before their prompt"
    return (line, "no service with adapters was measured: the time of their products may be half or twice as long")
