"""``systems``: what the catalogue says of hardware, and files of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import click
from pydantic import BaseModel

from rackmath.cli import render
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.io import catalogue
from rackmath.io.catalogue_files import ChipFile, CitedNumber, SystemFile
from rackmath.units import show


@click.command(epilog="Example: rackmath systems h100-sxm --toml")
@click.argument("name", required=False)
@click.option("--toml", "as_toml", is_flag=True, help="Print NAME as a file to change, for --on FILE.toml.")
@click.option("--schema", is_flag=True, help="List the keys of such a file.")
@click.option("--explain", is_flag=True, help="Show the source of every number.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def systems(name: str | None, as_toml: bool, schema: bool, explain: bool, as_json: bool) -> None:
    """List the systems of the catalogue, with ratio R and drain time, or show one of them.

    NAME is a system of the catalogue, or a TOML file of your own.
    """
    if schema:
        show_schema(as_json)
        return
    if as_toml:
        if name is None:
            raise InputError("--toml", "", "write the NAME of a system before it")
        click.echo(catalogue.system_toml(name), nl=False)
        return
    records = [catalogue.system(item) for item in ([name] if name else catalogue.system_names())]
    if as_json:
        render.show_json([system_facts(s) for s in records])
        return
    render.show_table(
        f"{len(records)} systems" if name is None else records[0].name,
        ["name", "chip", ">domain", ">memory", ">bandwidth", ">bf16", ">fp8", ">fp4", ">R", ">drain", ">$/h"],
        [_system_row(s) for s in records],
        note="Dense rates; memory, bandwidth and rates per accelerator; R at the narrowest precision of the chip.",
    )
    if name is None:
        _show_tiers()
    if explain or name is not None:
        for s in records:
            render.show_lines(s.name, (f"{at}: {catalogue.source_text(key)}" for at, key in sorted(s.sources.items())))


def _show_tiers() -> None:
    tiers = catalogue.tiers()
    render.show_table(
        "memory tiers, one device each",
        ["tier", "device", ">capacity", ">bandwidth", ">drain", ">$/GB"],
        [
            (
                key,
                t.name,
                show(t.capacity, "B"),
                show(t.bandwidth, "B/s"),
                show(t.drain_time, "s"),
                f"{t.price * 1e9:g}",
            )
            for key, t in tiers.items()
        ],
    )


def system_facts(s: System) -> dict[str, Any]:
    """Main numbers of a system with their sources."""
    chip = s.chip
    return {
        "name": s.name,
        "aliases": list(s.aliases),
        "chip": chip.name,
        "vendor": chip.vendor,
        "year": chip.year,
        "status": chip.status,
        "domain": s.domain,
        "fabric": s.fabric,
        "memory_capacity": chip.memory_capacity,
        "memory_bandwidth": chip.memory_bandwidth,
        "rates": dict(chip.rates),
        "power": chip.power,
        "scale_up": s.scale_up,
        "scale_out": s.scale_out,
        "network_ratio": s.network_ratio,
        "ratio": {precision: chip.ratio(precision) for precision, _ in chip.rates},
        "drain_time": chip.drain_time,
        "domain_capacity": s.domain_capacity,
        "domain_bandwidth": s.domain_bandwidth,
        "host_link": s.host_link,
        "host_dram": s.host_dram,
        "host_flash": s.host_flash,
        "usd_per_gpu_hour": None if s.price is None else s.price * 3600,
        "price_date": s.price_date,
        "sources": {field: catalogue.source_text(key) for field, key in s.sources.items()},
    }


def _system_row(s: System) -> tuple[object, ...]:
    rates = dict(s.chip.rates)
    precision = s.chip.runs_at("fp4")

    def rate(name: str) -> str:
        return f"{rates[name] / 1e12:,.0f} T" if name in rates else "-"

    return (
        s.name,
        s.chip.name,
        s.domain,
        show(s.chip.memory_capacity, "B"),
        show(s.chip.memory_bandwidth, "B/s"),
        rate("bf16"),
        rate("fp8"),
        rate("fp4"),
        f"{s.chip.ratio(precision):.0f}",
        show(s.chip.drain_time, "s"),
        "-" if s.price is None else f"{s.price * 3600:.2f}",
    )


def show_schema(as_json: bool) -> None:
    """List the keys of a system's file: what each means, an example, whether it must stand there."""
    keys = list(_keys("", SystemFile))
    if as_json:
        render.show_json(keys)
        return
    render.show_table(
        "keys of a system's file",
        ["key", "", "example", "meaning"],
        [(k["key"], "required" if k["required"] else "", k["example"], k["meaning"]) for k in keys],
        note='A number is text with its unit, "16 TB/s", or a table { value = "16 TB/s", source = "my guess" }.',
    )


def _keys(prefix: str, table: type[BaseModel]) -> Iterator[dict[str, Any]]:
    """Keys of a table and of those inside it, by their dotted names."""
    for name, field in table.model_fields.items():
        kinds = [field.annotation, *get_args(field.annotation)]
        inner = next(
            (k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel) and not issubclass(k, CitedNumber)),
            None,
        )
        if name == "chip":
            inner = ChipFile
        yield {
            "key": prefix + name,
            "required": field.is_required(),
            "example": (field.examples or [""])[0],
            "meaning": field.description or "",
        }
        if inner is not None:
            yield from _keys(f"{prefix}{name}.", inner)
