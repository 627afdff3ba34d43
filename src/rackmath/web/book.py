"""Chapters of the book as pages: the text of the site, with live figures and problems in their places."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import Any

from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

from rackmath.lecture.book import CHAPTERS, Chapter
from rackmath.lecture.card import Card
from rackmath.lecture.quiz import cards_of
from rackmath.web.page import Page

_LETTER = re.compile(r'<mi mathvariant="normal">(\w)</mi>')
_UPRIGHT = re.compile(rf"(?:{_LETTER.pattern}){{2,}}")
_MARK = re.compile(r"<!-- view: (\w+) -->\n|<!-- problems: \d+ -->\n.*?<!-- /problems -->\n?", re.DOTALL)
_PICTURE = re.compile(r"\]\([./]*docs/book/(\w+)\.svg\)")
_SITE_LINK = re.compile(r"\[([^\]]+)\]\([./]*docs/[\w./-]+\.md\)")
"""Links to pages of the site, which the board does not serve."""
_REGION = 'class="wide" tabindex="0" role="group"'
"""What may be wider than a narrow screen is scrolled by keyboard as well."""
OLD = {1: 1, 2: 4, 3: 6, 4: 10, 5: 11, 6: 14}
"""Chapters of the lecture, by which pages were once named, and those of the book."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a chapter: text as HTML, a view by its name, or its problems."""

    html: str = ""
    view: str = ""
    problems: Sequence[Card] = ()


def chapters() -> list[Page]:
    """One page each."""
    return [
        Page(
            path=f"/book/{chapter.number}",
            title=chapter.title,
            short=chapter.short,
            text=[chapter.question],
            views=list(chapter.views),
            chapter=chapter.lecture,
            book=chapter.number,
        )
        for chapter in CHAPTERS
    ]


@lru_cache(maxsize=32)
def pieces(number: int) -> tuple[Piece, ...]:
    """Parts of a chapter in their order, without its title and its question."""
    return tuple(_pieces(CHAPTERS[number - 1]))


def _pieces(chapter: Chapter) -> Iterator[Piece]:
    # The title and the question are the page's own.
    text, end = chapter.text.split("\n", 4)[4], 0
    for mark in _MARK.finditer(text):
        yield Piece(html=as_html(text[end : mark.start()]))
        yield Piece(view=mark.group(1)) if mark.group(1) else Piece(problems=cards_of(chapter.number))
        end = mark.end()
    if text[end:].strip():
        yield Piece(html=as_html(text[end:]))


def as_html(text: str) -> str:
    """Markdown of the book as HTML; formulas as MathML, pictures from this server."""
    text = _PICTURE.sub(lambda m: f"](/figures/{m.group(1)}.svg)", text)
    return _parser().render(_SITE_LINK.sub(r"\1", text))


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.add_render_rule("fence", _example)
    parser.add_render_rule("image", _figure)
    parser.add_render_rule("table_open", lambda *_: f'<div {_REGION} aria-label="table"><table>')
    parser.add_render_rule("table_close", lambda *_: "</table></div>")
    return parser.use(dollarmath_plugin, allow_space=False, renderer=_formula)


def _figure(renderer: Any, tokens: Sequence[Any], place: int, options: Any, env: Any) -> str:
    """A figure of the book, which a browser asks for when somebody comes near it."""
    tokens[place].attrSet("loading", "lazy")
    return str(renderer.image(tokens, place, options, env))


def _example(renderer: Any, tokens: Sequence[Any], place: int, options: Any, env: Any) -> str:
    return f'<pre tabindex="0"><code>{escape(tokens[place].content.rstrip())}</code></pre>'


def _formula(text: str, options: dict[str, Any]) -> str:
    if not options["display_mode"]:
        return _with_words(convert(text))
    return f'<div {_REGION} aria-label="formula">{_with_words(convert(text, display="block"))}</div>'


def _with_words(formula: str) -> str:
    """The formula with each upright word as one name: the converter makes one of each letter, and they are spelt."""
    return _UPRIGHT.sub(lambda word: f"<mi>{''.join(_LETTER.findall(word.group()))}</mi>", formula)
