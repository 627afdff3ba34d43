"""What the files of the catalogue look like: every number as text with its unit and its source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from rackmath.units import parse


class Strict(BaseModel):
    """A table that holds its fields and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CitedNumber(Strict):
    """A number as text with its unit, and where it comes from."""

    value: str
    source: str = "no source is given"
    note: str | None = None
    date: Any = None

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, raw: Any) -> Any:
        """A number may stand alone, as text with its unit."""
        return {"value": raw} if isinstance(raw, str) else raw

    def number(self, unit: str, field: str) -> float:
        """Value in SI."""
        return parse(self.value, unit, field)


class MemoryFile(Strict):
    """Memory of a chip."""

    capacity: CitedNumber = Field(description="bytes of the memory that holds weights and cache", examples=["288 GB"])
    bandwidth: CitedNumber = Field(description="of that memory", examples=["16 TB/s"])
    visible: CitedNumber | None = Field(
        default=None,
        description="what programs see of it: less what the driver keeps",
        examples=["79 GiB"],
    )


class ChipFile(Strict):
    """``data/chips/*.toml``."""

    name: str = Field(description="as it is printed", examples=["new chip"])
    vendor: str = Field(default="", description="NVIDIA and AMD have launch commands")
    generation: str = Field(
        default="", description="whose measurements hold for it: hopper, blackwell, ...; empty for none"
    )
    year: int = Field(default=0, description="of the first product")
    status: str = Field(default="not shipping", description="in words")
    power: CitedNumber | None = Field(default=None, description="of the board", examples=["1 kW"])
    memory: MemoryFile
    rate: dict[Literal["fp32", "bf16", "fp16", "fp8", "int8", "fp4"], CitedNumber] = Field(
        description="dense FLOP/s by precision; bf16 is required; fp32 outside of matrix units",
        examples=["2.5 PFLOP/s"],
    )


class LinkFile(Strict):
    """A network."""

    bandwidth: CitedNumber = Field(description="of one accelerator, one direction", examples=["900 GB/s"])
    latency: CitedNumber = Field(description="of a small collective", examples=["5 us"])


class HostFile(Strict):
    """What stands beside the chips of a host, per accelerator."""

    link: CitedNumber | None = Field(default=None, description="from the host, one direction", examples=["64 GB/s"])
    dram: CitedNumber | None = Field(default=None, description="of the host, per accelerator", examples=["256 GB"])
    dram_bandwidth: CitedNumber | None = Field(
        default=None, description="of the host, per accelerator", examples=["115 GB/s"]
    )
    flash: CitedNumber | None = Field(default=None, description="of the host, per accelerator", examples=["4 TB"])


class PriceFile(CitedNumber):
    """What one accelerator rents for."""

    basis: Literal["on-demand", "reserved", "at cost", "blended"] = "on-demand"
    low: str | None = None
    high: str | None = None


def _kind_of_chip(raw: Any) -> str:
    return "name" if isinstance(raw, str) else "table"


class SystemFile(Strict):
    """``data/systems/*.toml``, and a user's own file."""

    name: str = Field(default="", description="as it is printed")
    chip: Annotated[Annotated[str, Tag("name")] | Annotated[ChipFile, Tag("table")], Discriminator(_kind_of_chip)] = (
        Field(description="name of a chip of the catalogue, or a table of its own")
    )
    domain: int = Field(default=1, description="accelerators that reach each other at scale-up speed", ge=1)
    fabric: Literal["switch", "mesh", "torus", "none"] = Field(default="switch", description="of the scale-up domain")
    default_gpus: int | None = Field(default=None, description="where --gpus is left out; by default one domain", ge=1)
    aliases: tuple[str, ...] = Field(default=(), description="other names")
    price: PriceFile | None = Field(
        default=None, description="of one accelerator; as a table with basis, low and high", examples=["4 USD/h"]
    )
    scale_up: LinkFile | None = Field(
        default=None, description="network inside a domain; required from two accelerators on"
    )
    scale_out: LinkFile | None = Field(default=None, description="network between domains")
    host: HostFile | None = Field(default=None, description="what stands beside the accelerators")


class TierFile(Strict):
    """One entry of ``data/tiers.toml``."""

    name: str
    capacity: CitedNumber
    bandwidth: CitedNumber
    price: CitedNumber


class BillFile(Strict):
    """One entry of ``data/bills.toml``."""

    accelerators: int
    price_low: CitedNumber
    price_high: CitedNumber
    memory_share_low: CitedNumber
    memory_share_high: CitedNumber
    host_memory: CitedNumber


class LimitFile(Strict):
    """Limits of one scenario of a benchmark."""

    first: CitedNumber
    per_token: CitedNumber


class BenchmarkFile(Strict):
    """One entry of ``data/benchmarks.toml``."""

    name: str
    model: str
    input: CitedNumber
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


def toml_text(table: Mapping[str, Any], prefix: str = "") -> str:
    """Write nested tables as TOML: numbers with their source in one line, larger tables under headings."""
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping) or "value" in value}
    lines = [f"{key} = {_toml_value(value)}" for key, value in plain.items()]
    for key, value in table.items():
        if key not in plain:
            lines += ["", f"[{prefix}{key}]", toml_text(value, f"{prefix}{key}.").rstrip("\n")]
    return "\n".join(lines).lstrip("\n") + "\n"


def _toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, str):
        # A string of JSON is one of TOML.
        return json.dumps(value, ensure_ascii=False)
    return value.isoformat() if isinstance(value, date) else str(value)
