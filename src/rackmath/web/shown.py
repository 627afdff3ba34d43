"""What a page shows for a question, as plain values."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rackmath.api.answers import answer
from rackmath.api.fields import python_of, words_of
from rackmath.figures import Figure
from rackmath.figures.plotly import axes, bar_mode, moments, traces
from rackmath.web import uploads
from rackmath.web.inputs import Inputs

_SENT = "config.json"
"""What a file that was sent is called where its viewer would type its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text; columns that begin with ``>`` are numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContent:
    """Everything that changes on a page when a control moves."""

    figures: Sequence[Mapping[str, Any]] = ()
    """Data, layout and title of each picture, as Plotly.js takes them."""
    pairs: Sequence[tuple[str, str]] = ()
    """The numbers that matter, by name."""
    tables: Sequence[Table] = ()
    facts: Any = None
    """What the command prints with ``--json``."""
    command: str = ""
    """The same question on the command line."""
    python: str = ""
    """The same question in Python; empty where no request stands for it."""
    notes: Sequence[str] = ()
    """What was assumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One form with its pictures."""

    name: str
    title: str
    about: str
    inputs: type[Inputs]
    answer: Callable[[Any], PageContent]
    heavy: bool = False
    """Whether it takes longer than a slider can wait: such questions have processes of their own."""
    uploads: str = ""
    """Kind of file that a viewer may send along: config or trace."""
    presets: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Values of fields, by what they stand for."""


def drawn(figure: Figure) -> list[dict[str, Any]]:
    """Every panel of a figure as a picture of its own: a narrow screen puts them below each other."""
    rows: list[dict[str, Any]] = []
    for panel in figure.panels:
        across, up = axes(panel)
        mode = bar_mode([panel])
        rows.append(
            {
                "title": panel.title
                or (f"{panel.up} against {panel.across}" if panel.across and panel.up else figure.title),
                "data": traces(panel),
                "layout": {"xaxis": across, "yaxis": up, **({"barmode": mode} if mode else {})},
                **({"moments": moments(panel), "moment": panel.moment} if panel.moments else {}),
            }
        )
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class PageAnswer:
    """A request with its result, as a page shows it."""

    result: Any
    facts: Any
    """What the command prints with ``--json``, without paths of this machine."""
    command: str
    """The same question as a line to type; a file that was sent has its viewer's own name there."""
    python: str
    """The same question in Python, likewise."""


def answered(command: str, request: Any, run: Callable[[Any], Any] | None = None) -> PageAnswer:
    """Put a request to what ``rackmath`` calls ``command``; ``run`` answers it, by default its own function."""
    names = {
        path: _SENT for path in uploads.paths() if path in words_of(request) or f"--trace={path}" in words_of(request)
    }
    names |= {str(Path(path).parent): "." for path in names}
    result = (run or answer)(request)
    words = [*command.split(), *(_renamed(word, names) for word in words_of(request))]
    return PageAnswer(
        result=result,
        facts=_renamed(result.to_dict(), names),
        command=command_line(words),
        python=f"rm.answer({_renamed(python_of(request), names)})",
    )


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """The same without paths of this machine."""
    if isinstance(value, str):
        for old, new in names.items():
            value = value.replace(old, new)
        return value
    if isinstance(value, Mapping):
        return {key: _renamed(item, names) for key, item in value.items()}
    return [_renamed(item, names) for item in value] if isinstance(value, list) else value


def command_line(words: Sequence[str]) -> str:
    """Words behind ``rackmath`` as a line to type."""
    return shlex.join(["rackmath", *words])


def as_json(content: PageContent) -> dict[str, Any]:
    """Everything that a page gets; its parts are plain values already."""
    return {
        "figures": list(content.figures),
        "pairs": [list(pair) for pair in content.pairs],
        "tables": [
            {"title": table.title, "columns": list(table.columns), "rows": [list(row) for row in table.rows]}
            for table in content.tables
        ],
        "facts": content.facts,
        "command": content.command,
        "python": content.python,
        "notes": list(content.notes),
    }
