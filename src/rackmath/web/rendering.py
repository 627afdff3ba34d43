"""Pages as HTML: text, forms and the first answer, so that they can be read before, or without, any script."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from threading import Lock
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader
from pydantic import ValidationError

from rackmath.api.plain import to_plain
from rackmath.errors import RackmathError
from rackmath.lecture.book import CHAPTERS
from rackmath.lecture.claims import RULINGS, claims, rows, text_of
from rackmath.version import __version__
from rackmath.web import equations
from rackmath.web.book import Piece, pieces
from rackmath.web.controls import controls
from rackmath.web.pages import Page, pages, views
from rackmath.web.script import edition
from rackmath.web.shown import View, as_json

_LONGEST = 80
"""Letters of what is searched for."""
_environment = Environment(loader=PackageLoader("rackmath.web", "templates"), autoescape=True, trim_blocks=True)


def render_page(path: str, query: Mapping[str, str], token: str) -> str:
    """A page with the state that its address holds, and the token with which it may send files."""
    common = {
        "version": __version__,
        "edition": edition(),
        "pages": list(pages().values()),
        "path": path,
        "token": token,
    }
    if path == "/":
        return _environment.get_template("index.html").render(common)
    page = pages()[path]
    if path == "/ledger":
        return _environment.get_template("ledger.html").render({**common, "page": page, **_ledger(query)})
    if path == "/quiz":
        return _environment.get_template("quiz.html").render({**common, "page": page, "chapters": CHAPTERS})
    blocks = {name: _block(views()[name], query) for name in page.views}
    parts = pieces(page.book) if page.book else [Piece(view=name) for name in page.views]
    return _environment.get_template("page.html").render(
        {
            **common,
            "page": page,
            "parts": parts,
            "blocks": blocks,
            "equations": _equations(page),
        }
    )


def fields_of(view: View, query: Mapping[str, str]) -> dict[str, str]:
    """Fields of one view out of the address of a page, where each has its view's name before it."""
    start, older_names = f"{view.name}.", view.inputs.older_names
    fields = ((key.removeprefix(start), value) for key, value in query.items() if key.startswith(start))
    return {older_names.get(name, name): value for name, value in fields}


def said(error: Any) -> list[dict[str, str]]:
    """What Pydantic or FastAPI refuse, as a page shows it: the field at fault, and one line."""
    fields = [(str(problem["loc"][-1]), problem["msg"].removeprefix("Value error, ")) for problem in error.errors()]
    return [{"field": field, "message": f"{field}: {message}"} for field, message in fields]


def _block(view: View, query: Mapping[str, str]) -> dict[str, Any]:
    inputs = fields_of(view, query)
    facts: dict[str, Any] = {
        "view": view,
        "controls": controls(view.inputs, inputs),
        "answer": None,
        "errors": [],
        "query": urlencode({f"{view.name}.{key}": value for key, value in inputs.items()}),
        "presets": json.dumps(view.presets),
    }
    if view.heavy:
        return facts
    try:
        fields = {key: value for key, value in inputs.items() if key in view.inputs.model_fields and value != ""}
        facts["answer"] = as_json(view.answer(view.inputs(**fields)))
    except ValidationError as error:
        facts["errors"] = [text["message"] for text in said(error)]
    except RackmathError as error:
        facts["errors"] = [str(error)]
    return facts


def _ledger(query: Mapping[str, str]) -> dict[str, Any]:
    """Claims with a ruling, of a chapter of the lecture, that contain some words: as the address says."""
    ruling, chapter, words = query.get("ruling", ""), query.get("chapter", ""), query.get("words", "")[:_LONGEST]
    every = [claim for number in range(1, 7) for claim in claims_of(number)]
    selection = [
        claim
        for claim in every
        if ruling in ("", claim["ruling"])
        and chapter in ("", str(claim["chapter"]))
        and words.lower() in f"{claim['id']} {claim['statement']} {claim['why']}".lower()
    ]
    return {
        "claims": selection,
        "all": len(every),
        "rulings": RULINGS,
        "asked": {"ruling": ruling, "chapter": chapter, "words": words},
    }


def _equations(page: Page) -> list[dict[str, Any]]:
    return equations.of_chapter(page.chapter) if page.chapter else []


_computing = Lock()


def claims_of(chapter: int) -> list[dict[str, Any]]:
    """The ledger's claims of a chapter, with their verdicts; computed once, by whoever asks first."""
    with _computing:
        return _claims_of(chapter)


@lru_cache(maxsize=8)
def _claims_of(chapter: int) -> list[dict[str, Any]]:
    ids = {row["id"] for row in rows() if int(row["chapter"]) == chapter}
    return [
        {**to_plain(c), "ruling": c.ruling, "values": [text_of(v) for v in (c.lecture, c.with_real_inputs)]}
        for c in claims(lambda name: name in ids)
    ]
