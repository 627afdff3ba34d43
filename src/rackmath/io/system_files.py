"""Tables of TOML -> chips and systems; every error names the key of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from rackmath.errors import InputError
from rackmath.hardware import Chip, Link, System
from rackmath.io.catalogue_files import ChipFile, CitedNumber, HostFile, LinkFile, PriceFile, SystemFile
from rackmath.units import parse

_WAYS_OUT = {
    "extra_forbidden": "is no key of this table: `rackmath systems --schema` lists them",
    "missing": "write it: `rackmath systems --schema` has an example",
    "model_type": 'write text with its unit, as "16 TB/s"',
}
"""What a user's file needs, by the kind of error that Pydantic names."""


def system_of(raw: Mapping[str, Any], stem: str, chip_named: Callable[[str], Chip]) -> System:
    """Read the table of a system.

    Parameters
    ----------
    raw : mapping
        What the file holds.
    stem : str
        Name of the file, and of the system.
    chip_named : callable
        Finds a chip of the catalogue by its name.

    Errors: :class:`InputError` that names the key.
    """
    try:
        entry = SystemFile.model_validate(raw)
    except ValidationError as error:
        # A key that is no key explains one that is missing.
        first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
        # Which of its two forms a chip has is no key of the file.
        parts = [str(part) for at, part in enumerate(first["loc"]) if (at, part) not in ((1, "name"), (1, "table"))]
        value = None if first["type"] == "missing" else first.get("input")
        way_out = _WAYS_OUT.get(first["type"], first["msg"])
        raise InputError(f"{stem}.toml: {'.'.join(parts)}", value, way_out) from error
    accelerator = chip_named(entry.chip) if isinstance(entry.chip, str) else chip_of(entry.chip, "chip.")
    host = entry.host or HostFile()
    return System(
        name=stem,
        chip=accelerator,
        domain=entry.domain,
        fabric=entry.fabric,
        default_gpus=entry.default_gpus or entry.domain,
        scale_up=_link(entry.scale_up, "scale_up"),
        scale_out=_link(entry.scale_out, "scale_out"),
        price=entry.price.number("USD/s", "price") if entry.price else None,
        price_basis=entry.price.basis if entry.price else "on-demand",
        price_range=_price_range(entry.price),
        price_date=str(entry.price.date) if entry.price and entry.price.date else None,
        host_link=host.link.number("B/s", "host.link") if host.link else None,
        host_dram=host.dram.number("B", "host.dram") if host.dram else None,
        host_dram_bandwidth=host.dram_bandwidth.number("B/s", "host.dram_bandwidth") if host.dram_bandwidth else None,
        host_flash=host.flash.number("B", "host.flash") if host.flash else None,
        aliases=entry.aliases,
        sources={**dict(cited("", entry)), **{f"chip.{k}": v for k, v in accelerator.sources.items()}},
    )


def chip_of(entry: ChipFile, at: str = "") -> Chip:
    """Read the table of a chip, whose keys stand behind ``at`` in its file."""
    rates = {name: quantity.number("FLOP/s", f"{at}rate.{name}") for name, quantity in entry.rate.items()}
    return Chip(
        name=entry.name,
        vendor=entry.vendor,
        generation=entry.generation,
        year=entry.year,
        status=entry.status,
        memory_capacity=entry.memory.capacity.number("B", f"{at}memory.capacity"),
        memory_bandwidth=entry.memory.bandwidth.number("B/s", f"{at}memory.bandwidth"),
        visible_memory=entry.memory.visible.number("B", f"{at}memory.visible") if entry.memory.visible else None,
        rates=tuple((name, rate) for name, rate in rates.items() if name != "fp32"),
        vector_rate=rates.get("fp32"),
        power=entry.power.number("W", f"{at}power") if entry.power else None,
        sources=dict(cited("", entry)),
    )


def _price_range(entry: PriceFile | None) -> tuple[float, float] | None:
    if entry is None or entry.low is None or entry.high is None:
        return None
    return parse(entry.low, "USD/s", "price.low"), parse(entry.high, "USD/s", "price.high")


def _link(entry: LinkFile | None, field: str) -> Link | None:
    if entry is None:
        return None
    return Link(
        bandwidth=entry.bandwidth.number("B/s", f"{field}.bandwidth"),
        latency=entry.latency.number("s", f"{field}.latency"),
    )


def cited(prefix: str, entry: BaseModel) -> Iterator[tuple[str, str]]:
    """Every number of a record with the id of its source."""
    for name in type(entry).model_fields:
        value = getattr(entry, name)
        if isinstance(value, CitedNumber):
            yield prefix + name, value.source
        elif isinstance(value, BaseModel):
            yield from cited(f"{prefix}{name}.", value)
        elif isinstance(value, dict):
            for key, inner in value.items():
                if isinstance(inner, CitedNumber):
                    yield f"{prefix}{name}.{key}", inner.source
                elif isinstance(inner, BaseModel):
                    yield from cited(f"{prefix}{name}.{key}.", inner)
