"""``quiz``: cards of the book, asked at growing intervals."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rackmath.api.quiz import QuizRequest, check_facts, run_quiz, selected_cards
from rackmath.cli import render
from rackmath.cli.options import request_options
from rackmath.cli.quantities import WholeNumber
from rackmath.errors import InputError
from rackmath.figures.sketch import sketched
from rackmath.io import quiz_files, tables
from rackmath.lecture.book import CHAPTERS
from rackmath.lecture.quiz import anki_deck, card_named, next_cards

if TYPE_CHECKING:
    import fsrs

    from rackmath.lecture.card import Card

_MOST = 1000
_LONGEST = 200
"""Letters of a typed line."""
_RIGHT, _WRONG = 3, 1
"""Ratings of a right and of a wrong number."""


@click.command(epilog="Example: rackmath quiz --chapter 1 --list")
@click.argument("card", required=False)
@click.argument("reply", required=False, metavar="[ANSWER]")
@request_options(QuizRequest)
@click.option("--list", "show_list", is_flag=True, help="List the cards with their answers; ask nothing.")
@click.option("--limit", type=WholeNumber(1, _MOST), default=20, show_default=True, help="Cards of a session.")
@click.option("--anki", metavar="FILE.txt", help="Write the cards as a file that Anki imports; ask nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the list, or what became of an answer, as JSON.")
def quiz(
    request: QuizRequest,
    card: str | None,
    reply: str | None,
    show_list: bool,
    limit: int,
    anki: str | None,
    as_json: bool,
) -> None:
    """Ask the cards of the book: those that are due first, then new ones.

    With CARD show one question, with ANSWER check a number. What was known, and when each card comes again, is kept in
    one file of the platform's folder for data, or in the folder that RACKMATH_DATA names.
    """
    if anki is not None:
        path = Path(anki)
        tables.write_text(path, anki_deck(selected_cards(request)), "--anki")
        render.show_lines(f"written to {path}", ["import it in Anki by File, Import"])
    elif card is not None and reply is not None:
        _show_check(check_facts(card, reply), as_json)
    elif card is not None:
        _show_question(card_named(card))
    elif show_list or as_json:
        _show_list(request, as_json)
    else:
        _session(request, limit)


def _show_list(request: QuizRequest, as_json: bool) -> None:
    facts = run_quiz(request).facts
    if as_json:
        render.show_json(facts)
        return
    for chapter in CHAPTERS:
        rows = [f for f in facts if f["chapter"] == chapter.number]
        if rows:
            render.show_lines(
                chapter.title,
                [f"{f['id']}: {f['question']}\n    {f['answer'] if f['kind'] != 'sketch' else f['why']}" for f in rows],
            )


def _show_check(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        render.show_json(facts)
        return
    verdict = "right" if facts["right"] else f"not yet: {facts['read_as']} is {facts['remark']}"
    render.show_lines(
        verdict, [f"{facts['answer']}: {facts['why']}"] if facts["right"] else ["try again, or see --list"]
    )


def _show_question(card: Card) -> None:
    asks = {"number": f"rackmath quiz {card.id} ANSWER", "why": "answer in words", "sketch": "draw it on paper"}
    render.show_lines(f"{CHAPTERS[card.chapter - 1].title}: {card.id}", [card.question, asks[card.kind]])


def _session(request: QuizRequest, limit: int) -> None:
    """Ask card by card; what was answered is kept after each, so that stopping loses nothing."""
    progress = quiz_files.read_progress()
    now = datetime.now(UTC)
    due = quiz_files.due_dates(progress)
    cards = next_cards(selected_cards(request), due, now, limit)
    if not cards:
        soonest = min((due[c.id] for c in selected_cards(request) if c.id in due), default=None)
        when = f"the next is due on {soonest.astimezone():%Y-%m-%d at %H:%M}" if soonest else "no card is of this kind"
        render.show_lines("nothing is due", [when, "--list shows all"])
        return
    questions = right = 0
    for number, card in enumerate(cards, start=1):
        render.show_lines(f"{number} of {len(cards)}, {CHAPTERS[card.chapter - 1].title}: {card.id}", [card.question])
        rating = _asked(card)
        if rating is None:
            break
        progress = _kept(progress, card, rating)
        questions, right = questions + 1, right + (rating > _WRONG)
    render.show_lines(
        f"{right} of {questions} known",
        [f"kept in {quiz_files.progress_path()}" if questions else "no card was answered"],
    )


def _kept(progress: dict[str, fsrs.Card], card: Card, rating: int) -> dict[str, fsrs.Card]:
    new_progress = quiz_files.reviewed(progress, card.id, rating, datetime.now(UTC))
    quiz_files.write_progress(new_progress)
    return new_progress


def _asked(card: Card) -> int | None:
    """Put a card; its rating, or None where the session ends."""
    if card.kind == "number":
        return _number(card)
    prompt = "Enter shows the answer, q ends: " if card.kind == "why" else "draw it; Enter shows the picture, q ends: "
    if _line(prompt) is None:
        return None
    if card.draw is not None:
        render.show_lines("", sketched(card.draw()))
    render.show_lines(card.answer if card.kind == "why" else "", [card.why])
    ratings = ", ".join(f"{value} {name}" for value, name in quiz_files.RATINGS.items())
    while (line := _line(f"how well was it known? {ratings}: ")) is not None:
        if line.isdecimal() and int(line) in quiz_files.RATINGS:
            return int(line)
    return None


def _number(card: Card) -> int | None:
    while (line := _line("a number, Enter for the answer, q ends: ")) is not None:
        if line == "":
            render.show_lines(card.answer, [card.why])
            return _WRONG
        try:
            facts = check_facts(card.id, line)
        except InputError as error:
            render.show_lines("", [str(error)])
            continue
        verdict = "right" if facts["right"] else f"{facts['read_as']} is {facts['remark']}"
        render.show_lines(verdict, [f"{facts['answer']}: {facts['why']}"])
        return _RIGHT if facts["right"] else _WRONG
    return None


def _line(prompt: str) -> str | None:
    """A typed line; None where it says q, and at the end of the input."""
    click.echo(prompt, nl=False)
    try:
        # A line without an end is no answer.
        line = sys.stdin.readline(_LONGEST)
    except (OSError, UnicodeDecodeError):
        # A standard input that is closed or holds no text ends the session as its end does.
        line = ""
    if not line or line.strip().lower() == "q":
        click.echo()
        return None
    return line.strip()
