"""Options of commands, made from the fields of requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from rackmath.api.fields import Field, fields_of
from rackmath.api.kinds import Kind
from rackmath.cli.quantities import KindType, WholeNumber, WordChoice
from rackmath.errors import InputError
from rackmath.io.changed_names import changed_name

Request = TypeVar("Request")
_SUBJECTS = {"on", "model"}
_SET = "Change a number of the system (bandwidth=2x, chip.capacity=288GB, price=2.5) or model (model.experts=512)"
_SET_ENGINE = ", or of the engine (engine.host=0.5x)"
_ENGINES = ("engine", "framework")
"""Fields that say whose constants an answer has."""


def request_options(
    request: type[Request], *, hidden: tuple[str, ...] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options of a request; it is called with the request first, then its own options.

    Parameters
    ----------
    hidden : tuple of str
        Fields that the command does not take.
    """
    fields = [field for field in fields_of(request) if field.name not in hidden]

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        def request_made(values: dict[str, Any]) -> Request:
            """Take a request's fields out of what was typed."""
            _apply(values, values.pop("changes", ()), fields)
            return request(**{field.name: values.pop(field.name) for field in fields})

        def called(**values: Any) -> Any:
            request = request_made(values)
            return command(request, **values)

        called.request = request_made  # type: ignore[attr-defined]
        called.fields = fields  # type: ignore[attr-defined]
        called.__doc__, called.__name__ = command.__doc__, command.__name__
        # Options of the command's own stand behind those of the request.
        called.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
        for field in reversed(fields):
            _declared(field)(called)
        field_names = {name for field in fields for name in field.names}
        if _SUBJECTS & {field.name for field in fields} and "--set" not in field_names:
            about = f"{_SET}{_SET_ENGINE if _has_engine(fields) else ''}."
            click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help=about)(called)
        return called

    return decorated


def request_of_words(words: Sequence[str]) -> Any:
    """The request that a command line asks, by the command's own reading of it.

    Errors: those of the command line and of the request.
    """
    from rackmath.cli.app import cli

    context = cli.make_context("rackmath", list(words), resilient_parsing=False)
    _, command, rest = cli.resolve_command(context, list(words))
    while isinstance(command, click.Group):
        context = click.Context(command, parent=context, info_name=command.name)
        _, command, rest = command.resolve_command(context, rest)
    request_type = None if command is None else getattr(command.callback, "request", None)
    if command is None or request_type is None:
        raise InputError("COMMAND", " ".join(words), "it asks nothing that can be asked again with other numbers")
    with command.make_context(command.name, rest, parent=context) as inner:
        return request_type(dict(inner.params))


def _apply(values: dict[str, Any], changes: tuple[str, ...], fields: Sequence[Field]) -> None:
    """Write changes behind the names of the system and of the model, of a list behind each of its names.

    Errors: :class:`InputError` for a command that has no such subject.
    """
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals:
            raise InputError("--set", change, "write key=value, as bandwidth=2x or model.experts=512")
        if key.startswith("engine."):
            _check_engine(change, values, fields)
        subjects = ("model", "models") if key.startswith("model.") else ("on",)
        by_name = [field for field in fields if field.name in subjects and isinstance(values[field.name], str)]
        if not by_name:
            subject = "model" if "model" in subjects else "system"
            raise InputError("--set", change, f"this command names no {subject} to change")
        (field,) = by_name
        names = values[field.name].split(",") if "," in (field.option.metavar or "") else [values[field.name]]
        values[field.name] = ",".join(changed_name(name, (key.removeprefix("model."), value)) for name in names)


def _has_engine(fields: Sequence[Field]) -> bool:
    """Whether an answer has constants of an engine: what one takes of memory are rules of its versions."""
    names = {field.name for field in fields}
    return bool(names & set(_ENGINES)) and "engine_version" not in names


def _check_engine(change: str, values: Mapping[str, Any], fields: Sequence[Field]) -> None:
    """Refuse to change constants of an engine where there is none."""
    if not _has_engine(fields):
        raise InputError("--set", change, "this command has no engine to change")
    if values.get("ideal"):
        raise InputError("--set", change, "without --ideal: the bound has no engine to change")


def _declared(field: Field) -> Callable[..., Any]:
    option = field.option
    if option.argument:
        kind, many = option.kind, -1 if option.kind.multiple else 1
        return click.argument(field.name, metavar=option.metavar, required=field.required, type=_type(kind), nargs=many)
    kind = option.kind
    settings: dict[str, Any] = {"help": option.help, "metavar": option.metavar}
    if kind.flag:
        return click.option(*field.names, field.name, is_flag=True, **settings)
    return click.option(
        *field.names,
        field.name,
        type=_type(kind),
        required=field.required,
        multiple=kind.multiple,
        show_default=_shown(field.default),
        **({} if field.required else {"default": () if kind.multiple else field.default}),
        **settings,
    )


def _shown(default: Any) -> bool | str:
    """A default as help shows it: what is none is not shown, millions are."""
    if default in (None, 0.0, ()):
        return False
    return f"{default / 1e6:g}M" if isinstance(default, float) and default >= 1e6 else True


def _type(kind: Kind) -> click.ParamType[Any]:
    if kind.choices:
        return WordChoice(kind)
    if kind.name == "integer":
        return WholeNumber(kind.low, kind.high)
    # Of many values click hands over one at a time; the request reads all of them.
    return click.STRING if kind.multiple else KindType(kind)
