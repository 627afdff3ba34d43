"""Put a question as on the command line and get values and a figure back instead of text and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from rackmath.cli.app import cli, name_of
from rackmath.cli.captured import CURRENT, Answer
from rackmath.errors import InputError


def words(options: Mapping[str, Any]) -> list[str]:
    """Values by Python's names -> options: ``{"gpus": 8.0, "one_pool": True}`` is ``--gpus=8 --one-pool``.

    What is None, False or empty is left out; an underscore at the end of a name is dropped.
    """
    found = []
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is True:
            found.append(option)
        elif value is not None and value is not False and value != "":
            found.append(f"{option}={word(value)}")
    return found


def word(value: Any) -> str:
    """A value as it is typed: whole numbers as such, all others to the last digit that a float holds."""
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def parameter_of(command: str, name: str) -> click.Parameter:
    """Option or argument of a command by Python's name: ``("train budget", "rl_share")`` is ``--rl-share`` there.

    Errors: :class:`KeyError` for a command or a parameter that there is not.
    """
    found: click.Command = cli
    context = click.Context(cli)
    for word in command.split():
        inner = found.get_command(context, word) if isinstance(found, click.Group) else None
        if inner is None:
            raise KeyError(f"{command!r} is no command")
        found = inner
    typed = "--" + name.replace("_", "-")
    for one in found.params:
        if name == one.name or typed in one.opts:
            return one
    raise KeyError(f"`rackmath {command}` has no {typed}")


def ask(arguments: Sequence[str], *, picture: bool = False) -> Answer:
    """Run a command: ``["estimate", "deepseek-v3", "--on", "h200-sxm", ...]``, without ``--json`` and ``--plot``.

    Parameters
    ----------
    picture : bool
        Whether the command draws its picture as well.

    Nothing is printed or written. Any number of threads may ask at a time.
    Errors: those of the command; a question that click refuses is an :class:`InputError`.
    """
    answer = Answer()
    token = CURRENT.set(answer)
    # The name is never written to; its suffix says that a figure is wanted.
    more = ["--json", "--plot", "answer.svg"] if picture else ["--json"]
    try:
        cli.main(args=[*arguments, *more], prog_name="rackmath", standalone_mode=False)
    except click.MissingParameter as error:
        raise InputError(name_of(error), None, "give a value") from error
    except click.BadParameter as error:
        raise InputError(name_of(error), None, error.message) from error
    except click.ClickException as error:
        raise InputError("question", " ".join(arguments[:2]), error.format_message()) from error
    finally:
        CURRENT.reset(token)
    return answer
