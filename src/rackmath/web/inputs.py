"""What a page asks for: Pydantic fields that are controls, and fields of a request with its help and checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic import Field as PydanticField
from pydantic.fields import FieldInfo

from rackmath.api.fields import Field, field_named, word
from rackmath.io import catalogue
from rackmath.io.changed_names import changed_name
from rackmath.units import parse
from rackmath.web import uploads

OTHER = "Another chip: factors of the system's numbers"
"""Title of the group of sliders that change the system."""


class Inputs(BaseModel):
    """Base of all questions: nothing unknown, nothing infinite."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True, protected_namespaces=())
    request_fields: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """What the request that a page puts calls its fields; links that were shared keep the page's own names."""
    older_names: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Other names of the request's fields -> the page's own: those of links from before a field was renamed."""


def _factor(title: str) -> Any:
    extra: Any = {"control": "slider", "log": True, "unit": "x", "group": OTHER}
    about = "Factor on the value of the system that is chosen above; 1 leaves it as it is."
    return PydanticField(1.0, ge=1 / 16, le=16, title=title, description=about, json_schema_extra=extra)


class OtherNumbersInputs(Inputs):
    """Base of questions about a system: factors of its numbers, for a chip that does not exist."""

    bandwidth_factor: float = _factor("memory bandwidth")
    memory_factor: float = _factor("memory")
    flops_factor: float = _factor("rate of multiplications")
    scale_up_factor: float = _factor("scale-up bandwidth")
    price_factor: float = _factor("price")


class OtherEngineInputs(OtherNumbersInputs):
    """Base of questions that an engine answers: a factor of its host's time as well."""

    host_factor: float = _factor("time of the engine's host")


OTHER_NUMBERS = {name: name.removesuffix("_factor") for name in OtherNumbersInputs.model_fields} | {
    "host_factor": "engine.host"
}
"""Their fields, and the key of ``--set`` that each stands for."""


def changed_system_name(name: str, inputs: Inputs) -> str:
    """A system's name with the changes behind it that the sliders stand for."""
    factors = {key: getattr(inputs, name, 1.0) for name, key in OTHER_NUMBERS.items()}
    return changed_name(name, *((key, f"{factor:g}x") for key, factor in factors.items() if factor != 1))


Question = TypeVar("Question", bound=Inputs)


def asking(
    request: type, *, aliases: Mapping[str, str] = MappingProxyType({}), own_fields: Sequence[str] = ()
) -> Callable[[type[Question]], type[Question]]:
    """Fields of a page that puts a request are the request's: they carry its help, its kinds check them.

    Parameters
    ----------
    request : type
        What the page asks.
    aliases : mapping
        Fields that the request calls otherwise.
    own_fields : sequence of str
        Fields of the page alone.

    Errors: :class:`KeyError` for a field that is neither the request's nor the page's own.
    """

    def bound(question: type[Question]) -> type[Question]:
        names: dict[str, str] = {}
        older: dict[str, str] = {}
        for name, field in question.model_fields.items():
            if name in own_fields or name in OTHER_NUMBERS:
                continue
            option_field = field_named(request, aliases.get(name, name))
            if option_field is None:
                raise KeyError(f"{request.__name__} has no field {aliases.get(name, name)}")
            _bind(field, option_field)
            names[name] = option_field.name
            older |= {spelling.lstrip("-").replace("-", "_"): name for spelling in option_field.names[1:]}
        question.request_fields = MappingProxyType(names)
        question.older_names = MappingProxyType(
            {key: name for key, name in older.items() if key not in question.model_fields}
        )
        question.model_rebuild(force=True)
        return question

    return bound


def _bind(field: FieldInfo, option_field: Field) -> None:
    """Give a field the help and the check of the request's field that it stands for."""

    def checked(value: Any) -> Any:
        if value is not None and value != "" and not isinstance(value, bool):
            option_field.option.kind.read(_worded(field, value), option_field.typed)
        return value

    # Names of the catalogue are chosen on a page; the command's help speaks of files as well.
    if extra_of(field).get("control") not in ("model", "system"):
        field.description = option_field.option.help
    field.metadata.append(AfterValidator(checked))


def _worded(field: FieldInfo, value: Any) -> Any:
    """A value as a request reads it: ``70`` billions are ``70B``."""
    suffix = extra_of(field).get("suffix")
    return f"{word(value)}{suffix}" if suffix else value


def in_unit_of(field: FieldInfo, value: Any) -> Any:
    """A number of a request as a page counts it: 70e9 are ``70`` of a field in billions."""
    suffix = extra_of(field).get("suffix")
    return value / parse(f"1{suffix}", "1") if suffix else value


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
    return PydanticField(default, ge=low, le=high, title=title, json_schema_extra=extra)


def number(default: Any, low: float, high: float, title: str, *, unit: str = "") -> Any:
    """A number that is typed, or left out."""
    return PydanticField(default, ge=low, le=high, title=title, json_schema_extra={"control": "number", "unit": unit})


def choice(default: Any, title: str) -> Any:
    """One of the few of a Literal."""
    return PydanticField(default, title=title, json_schema_extra={"control": "choice"})


def ticked(default: bool, title: str) -> Any:
    """Yes or no."""
    return PydanticField(default, title=title, json_schema_extra={"control": "tick"})


def text(default: Any, title: str, *, longest: int = 80, hint: str = "") -> Any:
    """A short text."""
    extra: Any = {"control": "text", "hint": hint}
    return PydanticField(default, title=title, max_length=longest, json_schema_extra=extra)


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


def _models(names: str) -> str:
    for name in names.split(",") if names else ():
        if name.strip() not in known("model"):
            raise ValueError(f"{name.strip()!r} is no model of the catalogue")
    return names


def _system(name: str) -> str:
    if name not in known("system"):
        raise ValueError("is no system of the catalogue")
    return name


def named(default: str, title: str, kind: str) -> Any:
    """A name of the catalogue: model or system."""
    return PydanticField(default, title=title, max_length=80, json_schema_extra={"control": kind})


Model = Annotated[str, AfterValidator(_model)]
"""A name of the catalogue, or of a config.json that was uploaded: never a path."""
Models = Annotated[str, AfterValidator(_models)]
"""Names of the catalogue, with commas between them: never paths."""
System = Annotated[str, AfterValidator(_system)]
"""A name of the catalogue."""


def values_of(inputs: Inputs, *fields: str, **aliases: str) -> dict[str, Any]:
    """Fields -> values of the request's fields that they stand for; ``requests="limit"`` where one stands for another.

    What is empty is left out; a file that was sent stands for its path; a system has the numbers of its sliders.
    """
    known_fields, names = type(inputs).model_fields, type(inputs).request_fields
    values: dict[str, Any] = {}
    for old, new in ({name: names.get(name, name) for name in fields} | aliases).items():
        value = _worded(known_fields[old], getattr(inputs, old))
        if value is not None and value != "":
            is_file = isinstance(value, str) and uploads.is_upload(value)
            values[new] = str(uploads.path_of(value)) if is_file else value
    if isinstance(values.get("on"), str):
        values["on"] = changed_system_name(values["on"], inputs)
    return values
