"""The room that reads files: catalogue entries, configs, paths. Names in, records out."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from rackmath.errors import InputError
from rackmath.hardware import Chip, MemoryTier, System
from rackmath.io import model_names as names_of_models
from rackmath.io import system_names as names_of_systems
from rackmath.io import tables
from rackmath.io.catalogue_files import (
    BenchmarkFile,
    BillFile,
    ChipFile,
    SourceFile,
    TierFile,
    toml_text,
)
from rackmath.io.changed_names import changed_by, changed_name, with_changes
from rackmath.io.names import DATA, near, stems
from rackmath.io.paths import bounded_file, is_file, is_folder
from rackmath.io.system_files import chip_of, cited, system_of
from rackmath.models.architecture import Architecture
from rackmath.models.config import read_config
from rackmath.models.config.changes import changed_config, numbers_of
from rackmath.models.totals import totals_of_config
from rackmath.serving.fleet import RackCost
from rackmath.serving.workload import Benchmark, Limits

_LARGEST_CONFIG = 16 * 2**20
"""No config of a model comes near it. [B]"""


def system_names() -> list[str]:
    """Names of all catalogue systems, sorted."""
    return list(stems("systems", ".toml").values())


def model_names() -> list[str]:
    """Names of all catalogue models, sorted."""
    return list(stems("models", ".json").values())


def system(name: str) -> System:
    """Read a system by catalogue name, alias, or path of a TOML file, with changes as in ``h100-sxm[bandwidth=2x]``.

    Errors: :class:`InputError` with the nearest names for an unknown one, and for changes that there are not.
    """
    base, changes = with_changes(name)
    if changes:
        base_system = system(base)
        for key, value in changes:
            base_system = changed_by(base_system, key, value)
        return replace(base_system, name=changed_name(base_system.name, *changes))
    if name.endswith(".toml") or "/" in name:
        return system_of(_toml(Path(name), "on"), Path(name).stem, chip)
    stem = names_of_systems.stem_of(name)
    if stem is not None:
        return _catalogue_system(stem)
    without_count = names_of_systems.without_count(name)
    if without_count is not None:
        raise InputError(
            "SYSTEM", name, f"write {without_count[0]}, and {without_count[1]} as the number of accelerators (--gpus)"
        )
    raise InputError("SYSTEM", name, near(name, (*system_names(), *names_of_systems.aliases()), "systems"))


def chip(name: str) -> Chip:
    """Read a chip by catalogue name."""
    return chip_of(ChipFile.model_validate(_chip_table(name)))


def _chip_table(name: str) -> dict[str, Any]:
    path = DATA / "chips" / f"{name}.toml"
    if "/" in name or not is_file(Path(str(path))):
        chips = tuple(stems("chips", ".toml").values())
        raise InputError("chip", name, near(name, chips, "systems") + "; or write a table [chip]")
    return tomllib.loads(path.read_text())


def system_toml(name: str) -> str:
    """A system of the catalogue, its chip inside, as a file that ``--on FILE.toml`` takes.

    Errors: :class:`InputError` for an unknown name, and for one with changes, which no file has.
    """
    if with_changes(name)[1]:
        raise InputError("SYSTEM", name, "print the system itself, and change its numbers in the file")
    stem = system(name).name
    raw = tomllib.loads((DATA / "systems" / f"{stem}.toml").read_text())
    raw.pop("aliases", None)
    return toml_text(raw | {"chip": _chip_table(raw["chip"])})


@lru_cache(maxsize=1)
def tiers() -> dict[str, MemoryTier]:
    """Memory tiers beside the accelerator, by name."""
    data = tomllib.loads((DATA / "tiers.toml").read_text())
    entries: dict[str, MemoryTier] = {}
    for key, raw in data.items():
        entry = TierFile.model_validate(raw)
        entries[key] = MemoryTier(
            name=entry.name,
            capacity=entry.capacity.number("B", f"{key}.capacity"),
            bandwidth=entry.bandwidth.number("B/s", f"{key}.bandwidth"),
            price=entry.price.number("USD/B", f"{key}.price"),
            sources=dict(cited("", entry)),
        )
    return entries


@lru_cache(maxsize=1)
def sources() -> dict[str, SourceFile]:
    """Where the catalogue's numbers come from, by id."""
    data = tomllib.loads((DATA / "sources.toml").read_text())
    return {key: SourceFile.model_validate(raw) for key, raw in data.items()}


def price_of(system: System, usd_per_hour: float | None) -> float | None:
    """Price of one accelerator: the one that is given, or the catalogue's. [USD/s]"""
    if usd_per_hour is None:
        return system.price
    if not 0 < usd_per_hour < 1e6:
        raise InputError("--usd-per-gpu-hour", usd_per_hour, "write a positive number of dollars")
    return usd_per_hour / 3600


def price_note(system: System, price: float | None) -> tuple[str, ...]:
    """Where a price comes from, for the reader."""
    if price is not None:
        return (f"price {price:g} $ per GPU-hour, as given",)
    if system.price is None:
        return ("no price is known for this system: give --usd-per-gpu-hour",)
    when = f" of {system.price_date}" if system.price_date else ""
    spread = system.price_range
    spread_text = "" if spread is None else f"; published from {spread[0] * 3600:.2f} to {spread[1] * 3600:.2f}"
    where = source_text(system.sources["price"])
    return (f"price {system.price * 3600:.2f} $ per GPU-hour, {system.price_basis}{when}: {where}{spread_text}",)


def source_text(key: str) -> str:
    """A source in words: a record of the catalogue, or what a user's file says itself."""
    record = sources().get(key)
    return f"{record.title}, {record.publisher}" if record else key


@lru_cache(maxsize=1)
def bills() -> dict[str, RackCost]:
    """What racks cost, by name of the system."""
    raw = tomllib.loads((DATA / "bills.toml").read_text(encoding="utf-8"))
    entries = {name: BillFile.model_validate(entry) for name, entry in raw.items()}
    return {
        name: RackCost(
            accelerators=entry.accelerators,
            price=(entry.price_low.number("USD", "price"), entry.price_high.number("USD", "price")),
            memory_share=(entry.memory_share_low.number("1", "share"), entry.memory_share_high.number("1", "share")),
            host_memory=entry.host_memory.number("B", "host_memory"),
            sources=dict(cited("", entry)),
        )
        for name, entry in entries.items()
    }


@lru_cache(maxsize=1)
def benchmarks() -> dict[str, Benchmark]:
    """Published workloads, by the catalogue name of the model that each is served with."""
    raw = tomllib.loads((DATA / "benchmarks.toml").read_text(encoding="utf-8"))
    entries = [BenchmarkFile.model_validate(entry) for entry in raw.values()]
    return {
        entry.model: Benchmark(
            name=entry.name,
            input=entry.input.number("1", "input"),
            limits={
                scenario: Limits(
                    time_to_first_token=limit.first.number("s", "first"),
                    time_per_output_token=limit.per_token.number("s", "per_token"),
                )
                for scenario, limit in entry.limits.items()
            },
            sources=dict(cited("", entry)),
        )
        for entry in entries
    }


def model(name: str) -> Architecture:
    """Read a model by catalogue name, by path of a ``config.json``, or by folder.

    Changes stand behind it, as in ``deepseek-v3[experts=512;top_k=16]``: fields of its config, or short names of them.
    A file with ``total_params``, ``active_params`` and ``kv_bytes_per_token`` is a
    closed model known by its totals. A ``hf_quant_config.json`` beside a config is
    read with it.

    Errors: :class:`InputError` for unknown names, unreadable files and bad fields.
    """
    base, changes = with_changes(name)
    stem = None if _file_of(base) else names_of_models.stem_of(base)
    if stem is not None and not changes:
        return _catalogue_model(stem)
    config, label, sidecar = _config_of(base)
    for key, value in changes:
        config = changed_config(config, key, value)
    return _model_of(config, changed_name(label, *changes), sidecar)


def model_numbers(name: str) -> list[str]:
    """Numbers of a model that can be changed by short names, as ``layers``.

    Errors: as of :func:`model`.
    """
    return numbers_of(_config_of(with_changes(name)[0])[0])


def _config_of(name: str) -> tuple[Mapping[str, Any], str, Mapping[str, Any] | None]:
    """Config, label and file of formats of a model by name, path or folder."""
    path = _file_of(name)
    if path is not None:
        return tables.read_json(path, "MODEL", _LARGEST_CONFIG), _model_label(path), _sidecar(path)
    stem = names_of_models.stem_of(name)
    if stem is None:
        raise InputError("MODEL", name, _way_out(name))
    raw = json.loads((DATA / "models" / f"{stem}.json").read_text())
    return raw["config"], stem, raw.get("quantization_sidecar")


def _file_of(name: str) -> Path | None:
    """Path of the config that a name is the path of, or the folder of; None of a name of the catalogue."""
    path = Path(name)
    if is_folder(path):
        path = path / "config.json"
        if not is_file(path):
            raise InputError("MODEL", name, "the folder holds no config.json")
    return path if path.suffix == ".json" or is_file(path) else None


def model_of_config(config: Mapping[str, Any], name: str) -> Architecture:
    """Read a config that is at hand as a mapping, as :func:`model` reads a file.

    Errors: :class:`InputError` for fields that cannot be used.
    """
    return _model_of(config, name, None)


def _way_out(name: str) -> str:
    """What to write in place of a name of a model that nothing has."""
    without_format = names_of_models.without_format(name)
    if without_format is not None:
        stem, form = without_format
        return f"write {stem} with --weights {form or 'and the type of the file, as q4_k_m'}"
    return f"{near(name, tuple(model_names()), 'models')}; or write the path of a config.json"


def model_source(name: str) -> str:
    """Where a catalogue model's config comes from."""
    raw = json.loads((DATA / "models" / f"{name}.json").read_text())
    return str(raw["source"])


@cache
def _catalogue_model(stem: str) -> Architecture:
    return _model_of(*_config_of(stem))


def _model_of(config: Mapping[str, Any], name: str, sidecar: Mapping[str, Any] | None) -> Architecture:
    if "total_params" in config and "hidden_size" not in config:
        return totals_of_config(config, name)
    return read_config(config, name, sidecar)


def _sidecar(path: Path) -> Mapping[str, Any] | None:
    for beside in (path.with_name("hf_quant_config.json"), path.with_suffix(".hf_quant_config.json")):
        if is_file(beside) and beside != path:
            return tables.read_json(beside, "hf_quant_config.json", _LARGEST_CONFIG)
    return None


def _model_label(path: Path) -> str:
    stem = path.parent.name if path.stem == "config" else path.stem
    return stem.replace("__", "/") or "model"


def _toml(path: Path, field: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(bounded_file(path, field, _LARGEST_CONFIG, "such a file").read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(field, str(path), f"cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(field, str(path), f"is no TOML: {error}") from error


@lru_cache(maxsize=64)
def _catalogue_system(stem: str) -> System:
    return system_of(tomllib.loads((DATA / "systems" / f"{stem}.toml").read_text()), stem, chip)
