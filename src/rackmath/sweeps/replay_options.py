"""Options of ``rackmath simulate`` as values: traffic, tiers, lists of numbers, and what can be varied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rackmath.errors import InputError
from rackmath.serving.simulator.settings import Tier
from rackmath.traffic import Asked
from rackmath.units import parse

OPTIONS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "budget": ("budget", int),
    "seats": ("seats", int),
    "block": ("block", int),
    "policy": ("policy", str),
    "preemption": ("preemption", str),
    "router": ("router", str),
    "tiers": ("tiers", str),
    "eviction": ("eviction", str),
    "ttl": ("ttl", float),
    "gpus": ("gpus", int),
    "layout": ("layout", str),
    "prefill-gpus": ("prefill_gpus", int),
    "prefill-layout": ("prefill_layout", str),
    "beside": ("beside", lambda text: (text,)),
    "poisson": ("rate", float),
    "scale": ("scale", float),
    "users": ("users", int),
    "burst": ("burst", float),
    "drafted": ("drafted", int),
    "mtbf": ("mtbf", float),
    "scale-to": ("scale_to", int),
    "period": ("period", float),
    "weights": ("weights", str),
    "kv": ("kv", str),
    "engine": ("engine", str),
    "year": ("year", float),
    "seed": ("seed", int),
}
"""Options that ``--what-if`` varies, by their name on the command line."""


def varied(given: Mapping[str, Any], name: str, value: str) -> dict[str, Any]:
    """Options with one of them replaced by a value written as text.

    Errors: :class:`InputError` for text that is no such value.
    """
    key, read = OPTIONS[name]
    try:
        return {**given, key: read(value)}
    except ValueError as error:
        raise InputError(f"--what-if {name}", value, "write a number") from error


def asked_of(given: Mapping[str, Any]) -> Asked:
    """Traffic of the command's options."""
    return Asked(
        trace=None if given["trace"] is None else Path(given["trace"]),
        repair=given["repair"],
        scale=given["scale"],
        first=given["first"],
        rate=given["rate"],
        users=given["users"],
        turns=given["turns"],
        grows=given["grows"],
        think=given["think"],
        burst=given["burst"],
        swing=given["swing"],
        input=given["input_tokens"],
        output=given["output_tokens"],
        spread=given["spread"],
        requests=given["requests"],
        classes=numbers_of(given["classes"], "--classes"),
        block=given["prefix_block"],
        seed=given["seed"],
    )


def numbers_of(text: str | None, field: str) -> tuple[float, ...]:
    """Read numbers with commas between."""
    if not text:
        return ()
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(field, text, "write numbers with commas between") from error


def tiers_of(text: str | None) -> tuple[Tier, ...]:
    """Read ``hbm=shared,dram=1TB@50GB/s+10us``; shared with requests, inf for one without end, none for no tiers."""
    found: list[Tier] = []
    for part in text.split(",") if text and text != "none" else ():
        name, _, rest = part.partition("=")
        size, _, speed = rest.partition("@")
        bandwidth, _, latency = speed.partition("+")
        if not name or not size:
            raise InputError("--tiers", part, "write name=capacity, then @bandwidth and +latency, as dram=1TB@50GB/s")
        found.append(
            Tier(
                name=name,
                capacity=float("inf") if size in ("inf", "shared") else parse(size, "B", "--tiers"),
                shared=size == "shared",
                bandwidth=parse(bandwidth, "B/s", "--tiers") if bandwidth else float("inf"),
                latency=parse(latency, "s", "--tiers") if latency else 0.0,
            )
        )
    return tuple(found)
