"""``--html FILE``: the answer of any command as one page that needs nothing beside itself."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path

import click

from rackmath.cli import render
from rackmath.cli.page import page
from rackmath.errors import InputError
from rackmath.io import tables
from rackmath.version import __version__

OPTION = "--html"


def split_option(words: Sequence[str]) -> tuple[list[str], str | None]:
    """Words of a command without ``--html FILE``, and the file; None where it is not there.

    Errors: :class:`~rackmath.errors.InputError` for the option without a file, or twice.
    """
    rest, files = list(words), []
    while (place := next((i for i, word in enumerate(rest) if _is_option(word)), None)) is not None:
        word = rest.pop(place)
        if "=" in word:
            files.append(word.partition("=")[2])
        elif place < len(rest):
            files.append(rest.pop(place))
        else:
            raise InputError(OPTION, "", "name a file, as --html answer.html")
    if len(files) > 1:
        raise InputError(OPTION, files[1], "is there twice")
    return rest, files[0] if files else None


def export(words: Sequence[str], file: str, command: click.Command, run: Callable[[list[str]], int]) -> int:
    """Run a command, and write what it printed and its picture as a page.

    Parameters
    ----------
    words : sequence of str
        The command line without ``--html``.
    file : str
        Where the page goes; it appears whole or not at all.
    command : click.Command
        What the words call: whether it draws is read from its options.
    run : callable
        Runs words and returns the exit status.

    Errors: :class:`~rackmath.errors.InputError` for a name that does not end in .html, for a command that prints JSON,
    and where the folder cannot be written.
    """
    path = Path(file)
    if path.suffix.lower() != ".html":
        raise InputError(OPTION, file, "end the name with .html")
    if "--json" in words:
        raise InputError(OPTION, file, "a page holds what is printed to be read: leave --json out")
    if not path.parent.is_dir():
        raise InputError(OPTION, file, "its folder does not exist")
    draws = any("--plot" in parameter.opts for parameter in command.params) and "--plot" not in words
    with tempfile.TemporaryDirectory() as folder, render.recording() as recorder:
        picture = Path(folder) / "picture.svg"
        status = run([*words, *(["--plot", str(picture)] if draws else [])])
        svg = picture.read_text(encoding="utf-8") if picture.exists() else ""
    if status == 0:
        text = recorder.export_text(styles=False).rstrip()
        tables.write_text(path, _page(words, text, svg), OPTION)
    return status


def _page(words: Sequence[str], output: str, picture: str) -> str:
    line = shlex.join(["rackmath", *words])
    # The declaration of an XML file has no place inside a page.
    svg = picture[picture.index("<svg") :] if "<svg" in picture else ""
    body = [
        f"<h1>{escape(' '.join(words[:2]))}</h1>",
        f"<pre><code>$ {escape(line)}</code></pre>",
        f"<pre>{escape(output)}</pre>",
        *([f"<figure>{svg}</figure>"] if svg else []),
        f'<p class="small">rackmath {__version__}, {datetime.now(UTC):%Y-%m-%d}. The line above repeats it.</p>',
    ]
    return page(line, body)


def _is_option(word: str) -> bool:
    return word == OPTION or word.startswith(f"{OPTION}=")


def command_of(group: click.Group, words: Sequence[str]) -> click.Command:
    """The command that words call, through groups.

    Errors: click's own for a command that is not there.
    """
    context = click.Context(group, info_name="rackmath")
    rest = list(words)
    command: click.Command = group
    while isinstance(command, click.Group) and rest:
        name, following, rest = command.resolve_command(context, rest)
        if following is None:
            break
        command, context = following, click.Context(following, parent=context, info_name=name)
    return command
