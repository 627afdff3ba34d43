"""Views of the board in notebooks (extra ``notebook``): the same controls, answered by the notebook's own kernel.

Jupyter, JupyterLab, VS Code and marimo show them; no server is started and nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rackmath.errors import InputError, RackmathError
from rackmath.web.controls import controls
from rackmath.web.inputs import in_unit_of
from rackmath.web.pages import views
from rackmath.web.rendering import said
from rackmath.web.script import widget_script
from rackmath.web.shown import PageContent, Table, View
from rackmath.web.stills import svg

try:
    import anywidget
    import traitlets
except ImportError as missing:
    raise InputError("widget", missing.name, "needs its extra: pip install 'rackmath[notebook]'") from missing

_STATIC = Path(__file__).parent / "static"
_VIEW_OF = {
    "EstimateRequest": "estimate",
    "PlanRequest": "plan",
    "MemoryRequest": "memory",
    "FitRequest": "fit",
    "SimulateRequest": "simulate",
    "CacheRequest": "cache",
    "AgentRequest": "agent",
    "TrainRequest": "train",
    "BudgetRequest": "budget",
    "PipelineRequest": "pipeline",
    "PageRequest": "page",
    "PriceRequest": "decode",
}
"""Views by the requests that they put."""


class ViewWidget(anywidget.AnyWidget):
    """A view of the board: controls on the left, its answer beside them.

    ``values`` holds what the controls say, by field; setting it asks again. ``html`` is the answer, ``errors`` what was
    refused, by field, with an empty name for what is no one field's. ``shown`` is the answer as the page has it.
    """

    _esm = widget_script()
    _css = _STATIC / "widget.css"
    title = traitlets.Unicode().tag(sync=True)
    controls = traitlets.List().tag(sync=True)
    values = traitlets.Dict().tag(sync=True)
    html = traitlets.Unicode().tag(sync=True)
    errors = traitlets.Dict().tag(sync=True)

    def __init__(self, view: View, values: Mapping[str, Any]) -> None:
        self.view = view
        texts = {name: str(value) for name, value in values.items()}
        self.shown: PageContent | None = None
        super().__init__(title=view.title, controls=controls(view.inputs, texts), values=texts)
        self._answer()
        self.observe(lambda _: self._answer(), "values")

    def _answer(self) -> None:
        """Put the question; what is refused leaves the last answer in its place."""
        question = {name: value for name, value in self.values.items() if value != ""}
        try:
            self.shown = self.view.answer(self.view.inputs(**question))
        except ValidationError as error:
            self.errors = {problem["field"]: problem["message"] for problem in said(error)}
            return
        except RackmathError as error:
            self.errors = {"": str(error)}
            return
        self.errors = {}
        self.html = as_html(self.shown)


def widget(subject: Any, **values: Any) -> ViewWidget:
    """A view of the board for a notebook's cell.

    Parameters
    ----------
    subject : str, request or result
        Name of a view (``estimate``, ``plan``, ``simulate``, ``batch``, ...), or a request or result whose numbers the
        controls take over.
    values : fields
        Other fields of the view.

    Errors: :class:`InputError` for a view or a field that there is not.
    """
    request = getattr(subject, "request", subject)
    name = subject if isinstance(subject, str) else _VIEW_OF.get(type(request).__name__, "")
    if name not in views():
        raise InputError("subject", name or type(subject).__name__, f"use one of {', '.join(views())}")
    view = views()[name]
    values = {view.inputs.older_names.get(field, field): value for field, value in values.items()}
    for field in values:
        if field not in view.inputs.model_fields:
            raise InputError(field, values[field], f"{name} has {', '.join(view.inputs.model_fields)}")
    presets = {} if isinstance(subject, str) else _values_of(request, view)
    return ViewWidget(view, {**presets, **values})


def _values_of(request: Any, view: View) -> dict[str, Any]:
    """Values of a request's fields that a view has, as it writes them; records of models and systems by their names."""
    values: dict[str, Any] = {}
    names = view.inputs.request_fields
    for field, name in names.items():
        # A second field of the same meaning, as the schedule to compare with, stays as it is.
        if name != field and name in names:
            continue
        value = getattr(request, name)
        value = getattr(value, "name", value)
        if isinstance(value, (str, int, float)):
            values[field] = in_unit_of(view.inputs.model_fields[field], value)
    return values


def as_html(content: PageContent) -> str:
    """An answer as HTML: numbers, pictures as SVG, tables, the command."""
    pairs = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in content.pairs)
    pictures = svg(content.figures) if content.figures else ""
    tables = "".join(_table(table) for table in content.tables)
    notes = "".join(f"<li>{escape(note)}</li>" for note in content.notes)
    assumptions = f"<details><summary>What was assumed</summary><ul>{notes}</ul></details>" if notes else ""
    return f"<dl>{pairs}</dl>{pictures}{tables}{assumptions}<pre>{escape(content.command)}</pre>"


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(name.lstrip('>'))}</th>" for name in table.columns)
    rows = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in table.rows)
    return f"<table><caption>{escape(table.title)}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
