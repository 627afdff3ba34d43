"""An estimate as what JSON holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rackmath.api.adapters import adapter_facts
from rackmath.api.apart import apart_facts
from rackmath.api.images import image_facts
from rackmath.api.plain import to_plain

if TYPE_CHECKING:
    from rackmath.api.estimate_result import EstimateResult


def facts_of_estimate(result: EstimateResult) -> dict[str, Any]:
    """What ``rackmath estimate --json`` prints."""
    e, fits, cost = result.step, result.fits, result.usd_per_million_tokens
    low, high = result.time_range
    adapters = adapter_facts(result.architecture, result.request.batch)
    images = image_facts(result.architecture)
    apart = apart_facts(e)
    return to_plain(
        {
            "model": result.architecture.name,
            "system": result.system.name,
            "gpus": int(e.gpus),
            "layout": result.layout.text(),
            "time": result.time,
            "time_low": low,
            "time_high": high,
            "computed": {
                "time": float(result.computed.time),
                "time_low": float(result.computed.time_low),
                "time_high": float(result.computed.time_high),
            },
            "evidence": None if result.near is None else result.near.to_dict(),
            "time_ideal": float(e.time_ideal),
            "time_overlapped": float(e.time_overlapped),
            "bound_by": result.bound_by,
            "terms": {name: float(value) for name, value in e.terms.items()},
            "lost": {name: float(value) for name, value in e.lost.items()},
            "fits": fits,
            "memory_per_gpu": float(e.memory.total),
            "memory": {
                "weights": float(e.memory.weights),
                "cache": float(e.memory.cache),
                "activations": float(e.memory.activations),
                "capacity": e.memory.capacity,
            },
            "tokens_per_second": float(e.tokens_per_second) if fits else None,
            "tokens_per_second_per_gpu": float(e.tokens_per_second_per_gpu) if fits else None,
            "tokens_per_second_per_user": result.tokens_per_second_per_user,
            "accepted_tokens": result.tokens_per_step,
            "energy": result.energy,
            **({} if adapters is None else {"adapters": adapters}),
            **images,
            **({} if apart is None else {"experts_apart": apart}),
            "usd_per_million_tokens": cost,
            "usd_per_million_tokens_low": None if cost is None else cost * low / result.time,
            "usd_per_million_tokens_high": None if cost is None else cost * high / result.time,
            "assumptions": result.assumptions,
        }
    )
