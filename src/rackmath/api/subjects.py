"""What is asked about: a model, a system with its accelerators, an engine, requests with their limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.io import catalogue
from rackmath.io.changed_names import changed_by
from rackmath.io.constants_file import DEFAULT_ENGINE, FAMILIES, NOW
from rackmath.models.architecture import Architecture
from rackmath.units import day, decimal_year


def load_model(source: str | Path | Mapping[str, Any] | Architecture) -> Architecture:
    """Read a model.

    Parameters
    ----------
    source
        Catalogue name, Hugging Face id of a catalogue model, path of a ``config.json`` or of the folder that holds it,
        or the config itself as a mapping. A record passes.

    Errors: :class:`~rackmath.errors.InputError` for unknown names, unreadable files, and fields that cannot be used.

    >>> load_model("deepseek-ai/DeepSeek-V3").name
    'deepseek-v3'
    """
    if isinstance(source, Architecture):
        return source
    if isinstance(source, Mapping):
        return catalogue.model_of_config(source, str(source.get("name") or source.get("_name_or_path") or "model"))
    if not str(source):
        raise InputError("MODEL", source, "give a name, a path, or a config as a mapping")
    return catalogue.model(str(source))


def system_of(source: str | Path | System | Cluster) -> System:
    """Read a system: catalogue name, path of a TOML file, or a record.

    Errors: :class:`~rackmath.errors.InputError` for what is none.
    """
    if isinstance(source, Cluster):
        return source.system
    if isinstance(source, System):
        return source
    if not str(source):
        raise InputError("--on", source, "give a name, a path, or a system")
    return catalogue.system(str(source))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Accelerators of one system."""

    system: System
    gpus: int
    """Accelerators. [accelerators]"""

    def __post_init__(self) -> None:
        """Refuse counts that are none."""
        if not 1 <= self.gpus <= 1_000_000:
            raise InputError("gpus", self.gpus, "write a number from 1 to 1,000,000")

    def set(self, **changes: float | str) -> Cluster:
        """The same with other hardware: ``set(bandwidth="2x", price="3 $/h")``.

        Parameters
        ----------
        **changes
            As of :func:`~rackmath.hardware.changes.changed_system`: ``bandwidth`` and ``memory`` of each accelerator,
            ``flops`` (a factor of every precision), ``power``, ``price``; ``scale_up``, ``scale_out`` and their
            ``_latency``; ``host_link``; and ``domain``, in accelerators. In SI, with a unit, or as a factor, "2x".
            With ``engine.`` before it a constant of the engine: ``set(**{"engine.host": "0.5x"})``.

        What is measured of the chip's kernels, as parts of its peaks, is kept.
        Errors: :class:`~rackmath.errors.InputError` for keys and values that there are not.
        """
        system = self.system
        for key, value in changes.items():
            system = changed_by(system, key, value)
        text = ", ".join(f"{key} {value}" for key, value in changes.items())
        return replace(self, system=replace(system, name=f"{self.system.name} with {text}" if text else system.name))


def load_system(source: str | Path | System, gpus: int | None = None) -> Cluster:
    """Accelerators of a system.

    Parameters
    ----------
    source
        Catalogue name, path of a TOML file, or a record.
    gpus : int, optional
        How many; by default one scale-up domain. [accelerators]

    >>> load_system("h200-sxm", gpus=32).set(bandwidth="2x").system.chip.memory_bandwidth / 1e12
    9.6
    """
    system = system_of(source)
    return Cluster(system=system, gpus=system.default_gpus if gpus is None else gpus)


@dataclass(frozen=True, slots=True)
class Engine:
    """Whose losses an answer has: a family of engines and the date of its version; or none, which is the bound.

    >>> round(Engine("sglang", date="2026-05").year, 3)
    2026.367
    """

    family: str = DEFAULT_ENGINE
    date: str | float = NOW
    """A month, a day, or a decimal year."""
    is_ideal: bool = False

    def __post_init__(self) -> None:
        """Refuse families that no constants are fitted for."""
        if self.family not in FAMILIES:
            raise InputError("engine", self.family, f"use one of {', '.join(FAMILIES)}")

    @classmethod
    def ideal(cls) -> Engine:
        """The pure bound: nothing is lost."""
        return cls(is_ideal=True)

    @property
    def year(self) -> float:
        """Date as a decimal year."""
        if isinstance(self.date, (int, float)):
            return float(self.date)
        try:
            return float(self.date)
        except ValueError:
            return decimal_year(day(self.date, "date"))

    @property
    def options(self) -> dict[str, Any]:
        """The same as fields of a request."""
        return {"engine": self.family, "year": self.year, "ideal": self.is_ideal}


def engine_of(engine: Engine | str | None) -> Engine:
    """An engine, or the name of its family; by default the one of all commands."""
    return engine if isinstance(engine, Engine) else Engine(engine) if engine else Engine()


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests of one kind, and what their users accept at most."""

    input: float
    """Tokens of a prompt. [tokens]"""
    output: float
    """Tokens of an answer. [tokens]"""
    ttft: float | None = None
    """Limit on the mean time to first token. [s]"""
    tpot: float | None = None
    """Limit on the mean time per output token. [s]"""
    rate: float | None = None
    """Requests that arrive; by default as many as can be served. [requests/s]"""
    cached_prefix: float = 0.0
    """Part of a prompt whose cache is there already. [1]"""
