"""Records -> tables, JSON. The only place that prints."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, NoReturn

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rackmath.api.plain import to_plain
from rackmath.figures import Figure
from rackmath.figures.sketch import sketched

_BAR = 40


def show_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    sys.stdout.write(json.dumps(to_plain(value), indent=2, allow_nan=False) + "\n")


_recorder: ContextVar[Console | None] = ContextVar("_recorder", default=None)
"""Console that also keeps what is printed, while a page is made of it."""


class _Console(Console):
    """A console whose reader may go away before the end, as ``head`` does: that is no error."""

    def on_broken_pipe(self) -> NoReturn:
        """Leave nothing to write when the process ends, and end."""
        with suppress(SystemExit):
            super().on_broken_pipe()
        raise BrokenPipeError


def console() -> Console:
    """Console on standard output; wide enough for a table where it is no terminal."""
    recorder = _recorder.get()
    if recorder is not None:
        return recorder
    return _Console(highlight=False, soft_wrap=False, width=None if sys.stdout.isatty() else 120)


@contextmanager
def recording() -> Iterator[Console]:
    """A console of 120 letters that prints and keeps everything."""
    recorder = _Console(highlight=False, soft_wrap=False, width=120, record=True)
    token = _recorder.set(recorder)
    try:
        yield recorder
    finally:
        _recorder.reset(token)


def show_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> None:
    """Print a table; columns whose name starts with ``>`` are numbers and align right."""
    table = Table(
        title=escape(title),
        title_justify="left",
        caption=escape(note) or None,
        caption_justify="left",
        box=None,
        pad_edge=False,
    )
    for name in columns:
        right = name.startswith(">")
        table.add_column(name.removeprefix(">"), justify="right" if right else "left", no_wrap=right)
    for row in rows:
        # Names may hold brackets, which are no markup.
        table.add_row(*(escape(str(cell)) for cell in row))
    console().print(table)


def show_pairs(title: str, pairs: Iterable[tuple[str, str]]) -> None:
    """Print names and values below each other."""
    out = console()
    out.print(title, style="bold", markup=False)
    entries = list(pairs)
    width = max((len(name) for name, _ in entries), default=0)
    for name, value in entries:
        out.print(f"  {name:<{width}}  {value}", markup=False)


def show_bars(title: str, parts: Mapping[str, float], show: Any) -> None:
    """Print parts of a whole as bars."""
    total = sum(parts.values()) or 1.0
    out = console()
    out.print(title, style="bold", markup=False)
    width = max(len(name) for name in parts)
    for name, value in sorted(parts.items(), key=lambda item: -item[1]):
        bar = "#" * round(_BAR * value / total)
        out.print(f"  {name:<{width}}  {show(value):>9}  {value / total:5.0%}  {bar}", markup=False)


def show_sketch(figure: Figure) -> None:
    """Print a figure in characters."""
    lines = sketched(figure)
    if lines:
        show_lines(figure.title, lines)


def show_title(text: str) -> None:
    """Print a heading of its own."""
    console().print(text, style="bold", markup=False)


def show_note(text: str) -> None:
    """Print a line about the work itself, such as how long it took, beside the result."""
    sys.stderr.write(f"{text}\n")


def show_progress(text: str) -> None:
    """Say how far long work is: on one line of a terminal, and not at all where nobody looks."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{text}  ")
        sys.stderr.flush()


def show_script(title: str, script: str) -> None:
    """Print a title and a script as it is: no line is broken and none is moved in."""
    console().print(title, style="bold", highlight=False, markup=False)
    console().print(script, markup=False, highlight=False, soft_wrap=True)


def show_lines(title: str, lines: Iterable[str]) -> None:
    """Print a heading and lines below it, if there are any."""
    texts = list(lines)
    if not texts:
        return
    out = console()
    out.print(title, style="bold", markup=False)
    for line in texts:
        out.print(f"  {line}", markup=False)
