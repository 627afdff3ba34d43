"""Tiers of a prefix cache, as they are written in one text, and stores of weights."""

from __future__ import annotations

from math import isfinite

from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.serving.simulator.settings import Tier
from rackmath.units import parse


def tiers_of(text: str | None) -> tuple[Tier, ...]:
    """Read ``hbm=shared,ddr5=1TB,all:flash=100TB@50GB/s+1ms``.

    shared is what running requests leave, inf has no end, none is no tiers; ``all:`` is one for all replicas. Tiers
    of the catalogue (``ddr5``, ``cxl``, ``nvme-tlc``, ...) bring bandwidth and price of as many devices as they fill.
    """
    tiers: list[Tier] = []
    catalogue_tiers = catalogue.tiers()
    for part in text.split(",") if text and text != "none" else ():
        name, _, rest = part.partition("=")
        size, _, speed = rest.partition("@")
        bandwidth, _, latency = speed.partition("+")
        common, name = name.startswith("all:"), name.removeprefix("all:")
        if not name or not size:
            raise InputError("--tiers", part, "write name=capacity, then @bandwidth and +latency, as dram=1TB@50GB/s")
        device = catalogue_tiers.get(name)
        capacity = float("inf") if size in ("inf", "shared") else parse(size, "B", "--tiers")
        if tiers and not bandwidth and device is None:
            raise InputError(
                "--tiers", part, f"say how fast, as {name}={size}@50GB/s, or name one of {', '.join(catalogue_tiers)}"
            )
        usual = float("inf")
        if device is not None:
            usual = device.bandwidth * (max(capacity // device.capacity, 1.0) if isfinite(capacity) else 1.0)
        tiers.append(
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
    return tuple(tiers)


def store_rate(text: str) -> float:
    """Bandwidth of a store of weights: ``nvme-tlc``, ``5GB/s``; infinite of ``host``, whose links bind. [B/s]

    Errors: :class:`InputError` for what is neither a device of the catalogue nor a rate.
    """
    if text == "host":
        return float("inf")
    device = catalogue.tiers().get(text)
    if device is not None:
        return device.bandwidth
    if not text[:1].isdigit():
        raise InputError("--weights-from", text, f"write host, {', '.join(catalogue.tiers())}, or a rate, as 5GB/s")
    return parse(text, "B/s", "--weights-from")
