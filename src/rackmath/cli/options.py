"""Options of commands, made from the fields of requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from rackmath.api.fields import Field, fields_of
from rackmath.api.kinds import Kind
from rackmath.cli.quantities import Typed, Whole

Request = TypeVar("Request")


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
        def called(**values: Any) -> Any:
            fields_given = {field.name: values.pop(field.name) for field in fields}
            return command(request(**fields_given), **values)

        called.__doc__, called.__name__ = command.__doc__, command.__name__
        # Options of the command's own stand behind those of the request.
        called.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
        for field in reversed(fields):
            _declared(field)(called)
        return called

    return decorated


def _declared(field: Field) -> Callable[..., Any]:
    option = field.option
    if option.argument:
        return click.argument(field.name, metavar=option.metavar, required=field.required, type=_type(option.kind))
    kind = option.kind
    said: dict[str, Any] = {"help": option.help, "metavar": option.metavar}
    if kind.flag:
        return click.option(*field.names, field.name, is_flag=True, **said)
    return click.option(
        *field.names,
        field.name,
        type=_type(kind),
        required=field.required,
        multiple=kind.many,
        show_default=_shown(field.default),
        **({} if field.required else {"default": () if kind.many else field.default}),
        **said,
    )


def _shown(default: Any) -> bool | str:
    """A default as help shows it: what is none is not shown, millions are."""
    if default in (None, 0.0, ()):
        return False
    return f"{default / 1e6:g}M" if isinstance(default, float) and default >= 1e6 else True


def _type(kind: Kind) -> click.ParamType[Any]:
    if kind.choices:
        return click.Choice(kind.choices)
    if kind.name == "integer":
        return Whole(kind.low, kind.high)
    # Of many values click hands over one at a time; the request reads all of them.
    return click.STRING if kind.many else Typed(kind)
