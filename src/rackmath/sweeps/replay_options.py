"""Options of ``rackmath simulate`` as values: traffic, tiers, lists of numbers, and what can be varied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from rackmath import catalogue
from rackmath.errors import InputError
from rackmath.rates import Tokens, requests_per_second
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
    "prefill-on": ("prefill_on", str),
    "beside": ("beside", lambda text: (text,)),
    "poisson": ("rate", float),
    "scale": ("scale", float),
    "copies": ("copies", float),
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


ASIDE = ("what_if", "capacity", "workers", "on_cluster", "checkpoint", "out", "series_file", "timeline_file", "plot",
         "as_json")  # fmt: skip
"""Options that change nothing of a run."""


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
        copies=given["copies"],
        first=given["first"],
        rate=_rate(given),
        users=given["users"],
        turns=given["turns"],
        grows=given["grows"],
        think=given["think"],
        burst=given["burst"],
        swing=given["swing"],
        input=given["input_tokens"],
        output=given["output_tokens"],
        spread=given["spread"],
        cached_prefix=given["cached_prefix"],
        requests=given["requests"],
        classes=numbers_of(given["classes"], "--classes"),
        block=given["prefix_block"],
        page=given["block"],
        seed=given["seed"],
    )


def _rate(given: Mapping[str, Any]) -> float | None:
    rate, output = given["rate"], given["output_tokens"]
    if rate is None or not isinstance(rate, Tokens):
        return rate
    if output is None:
        raise InputError("--poisson", float(rate), "is in tokens per second: give --output as well")
    return requests_per_second(rate, output)


def numbers_of(text: str | None, field: str) -> tuple[float, ...]:
    """Read numbers with commas between."""
    if not text:
        return ()
    try:
        return tuple(parse(part, "1", field) for part in text.split(","))
    except InputError as error:
        raise InputError(field, text, "write numbers with commas between") from error


def tiers_of(text: str | None) -> tuple[Tier, ...]:
    """Read ``hbm=shared,ddr5=1TB,all:flash=100TB@50GB/s+1ms``.

    shared is what running requests leave, inf has no end, none is no tiers; ``all:`` is one for all replicas. Tiers
    of the catalogue (``ddr5``, ``cxl``, ``nvme-tlc``, ...) bring bandwidth and price of as many devices as they fill.
    """
    found: list[Tier] = []
    known = catalogue.tiers()
    for part in text.split(",") if text and text != "none" else ():
        name, _, rest = part.partition("=")
        size, _, speed = rest.partition("@")
        bandwidth, _, latency = speed.partition("+")
        common, name = name.startswith("all:"), name.removeprefix("all:")
        if not name or not size:
            raise InputError("--tiers", part, "write name=capacity, then @bandwidth and +latency, as dram=1TB@50GB/s")
        device = known.get(name)
        capacity = float("inf") if size in ("inf", "shared") else parse(size, "B", "--tiers")
        if found and not bandwidth and device is None:
            raise InputError(
                "--tiers", part, f"say how fast, as {name}={size}@50GB/s, or name one of {', '.join(known)}"
            )
        usual = float("inf")
        if device is not None:
            usual = device.bandwidth * (max(capacity // device.capacity, 1.0) if isfinite(capacity) else 1.0)
        found.append(
            Tier(
                name=name,
                capacity=capacity,
                bandwidth=parse(bandwidth, "B/s", "--tiers") if bandwidth else usual,
                latency=parse(latency, "s", "--tiers") if latency else 0.0,
                shared=size == "shared",
                common=common,
                price=0.0 if device is None else device.price,
            )
        )
    return tuple(found)
