"""Fitted constants as a file: read the shipped one, or one of the user's own."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from rackmath.engine import Losses
from rackmath.engine.constants import Constants, EngineVersion, RowGroup
from rackmath.engine.terms import OF_SCHEDULING, TERM
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.io import kernel_files
from rackmath.io.paths import bounded_file
from rackmath.models.architecture import Architecture
from rackmath.serving import Scheduling
from rackmath.serving.engines import engine_at, fuses_experts, scheduling_rules, vendor_notes

_LARGEST = 16 * 2**20
FAMILIES = ("vllm", "sglang", "trtllm", "llama.cpp")
"""Engines that constants are fitted for."""

DEFAULT_ENGINE = "vllm"
"""Engine that is meant where none is given, in every command."""

FRAMEWORKS = ("megatron", "maxtext", "foundry", "torchtitan", "other")
"""Training frameworks that constants are fitted for."""

FIRST_YEAR, LAST_YEAR = 2023, 2028
NOW = 2026.5
"""Year that is meant where none is given."""

_SHIPPED = files("rackmath") / "data" / "constants.toml"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Base(_Strict):
    value: float
    low: float
    high: float
    deviation: float


class _MemberMove(_Strict):
    value: float
    deviation: float


class _File(_Strict):
    basis: str
    chips: tuple[str, ...]
    base: dict[str, _Base]
    move: dict[str, dict[str, _MemberMove]] = {}
    range: dict[str, dict[str, tuple[float, float]]] = {}
    evidence: tuple[RowGroup, ...] = ()


@lru_cache(maxsize=4)
def constants(path: Path | None = None) -> Constants:
    """Read constants: the shipped ones, or those of a file that ``rackmath calibrate`` wrote.

    Errors: :class:`InputError` for a file that is not such a file.
    """
    entry = _entry(path)
    return Constants(
        base={name: item.value for name, item in entry.base.items()},
        moves=_values(entry.move),
        basis=entry.basis,
        ranges=entry.range,
        chips=frozenset(entry.chips),
        evidence=entry.evidence,
    )


def deviations(path: Path | None = None) -> dict[tuple[str, str, str], float]:
    """Return the standard deviation of every constant on its inner scale, by kind, name and member."""
    entry = _entry(path)
    result = {("base", name, ""): item.deviation for name, item in entry.base.items()}
    result.update(
        {("move", n, m): member.deviation for n, members in entry.move.items() for m, member in members.items()}
    )
    return result


def engine_of(system: System, family: str, year: float, eager: bool = False) -> EngineVersion:
    """What the constants of an engine on a system depend on; ``eager`` where it is told to replay no graphs."""
    if not FIRST_YEAR <= year <= LAST_YEAR:
        raise InputError("--year", year, f"write a year from {FIRST_YEAR} to {LAST_YEAR}")
    return replace(engine_at(system.chip, family, year, eager), changes=system.software)


def framework_of(architecture: Architecture, system: System, framework: str, year: float) -> EngineVersion:
    """What the constants of a framework that trains a model on a system depend on."""
    is_fused = fuses_experts(framework, year, system.chip, architecture)
    return replace(engine_of(system, framework, year), fused_experts=is_fused)


def range_of(system: System, engine: EngineVersion, kind: str) -> tuple[float, float]:
    """90 % range of measured over predicted values of one class of questions, for an engine on a system."""
    return constants().range(kind, engine, system.chip.name, PHASES.get(kind, "serving"))


PHASES = {"training": "training", "prompt pass": "prefill", "decode pass": "decode"}
"""Phase of the rows that a class of questions stands on; all others are services."""


def losses_of(system: System, engine: EngineVersion, kind: str) -> Losses:
    """Losses of an engine on a system, with the range of one class of questions and what no row says of it."""
    shipped_constants = constants()
    chip, phase = system.chip, PHASES.get(kind, "serving")
    low, high = range_of(system, engine, kind)
    losses = shipped_constants.losses(engine, kernel_files.kernels(chip, engine.family), low, high)
    return replace(losses, assumptions=tuple(unseen(shipped_constants, system, engine, phase)))


def unseen_notes(system: System, engine: EngineVersion, kind: str) -> list[str]:
    """What no measurement says of an engine on a system in one class of questions, in sentences."""
    return list(unseen(constants(), system, engine, PHASES.get(kind, "serving")))


def unseen(fitted_constants: Constants, system: System, engine: EngineVersion, phase: str) -> Iterator[str]:
    """What no measurement says of an engine on a system, in sentences."""
    generation = engine.generation or "this generation"
    yield from vendor_notes(engine.family, system.chip.vendor)
    if not fitted_constants.rows(engine, phase):
        where = {"serving": "service", "prefill": "single prompt", "decode": "single decode pass"}.get(phase, phase)
        yield (
            f"no {where} of {engine.family} on {generation} is among the measurements: "
            "constants of the engine and of the generation elsewhere, wider range"
        )
    if system.chip.name not in kernel_files.timed_chips():
        yield kernel_files.basis(system.chip)


def scheduling_of(engine: EngineVersion) -> Scheduling:
    """How an engine mixes prompts and answers."""
    shipped_constants = constants()
    values = {name: shipped_constants.value(name, engine) for name in OF_SCHEDULING}
    return Scheduling(**values, **scheduling_rules(engine))


def _values(table: Mapping[str, Mapping[str, _MemberMove]]) -> dict[str, dict[str, float]]:
    return {name: {member: value.value for member, value in members.items()} for name, members in table.items()}


@lru_cache(maxsize=4)
def _entry(path: Path | None) -> _File:
    field = "--constants"
    try:
        file = _SHIPPED if path is None else bounded_file(path, field, _LARGEST, "such a file")
        text = file.read_text(encoding="utf-8")
        raw: dict[str, Any] = tomllib.loads(text)
        entry = _File.model_validate(raw)
    except OSError as error:
        raise InputError(field, str(path), f"cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(field, str(path), f"is no TOML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(
            f"{field} {where}", first.get("input"), f"{first['msg']}: use what calibrate writes"
        ) from error
    unknown = sorted({*entry.base, *entry.move} - set(TERM))
    if unknown:
        raise InputError(field, unknown[0], f"is no constant; known are {', '.join(TERM)}")
    return entry
