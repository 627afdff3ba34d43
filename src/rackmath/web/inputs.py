"""What a page asks for: Pydantic fields that are controls, checks and the words of the command line at once."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from rackmath import catalogue
from rackmath.cli.ask import words
from rackmath.web import uploads


class Inputs(BaseModel):
    """Base of all questions: nothing unknown, nothing infinite."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True, protected_namespaces=())


def slider(
    default: Any, low: float, high: float, title: str, *, unit: str = "", log: bool = True, whole: bool = False
) -> Any:
    """A number between two ends, on a logarithmic slider or a linear one."""
    extra = {"control": "slider", "log": log, "unit": unit, "whole": whole}
    return Field(default, ge=low, le=high, title=title, json_schema_extra=extra)


def number(default: Any, low: float, high: float, title: str, *, unit: str = "") -> Any:
    """A number that is typed, or left out."""
    return Field(default, ge=low, le=high, title=title, json_schema_extra={"control": "number", "unit": unit})


def choice(default: Any, title: str) -> Any:
    """One of the few of a Literal."""
    return Field(default, title=title, json_schema_extra={"control": "choice"})


def ticked(default: bool, title: str) -> Any:
    """Yes or no."""
    return Field(default, title=title, json_schema_extra={"control": "tick"})


def text(default: Any, title: str, *, longest: int = 80, hint: str = "") -> Any:
    """A short text."""
    extra: Any = {"control": "text", "hint": hint}
    return Field(default, title=title, max_length=longest, json_schema_extra=extra)


@lru_cache(maxsize=2)
def known(kind: str) -> tuple[str, ...]:
    """Names of the catalogue: of models or systems."""
    return tuple(catalogue.model_names() if kind == "model" else catalogue.system_names())


def _model(name: str) -> str:
    if uploads.is_upload(name):
        return name
    if name not in known("model"):
        raise ValueError("is no model of the catalogue; upload its config.json instead")
    return name


def _system(name: str) -> str:
    if name not in known("system"):
        raise ValueError("is no system of the catalogue")
    return name


def named(default: str, title: str, kind: str) -> Any:
    """A name of the catalogue: model or system."""
    return Field(default, title=title, max_length=80, json_schema_extra={"control": kind})


Model = Annotated[str, AfterValidator(_model)]
"""A name of the catalogue, or of a config.json that was uploaded: never a path."""
System = Annotated[str, AfterValidator(_system)]
"""A name of the catalogue."""


def options(inputs: Inputs, *fields: str, **renamed: str) -> list[str]:
    """Fields -> options of a command of the same names; ``rate="poisson"`` where the command has another."""
    return words({name: getattr(inputs, name) for name in fields} | {b: getattr(inputs, a) for a, b in renamed.items()})
