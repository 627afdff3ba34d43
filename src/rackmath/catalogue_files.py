"""What the files of the catalogue look like: every number as text with its unit and its source."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from rackmath.units import parse


class Strict(BaseModel):
    """A table that holds its fields and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Cited(Strict):
    """A number as text with its unit, and where it comes from."""

    value: str
    source: str
    note: str | None = None
    date: Any = None

    def number(self, unit: str, field: str) -> float:
        """Value in SI."""
        return parse(self.value, unit, field)


class MemoryFile(Strict):
    """Memory of a chip."""

    capacity: Cited
    bandwidth: Cited


class ChipFile(Strict):
    """``data/chips/*.toml``."""

    name: str
    vendor: str
    generation: str = ""
    year: int
    status: str
    power: Cited | None = None
    memory: MemoryFile
    rate: dict[str, Cited]


class LinkFile(Strict):
    """A network."""

    bandwidth: Cited
    latency: Cited


class HostFile(Strict):
    """What stands beside the chips of a host, per accelerator."""

    link: Cited | None = None
    dram: Cited | None = None
    dram_bandwidth: Cited | None = None
    flash: Cited | None = None


class SystemFile(Strict):
    """``data/systems/*.toml``, and a user's own file."""

    name: str
    chip: str | ChipFile
    domain: int
    fabric: str
    default_gpus: int | None = None
    aliases: tuple[str, ...] = ()
    price: Cited | None = None
    scale_up: LinkFile | None = None
    scale_out: LinkFile | None = None
    host: HostFile | None = None


class TierFile(Strict):
    """One entry of ``data/tiers.toml``."""

    name: str
    capacity: Cited
    bandwidth: Cited
    price: Cited


class BillFile(Strict):
    """One entry of ``data/bills.toml``."""

    accelerators: int
    price_low: Cited
    price_high: Cited
    memory_share_low: Cited
    memory_share_high: Cited
    host_memory: Cited


class LimitFile(Strict):
    """Limits of one scenario of a benchmark."""

    first: Cited
    per_token: Cited


class BenchmarkFile(Strict):
    """One entry of ``data/benchmarks.toml``."""

    name: str
    model: str
    input: Cited
    limits: dict[str, LimitFile]


class SourceFile(Strict):
    """One entry of ``data/sources.toml``."""

    title: str
    publisher: str
    url: str | None = None
    kind: str
    quality: str
    read: Any = None
    via: str | None = None
