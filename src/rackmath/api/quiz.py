"""Cards of the quiz with their computed answers, and answers held against them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from rackmath.api import kinds
from rackmath.api.fields import Option, read_fields
from rackmath.api.result import Result
from rackmath.lecture.book import CHAPTERS
from rackmath.lecture.card import Card, check, written
from rackmath.lecture.quiz import card_named, cards_of


@dataclass(frozen=True, slots=True, kw_only=True)
class QuizRequest:
    """Cards of the quiz."""

    chapter: Annotated[
        int | None,
        Option(help=f"Chapter of the book, 1 to {len(CHAPTERS)} (default: all).", kind=kinds.whole(1, len(CHAPTERS))),
    ] = None
    kind: Annotated[
        str | None,
        Option(
            help="Kind of cards: those that ask for a number, for a reason, or for a sketch (default: all).",
            kind=kinds.choice("number", "why", "sketch"),
        ),
    ] = None

    def __post_init__(self) -> None:
        """Read all values."""
        read_fields(self)


def run_quiz(r: QuizRequest) -> Result:
    """Cards with their answers, computed now."""
    cards = selected_cards(r)
    return Result(request=r, facts=[card_facts(card) for card in cards], details=cards)


def selected_cards(r: QuizRequest) -> list[Card]:
    """Cards that a request asks for, their answers not computed yet."""
    return [card for card in cards_of(r.chapter) if r.kind in (None, card.kind)]


def card_facts(card: Card) -> dict[str, Any]:
    """A card as plain values."""
    return {
        "id": card.id,
        "chapter": card.chapter,
        "kind": card.kind,
        "question": card.question,
        "answer": card.answer,
        "why": card.why,
        "value": None if card.value is None else card.value(),
        "unit": card.unit,
        "within": card.within if card.kind == "number" else None,
    }


def check_facts(name: str, text: str) -> dict[str, Any]:
    """What became of a typed answer, as plain values.

    Errors: :class:`~rackmath.errors.InputError` for a card that is unknown or asks for no number, and for text that is
    none.
    """
    result = check(card_named(name), text)
    return {
        "id": name,
        "right": result.is_right,
        "read_as": written(result.number, result.card.unit),
        "answer": written(result.true, result.card.unit),
        "remark": result.remark,
        "why": result.card.why,
    }
