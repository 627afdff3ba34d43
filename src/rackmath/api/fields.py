"""Fields of requests: each is declared once, and every door is generated from the declarations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast, get_type_hints

from rackmath.api.kinds import TEXT, Kind
from rackmath.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What is said of a field: stands in ``Annotated`` beside its type.

    Parameters
    ----------
    help : str
        What it is, with its unit where that is not of its kind.
    kind : Kind
        How its values are read.
    names : tuple of str
        What the command line calls it; by default the field's name with hyphens.
    metavar : str, optional
        What stands for the value in help texts.
    argument : bool
        Whether the command line takes it by its place.
    flags : mapping
        What engines call it, by name of the engine.
    """

    help: str
    kind: Kind = TEXT
    names: tuple[str, ...] = ()
    metavar: str | None = None
    argument: bool = False
    flags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def but(self, **changes: Any) -> Option:
        """The same declaration where one command says it otherwise."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a request."""

    name: str
    option: Option
    default: Any
    required: bool

    @property
    def typed(self) -> str:
        """What errors call it: the option as typed, or the argument in capitals."""
        if self.option.argument:
            return self.option.metavar or self.name.upper()
        return self.names[0]

    @property
    def names(self) -> tuple[str, ...]:
        """Names on the command line."""
        return self.option.names or ("--" + self.name.replace("_", "-"),)


@lru_cache(maxsize=64)
def fields_of(request: type) -> tuple[Field, ...]:
    """Fields of a request in their order, those that it inherits last.

    Errors: :class:`TypeError` for a field without a declaration: no door could show it.
    """
    hints = get_type_hints(request, include_extras=True)
    own_names = set(vars(request).get("__annotations__", ()))
    records: list[Any] = sorted(fields(request), key=lambda field: field.name not in own_names)
    return tuple(_field(request, field.name, hints[field.name], field.default) for field in records)


def _fields_of_record(request: Any) -> tuple[Field, ...]:
    return fields_of(cast("type[object]", type(request)))


def _field(request: type, name: str, hint: Any, default: Any) -> Field:
    option = next((entry for entry in getattr(hint, "__metadata__", ()) if isinstance(entry, Option)), None)
    if option is None:
        raise TypeError(f"{request.__name__}.{name} has no Option beside its type")
    is_required = default is MISSING
    return Field(name=name, option=option, default=None if is_required else default, required=is_required)


def read_fields(request: Any) -> None:
    """Read all values of a request that is being made: text becomes numbers, bounds are checked.

    Errors: :class:`~rackmath.errors.InputError` with the name of the field.
    """
    for entry in _fields_of_record(request):
        value = getattr(request, entry.name)
        if value is not None or entry.required:
            object.__setattr__(request, entry.name, entry.option.kind.read(value, entry.typed))


def refuse_without(request: Any, base: str, *names: str) -> None:
    """Refuse fields that are not at their defaults and say nothing where ``base``, an option, is left out.

    Errors: :class:`InputError` for the first of them.
    """
    for entry in _fields_of_record(request):
        value = getattr(request, entry.name)
        if entry.name in names and value != entry.default:
            raise InputError(entry.typed, value, f"says nothing without {base}")


def field_named(request: type, name: str) -> Field | None:
    """A field by its own name or by one of its options, with or without hyphens before it; ``_`` stands for ``-``."""
    option_name = name.strip().lstrip("-").replace("_", "-")
    for entry in fields_of(request):
        if option_name in (entry.name.replace("_", "-"), *(spelling.lstrip("-") for spelling in entry.names)):
            return entry
    return None


def keys_of(request: type) -> list[str]:
    """Names on the command line of all options, without hyphens before them."""
    return [entry.names[0].lstrip("-") for entry in fields_of(request) if not entry.option.argument]


def plain_fields(request: Any) -> dict[str, Any]:
    """A request as what JSON holds: it can be made again from it, in another process.

    Errors: :class:`InputError` for a model or a system that is a record: another process reads a name or a path.
    """
    return dict(_plain(request))


def _plain(request: Any) -> Iterator[tuple[str, Any]]:
    for entry in _fields_of_record(request):
        value = getattr(request, entry.name)
        if isinstance(value, Path):
            value = str(value)
        if not (value is None or isinstance(value, (str, int, float, bool, tuple))):
            raise InputError(entry.typed, type(value).__name__, "give a name or a path: it is read again elsewhere")
        yield entry.name, value


def python_of(request: Any) -> str:
    """A request as Python makes it of the public names: what stands at its default is left out."""
    usual = {entry.name: entry.default for entry in _fields_of_record(request) if not entry.required}
    values = {name: value for name, value in plain_fields(request).items() if value != usual.get(name)}
    return f"rm.{type(request).__name__}({', '.join(f'{name}={value!r}' for name, value in values.items())})"


def words_of(request: Any) -> list[str]:
    """A request as it is typed behind its command: what stands at its default is left out."""
    words: list[str] = []
    for entry in _fields_of_record(request):
        value = getattr(request, entry.name)
        if value is None or value is False or (not entry.required and value == entry.default):
            continue
        name = entry.names[0]
        if entry.option.argument:
            words.append(word(value))
        elif entry.option.kind.multiple:
            words += [f"{name}={word(part)}" for part in value]
        else:
            words.append(name if value is True else f"{name}={word(value)}")
    return words


def word(value: Any) -> str:
    """A value as it is typed: whole numbers as such, all others to the last digit that a float holds."""
    return f"{value:.15g}" if isinstance(value, float) else str(value)
