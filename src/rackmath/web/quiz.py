"""The quiz on the board: the next card, its answer, a check, and what is remembered."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import FastAPI, Query, Response

from rackmath.api.quiz import QuizRequest, card_facts, check_facts, selected_cards
from rackmath.errors import InputError
from rackmath.figures.still import svg_text
from rackmath.io import quiz_files
from rackmath.lecture.book import CHAPTERS
from rackmath.lecture.drawings import drawing
from rackmath.lecture.quiz import card_named, next_cards
from rackmath.web.stills import one_at_a_time

_Name = Annotated[str, Query(max_length=80)]


def next_card(chapter: int | None) -> dict[str, Any]:
    """The card that comes next, without its answer, and how many are due and new."""
    cards, now = selected_cards(QuizRequest(chapter=chapter)), datetime.now(UTC)
    due = quiz_files.due_dates(quiz_files.read_progress())
    session = next_cards(cards, due, now, len(cards))
    old = sum(card.id in due for card in session)
    facts: dict[str, Any] = {"due": old, "new": len(session) - old, "all": len(cards), "card": None}
    if session:
        card = session[0]
        panels = card.draw().panels if card.draw is not None else []
        facts["card"] = {
            "id": card.id,
            "chapter": CHAPTERS[card.chapter - 1].title,
            "kind": card.kind,
            "question": card.question,
            "axes": [{"across": p.across, "up": p.up} for p in panels],
        }
    return facts


def remember(card: str, rating: int) -> dict[str, Any]:
    """Keep how well a card was known; when it comes again."""
    name = card_named(card).id
    progress = quiz_files.reviewed(quiz_files.read_progress(), name, rating, datetime.now(UTC))
    quiz_files.write_progress(progress)
    return {"id": name, "due": progress[name].due.isoformat()}


def sketch_of(card: str) -> str:
    """The picture that a sketch is compared with, as SVG.

    Errors: :class:`~rackmath.errors.InputError` for a card that asks for no sketch.
    """
    draw = card_named(card).draw
    if draw is None:
        raise InputError("card", card, "asks for no sketch")
    with one_at_a_time:
        return svg_text(draw())


def picture_of(name: str) -> str:
    """A figure of the book as SVG."""
    with one_at_a_time:
        return svg_text(drawing(name))


def add_quiz(app: FastAPI, refusals: dict[int | str, dict[str, Any]]) -> None:
    """Addresses of the quiz."""

    @app.get("/api/quiz/next", summary="The next card", operation_id="quiz_next", responses=refusals)
    def quiz_next(chapter: Annotated[int | None, Query(ge=1, le=len(CHAPTERS))] = None) -> dict[str, Any]:
        return next_card(chapter)

    @app.get("/api/quiz/answer", summary="A card with its answer", operation_id="quiz_answer", responses=refusals)
    def quiz_answer(card: _Name) -> dict[str, Any]:
        return card_facts(card_named(card))

    @app.get("/api/quiz/check", summary="Check a number", operation_id="quiz_check", responses=refusals)
    def quiz_check(card: _Name, reply: Annotated[str, Query(max_length=80)]) -> dict[str, Any]:
        return check_facts(card, reply)

    @app.get("/api/quiz/sketch.svg", include_in_schema=False)
    def quiz_sketch(card: _Name) -> Response:
        return Response(sketch_of(card), media_type="image/svg+xml")

    @app.post(
        "/api/quiz/remember", summary="Keep how well a card was known", operation_id="quiz_remember", responses=refusals
    )
    def quiz_remember(card: _Name, rating: Annotated[int, Query(ge=1, le=4)]) -> dict[str, Any]:
        return remember(card, rating)
