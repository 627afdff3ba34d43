"""The room that reads files: catalogue entries, configs, paths. Names in, records out."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from rackmath.errors import InputError
from rackmath.hardware import Chip, MemoryTier, System
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
from rackmath.io.paths import bounded_file, is_file, is_folder
from rackmath.io.system_files import chip_of, cited, system_of
from rackmath.models.architecture import Architecture
from rackmath.models.config import read_config
from rackmath.models.config.changes import changed_config, numbers_of
from rackmath.models.formats import cache_format, weight_format
from rackmath.models.totals import from_totals
from rackmath.serving.fleet import RackCost
from rackmath.serving.workload import Benchmark, Limits

_LARGEST_CONFIG = 16 * 2**20
"""No config of a model comes near it. [B]"""
_VARIANT = re.compile(r"[-_](?:instruct|chat|it|base|hf)(?=$|[-_])", re.IGNORECASE)
"""Parts of a repository's name that tell how a model was tuned; its architecture is the same."""
_DATA: Traversable = files("rackmath") / "data"


def system_names() -> list[str]:
    """Names of all catalogue systems, sorted."""
    return list(_stems("systems", ".toml").values())


def model_names() -> list[str]:
    """Names of all catalogue models, sorted."""
    return list(_stems("models", ".json").values())


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
    plain_name = _plain(name)
    stem = _stems("systems", ".toml").get(plain_name)
    if stem is not None:
        return _catalogue_system(stem)
    aliases = _aliases()
    if plain_name in aliases:
        return _catalogue_system(aliases[plain_name])
    raise InputError("SYSTEM", name, _near(name, (*system_names(), *aliases), "systems"))


def chip(name: str) -> Chip:
    """Read a chip by catalogue name."""
    return chip_of(ChipFile.model_validate(_chip_table(name)))


def _chip_table(name: str) -> dict[str, Any]:
    path = _DATA / "chips" / f"{name}.toml"
    if "/" in name or not is_file(Path(str(path))):
        stems = sorted(_stem(entry.name) for entry in (_DATA / "chips").iterdir())
        raise InputError("chip", name, _near(name, tuple(stems), "systems") + "; or write a table [chip]")
    return tomllib.loads(path.read_text())


def system_toml(name: str) -> str:
    """A system of the catalogue, its chip inside, as a file that ``--on FILE.toml`` takes.

    Errors: :class:`InputError` for an unknown name, and for one with changes, which no file has.
    """
    if with_changes(name)[1]:
        raise InputError("SYSTEM", name, "print the system itself, and change its numbers in the file")
    stem = system(name).name
    raw = tomllib.loads((_DATA / "systems" / f"{stem}.toml").read_text())
    raw.pop("aliases", None)
    return toml_text(raw | {"chip": _chip_table(raw["chip"])})


@lru_cache(maxsize=1)
def tiers() -> dict[str, MemoryTier]:
    """Memory tiers beside the accelerator, by name."""
    data = tomllib.loads((_DATA / "tiers.toml").read_text())
    entries: dict[str, MemoryTier] = {}
    for key, raw in data.items():
        entry = TierFile.model_validate(raw)
        entries[key] = MemoryTier(
            name=entry.name,
            capacity=entry.capacity.number("B", f"{key}.capacity"),
            bandwidth=entry.bandwidth.number("B/s", f"{key}.bandwidth"),
            price=entry.price.number("USD/B", f"{key}.price"),
            sources={
                "capacity": entry.capacity.source,
                "bandwidth": entry.bandwidth.source,
                "price": entry.price.source,
            },
        )
    return entries


@lru_cache(maxsize=1)
def sources() -> dict[str, SourceFile]:
    """Where the catalogue's numbers come from, by id."""
    data = tomllib.loads((_DATA / "sources.toml").read_text())
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
    raw = tomllib.loads((_DATA / "bills.toml").read_text(encoding="utf-8"))
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
    raw = tomllib.loads((_DATA / "benchmarks.toml").read_text(encoding="utf-8"))
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
    stem = None if _file_of(base) else _stem_of(base.rsplit("/", maxsplit=1)[-1])
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
    stem = _stem_of(name.rsplit("/", maxsplit=1)[-1])
    if stem is None:
        raise InputError("MODEL", name, _near(name, tuple(model_names()), "models") + " or a path to a config.json")
    raw = json.loads((_DATA / "models" / f"{stem}.json").read_text())
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


def _stem_of(name: str) -> str | None:
    """Key of a catalogue model by its key, another name, or either with a variant behind it."""
    plain_name = _plain(name)
    stem = _stems("models", ".json").get(plain_name)
    if stem is not None:
        return stem
    aliases = _model_aliases()
    if plain_name in aliases:
        return aliases[plain_name]
    base = _VARIANT.sub("", name)
    return _stem_of(base) if base and _plain(base) != plain_name else None


def repository(name: str) -> str:
    """What an engine is told to load: the repository on Hugging Face of a catalogue model, or the folder of a path.

    A name with its owner stands for itself; a model that nobody published keeps its name.
    """
    path = Path(name)
    if is_folder(path):
        return name
    if path.suffix == ".json" or is_file(path):
        return str(path.parent)
    stem = None if "/" in name else _stem_of(name)
    if stem is None:
        return name
    raw = json.loads((_DATA / "models" / f"{stem}.json").read_text())
    return str(raw.get("repository", name))


def model_source(name: str) -> str:
    """Where a catalogue model's config comes from."""
    raw = json.loads((_DATA / "models" / f"{name}.json").read_text())
    return str(raw["source"])


@lru_cache(maxsize=1)
def _model_aliases() -> dict[str, str]:
    """Other names that a catalogue model goes by, such as that of its repository."""
    entries: dict[str, str] = {}
    for stem in model_names():
        raw = json.loads((_DATA / "models" / f"{stem}.json").read_text())
        published = [raw["repository"].rsplit("/", maxsplit=1)[-1]] if "repository" in raw else []
        entries.update({_plain(alias): stem for alias in (*published, *raw.get("aliases", ()))})
    return entries


@cache
def _catalogue_model(stem: str) -> Architecture:
    return _model_of(*_config_of(stem))


def _model_of(config: Mapping[str, Any], name: str, sidecar: Mapping[str, Any] | None) -> Architecture:
    if "total_params" in config and "hidden_size" not in config:
        return _totals_of(config, name)
    return read_config(config, name, sidecar)


_MOST_COUNTED = 1e18
"""Parameters or bytes that a model by totals may state."""


def _totals_of(config: Mapping[str, Any], name: str) -> Architecture:
    numbers: dict[str, float] = {}
    for key in ("total_params", "active_params", "kv_bytes_per_token"):
        value = config.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InputError(key, value, "a model by totals needs this number")
        if not abs(value) <= _MOST_COUNTED:
            raise InputError(key, value, f"write a number of at most {_MOST_COUNTED:g}")
        numbers[key] = float(value)
    return from_totals(
        name,
        **numbers,
        weights=weight_format(str(config.get("weights", "bf16"))),
        cache=cache_format(str(config.get("kv", "bf16"))),
    )


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
    return system_of(tomllib.loads((_DATA / "systems" / f"{stem}.toml").read_text()), stem, chip)


@lru_cache(maxsize=1)
def _aliases() -> dict[str, str]:
    entries: dict[str, str] = {}
    for stem in system_names():
        raw = tomllib.loads((_DATA / "systems" / f"{stem}.toml").read_text())
        for alias in raw.get("aliases", ()):
            entries[_plain(alias)] = stem
    return entries


@cache
def _stems(folder: str, suffix: str) -> dict[str, str]:
    """Names of the catalogue's files in a folder, sorted, by what they are without case and signs."""
    names = sorted(_stem(entry.name) for entry in (_DATA / folder).iterdir() if entry.name.endswith(suffix))
    return {_plain(name): name for name in names}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _stem(filename: str) -> str:
    return filename.rsplit(".", maxsplit=1)[0]


@lru_cache(maxsize=256)
def _near(name: str, known: tuple[str, ...], command: str) -> str:
    """Say which names are near, or where all of them are."""
    close = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    close += [k for k in known if _plain(name) in _plain(k) and k not in close][:3]
    hint = f"did you mean {', '.join(close)}?" if close else "unknown"
    return f"{hint} `rackmath {command}` lists all"
