"""What a page asks for: Pydantic fields that are controls, and options of the command line with its help and checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

import click
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from rackmath import catalogue
from rackmath.cli.ask import parameter_of, word, words
from rackmath.web import uploads


class Inputs(BaseModel):
    """Base of all questions: nothing unknown, nothing infinite."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True, protected_namespaces=())


Asked = TypeVar("Asked", bound=Inputs)


def asking(
    command: str, *, renamed: Mapping[str, str] = MappingProxyType({}), own: Sequence[str] = ()
) -> Callable[[type[Asked]], type[Asked]]:
    """Fields of a question that is put to a command are its options: they carry its help, its types check them.

    Parameters
    ----------
    command : str
        As it is typed: ``train budget``.
    renamed : mapping
        Fields that the command calls otherwise.
    own : sequence of str
        Fields of the page alone.

    Errors: :class:`KeyError` for a field that is neither an option nor the page's own.
    """

    def bound(question: type[Asked]) -> type[Asked]:
        for name, field in question.model_fields.items():
            if name not in own:
                _bind(field, parameter_of(command, renamed.get(name, name)))
        question.model_rebuild(force=True)
        return question

    return bound


def _bind(field: FieldInfo, parameter: click.Parameter) -> None:
    """Give a field the help and the check of the option that it stands for."""

    def checked(value: Any) -> Any:
        if value is None or value == "" or isinstance(value, bool):
            return value
        try:
            parameter.type.convert(word(_worded(field, value)), parameter, None)
        except click.BadParameter as error:
            raise ValueError(error.message) from error
        return value

    # Names of the catalogue are chosen on a page; the command's help speaks of files as well.
    if isinstance(parameter, click.Option) and extra_of(field).get("control") not in ("model", "system"):
        field.description = parameter.help
    field.metadata.append(AfterValidator(checked))


def _worded(field: FieldInfo, value: Any) -> Any:
    """A value as the command line writes it: ``70`` billions are ``70B``."""
    suffix = extra_of(field).get("suffix")
    return f"{word(value)}{suffix}" if suffix else value


def extra_of(field: FieldInfo) -> Mapping[str, Any]:
    """What a field says of its control."""
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}


def slider(
    default: Any,
    low: float,
    high: float,
    title: str,
    *,
    unit: str = "",
    log: bool = True,
    whole: bool = False,
    suffix: str = "",
) -> Any:
    """A number between two ends, on a logarithmic slider or a linear one; ``suffix`` follows it on the command line."""
    extra: Any = {"control": "slider", "log": log, "unit": unit, "whole": whole, "suffix": suffix}
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
    known_fields = type(inputs).model_fields
    called = {name: name for name in fields} | renamed
    return words({new: _worded(known_fields[old], getattr(inputs, old)) for old, new in called.items()})
