"""What click says of a command line that it cannot read, as one line: field, what is wrong, what to type."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

import click

_NAMED = 5
"""Commands that an error names."""
_WIDTHS = frozenset(f"--{width}{size}" for width in ("tp", "pp", "dp", "ep") for size in ("", "-size")) | frozenset(
    f"--{width}-parallel-size" for width in ("tensor", "pipeline", "data", "expert")
)
"""Options of engines that are one width of a layout."""
_SYSTEMS = frozenset({"--system", "--hardware", "--chip", "--gpu", "--accelerator"})
"""What else the option of a system might be called."""
_ALIKE = 3
"""Options that begin with the same word, of which an error names no more."""


def usage_line(error: click.UsageError) -> str:
    """Turn an error into the line that a user reads."""
    match error:
        case click.NoSuchOption():
            return f"{error.option_name}: no such option{_other_ways(error)}; see {_help(error)}"
        case click.MissingParameter():
            names = _missing(error)
            if len(names) == 1:
                return f"{names[0]} is missing: give it, see {_help(error)}"
            return f"{', '.join(names[:-1])} and {names[-1]} are missing: give them, see {_help(error)}"
        case click.BadParameter():
            name = "argument" if error.param is None else _name(error.param)
            return f"{name}: {error.message} See {_help(error)}"
        case _:
            return f"{error.format_message()}{_as_option(error)} See {_help(error)}"


def _as_option(error: click.UsageError) -> str:
    """What to type in place of a model that a command takes by an option, and not as its first word."""
    if error.ctx is None or "unexpected extra argument" not in error.format_message():
        return ""
    options = [name for p in error.ctx.command.params for name in p.opts if name in ("--models", "--model")]
    return f"; name models with {options[0]}." if options else "."


def _missing(error: click.MissingParameter) -> list[str]:
    """Every parameter that a command needs and has not got: click reads those that are there first."""
    if error.ctx is None or error.param is None:
        return ["argument"]
    here = error.ctx.params
    return [_name(p) for p in error.ctx.command.params if p is error.param or (p.required and p.name not in here)]


def _other_ways(error: click.NoSuchOption) -> str:
    """What to type in place of an option: one that is spelled alike, or that an engine calls so; or where it exists."""
    if error.ctx is None:
        return ""
    names = {name.strip("-"): name for p in error.ctx.command.params for name in p.opts if name.startswith("--")}
    fields = getattr(error.ctx.command.callback, "fields", ())
    near = [field.names[0] for field in fields if error.option_name in field.option.flags.values()]
    if error.option_name in _WIDTHS and "layout" in names:
        near = ["--layout"]
    if error.option_name in _SYSTEMS and "on" in names:
        near = ["--on"]
    word = error.option_name.strip("-")
    near = near or [name for text, name in names.items() if text.startswith(f"{word}-")][:_ALIKE]
    near = near or [names[name] for name in difflib.get_close_matches(word, names, cutoff=0.7)]
    if near:
        return f", did you mean {', '.join(near)}?"
    top = error.ctx.find_root()
    if not isinstance(top.command, click.Group):
        return ""
    paths = [
        path
        for path, command in _commands(top.command, top)
        if any(error.option_name in p.opts for p in command.params)
    ]
    # Short paths first: they are what most people want.
    paths.sort(key=lambda path: (path.count(" "), path))
    more = ", ..." if len(paths) > _NAMED else ""
    return f" of this command, but of {', '.join(paths[:_NAMED])}{more}" if paths else ""


def _commands(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    """All commands under a group, with the words that call them."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            under = click.Context(command, parent=context, info_name=name)
            yield from ((f"{name} {path}", subcommand) for path, subcommand in _commands(command, under))
        elif command is not None and not command.hidden:
            yield name, command


def _name(parameter: click.Parameter) -> str:
    """Return the option as typed, or the argument in capitals."""
    if isinstance(parameter, click.Option):
        return parameter.opts[-1]
    return (parameter.name or "argument").upper()


def _help(error: click.UsageError) -> str:
    return f"`{error.ctx.command_path if error.ctx else 'rackmath'} --help`"
