"""Cards, their answers, and what becomes of typed ones."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from rackmath.api.quiz import check_facts
from rackmath.cli.app import cli
from rackmath.errors import InputError
from rackmath.io import paths, quiz_files
from rackmath.lecture.book import CHAPTERS, Chapter
from rackmath.lecture.card import Card, check
from rackmath.lecture.deck import CARDS
from rackmath.lecture.drawings import DRAWINGS, drawing
from rackmath.lecture.quiz import anki_deck, answers, card_named, cards_of, next_cards

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
KNOWN = {
    "ratio-h200": 1979e12 / 2 / 4.8e12,
    "floor-70b": 141.1e9 / (4 * 3.35e12),
    "worst-wait": 0.05,
    "median-wait": 0.0375,
    "cache-of-a-token": 131_072,
    "latent-of-a-token": 35_136,
    "experts-touched": 128 * (1 - (31 / 32) ** 32),
    "three-racks": 6,
    "ring-all-reduce": 2 * 7 / 8 * 100e6 / 450e9,
    "pieces": 90e-6,
    "bubble-12": 11 / 59,
    "microbatches-for-ten-percent": 63,
    "gib": 17.61e9,
    "product-bytes": 40.2e-6,
    "sum-of-maxima": 1.4,
    "little-batch": 37.5,
    "running-batch": 240,
    "queue-of-prompts": 0.4,
    "pretraining-flop": 2.88e24,
    "equal-costs-over-training": 2 ** (1 / 0.3658),
    "cliff": 1562.5,
    "bill": 0.0189,
    "drain-of-a-drive": 7680 / 14,
    "ski-rental": 0.36 / 0.0014 * 3600,
    "tokens-read": 20 * 6000 + 190 * 1500,
    "open-sessions": 240 * 60_000 * 70e3,
    "reversible-step": 4 / 3,
    "memory-of-depth": 48 * 2 + 34,
    "rows-for-a-quantile": 19,
}
"""Answers by hand."""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(paths.FOLDER, str(tmp_path / "data"))
    return tmp_path


def number(value: float, unit: str = "s", within: float = 0.05) -> Card:
    return Card(id="x", chapter=1, question="?", why=".", value=lambda: value, unit=unit, within=within)


def test_every_chapter_has_five_numbers_a_reason_and_a_sketch() -> None:
    for chapter in CHAPTERS:
        kinds = [card.kind for card in cards_of(chapter.number)]
        assert kinds.count("number") >= 5, chapter.title
        assert "why" in kinds, chapter.title
        assert "sketch" in kinds, chapter.title
    assert len(CARDS) >= 60
    assert len({card.id for card in CARDS}) == len(CARDS)


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.id)
def test_a_card_has_one_answer_that_checks_as_right(card: Card) -> None:
    assert sum(way is not None for way in (card.value, card.says, card.draw)) == 1
    assert card.question.endswith(("?", "."))
    assert card.answer
    if card.value is not None:
        assert check(card, repr(card.value())).is_right
        assert not check(card, repr(card.value() * 2)).is_right
        assert not check(card, repr(card.value() / 2)).is_right
    if card.draw is not None:
        assert card.draw().panels


@pytest.mark.parametrize(("name", "value"), KNOWN.items())
def test_an_answer_is_the_one_by_hand(name: str, value: float) -> None:
    card = next(card for card in CARDS if card.id == name)
    assert card.value is not None
    assert card.value() == pytest.approx(value, rel=2e-3)


@pytest.mark.parametrize(
    ("typed", "right", "told"),
    [
        ("40ms", True, ""),
        ("41 ms", True, ""),
        ("43ms", False, "too large by 7%"),
        ("20ms", False, "too small by a factor of 2: a multiply-add"),
        ("80ms", False, "too large by a factor of 2"),
        ("40us", False, "too small by a factor of 1,000: one prefix"),
        ("320ms", False, "too large by a factor of 8: bits"),
        ("2.4", False, "too large by a factor of 60: minutes"),
        ("400", False, "orders of magnitude"),
        ("0", False, "far from it"),
    ],
)
def test_a_miss_is_told_with_its_mistake(typed: str, right: bool, told: str) -> None:
    result = check(number(0.04), typed)
    assert result.is_right is right
    assert told in result.remark
    assert (result.remark == "") is right


def test_counts_carry_their_name_and_other_units_are_refused() -> None:
    assert check(number(5584, "sequences"), "5,584 sequences").is_right
    assert check(number(5584, "sequences"), "5.6k").is_right
    for text in ("ten", "5584 tokens", "nan", "", "1e999"):
        with pytest.raises(InputError, match="x = "):
            check(number(5584, "sequences"), text)
    with pytest.raises(InputError, match="no unit of s"):
        check(number(0.04), "40GB")
    with pytest.raises(InputError, match="asks for words"):
        check_facts("why-flat", "3")


def test_cards_that_are_due_come_first_and_then_new_ones() -> None:
    deck = cards_of(1)
    due = {
        deck[3].id: NOW - timedelta(days=1),
        deck[5].id: NOW - timedelta(days=3),
        deck[0].id: NOW + timedelta(days=1),
    }
    session = next_cards(deck, due, NOW, 4)
    assert [card.id for card in session] == [deck[5].id, deck[3].id, deck[1].id, deck[2].id]


def test_what_was_known_comes_later_than_what_was_not(own: Path) -> None:
    progress = {}
    for rating, name in ((1, "floor-70b"), (3, "ratio-h200"), (4, "cost-of-one")):
        progress = quiz_files.reviewed(progress, name, rating, NOW)
    due = quiz_files.due_dates(progress)
    assert NOW < due["floor-70b"] < due["ratio-h200"] < due["cost-of-one"]
    quiz_files.write_progress(progress)
    assert quiz_files.due_dates(quiz_files.read_progress()) == due
    later = quiz_files.reviewed(progress, "cost-of-one", 3, due["cost-of-one"])
    first, second = due["cost-of-one"] - NOW, quiz_files.due_dates(later)["cost-of-one"] - due["cost-of-one"]
    assert second > first
    with pytest.raises(InputError, match="rating = 5"):
        quiz_files.reviewed(progress, "floor-70b", 5, NOW)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"cards": 3}', '{"cards": {"a": {"card_id": 0}}}', '{"cards": {"a": 1}}']
)
def test_a_file_that_is_none_of_the_quiz_is_refused(own: Path, text: str) -> None:
    path = quiz_files.progress_path()
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="RACKMATH_DATA"):
        quiz_files.read_progress()


def test_a_session_keeps_each_answer_and_ends_where_its_input_does(own: Path) -> None:
    run = CliRunner().invoke(cli, ["quiz", "--chapter", "1"], input="206\n\nten\n10.5ms\n")
    assert run.exit_code == 0, run.output
    assert "2 of 3 known" in run.output
    assert "floor-70b = 'ten'" in " ".join(run.output.split())
    assert set(quiz_files.read_progress()) == {"ratio-h200", "balance-gpt-oss", "floor-70b"}
    again = CliRunner().invoke(cli, ["quiz", "--chapter", "1", "--limit", "1"], input="q\n")
    assert "context-of-equal-slopes" in again.output
    assert "0 of 0 known" in again.output


def test_reasons_and_sketches_are_rated_by_their_reader(own: Path) -> None:
    run = CliRunner().invoke(cli, ["quiz", "--chapter", "2", "--kind", "sketch"], input="\n7\n3\n")
    assert run.exit_code == 0, run.output
    assert "1 of 1 known" in run.output
    assert "gb300-nvl72" in run.output
    nothing = CliRunner().invoke(cli, ["quiz", "--chapter", "2", "--kind", "sketch"])
    assert "nothing is due" in nothing.output


def test_the_list_is_the_contracts() -> None:
    facts = json.loads(CliRunner().invoke(cli, ["quiz", "--list", "--json"]).stdout)
    assert len(facts) == len(CARDS)
    assert all({"id", "chapter", "question", "answer", "why"} <= set(card) for card in facts)
    one = json.loads(CliRunner().invoke(cli, ["quiz", "drain-b300", "34ms", "--json"]).stdout)
    assert one["right"] is True


def test_a_deck_for_anki_has_three_columns_and_no_markup_of_a_question(tmp_path: Path) -> None:
    path = tmp_path / "cards.txt"
    assert CliRunner().invoke(cli, ["quiz", "--anki", str(path)]).exit_code == 0
    lines = path.read_text(encoding="utf-8").splitlines()
    head = [line for line in lines if line.startswith("#")]
    assert "#separator:tab" in head
    notes = [line.split("\t") for line in lines[len(head) :]]
    assert len(notes) == len(CARDS)
    assert all(len(note) == 3 for note in notes)
    angle = Card(id="x", chapter=1, question="a < b?", why="c > d.", says=lambda: "<b>")
    assert "a &lt; b?\t<b>&lt;b&gt;</b>" in anki_deck([angle])


def test_unknown_cards_and_folders_that_are_none_are_refused(own: Path) -> None:
    run = CliRunner().invoke(cli, ["quiz", "floor-70"])
    assert "did you mean floor-70b" in str(run.exception)
    run = CliRunner().invoke(cli, ["quiz", "--anki", str(own / "none" / "cards.txt")])
    assert "--anki" in str(run.exception)


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.slug)
def test_a_chapter_is_long_enough_asks_its_question_and_shows_what_it_names(chapter: Chapter) -> None:
    text = chapter.text
    assert text.startswith(f"# {chapter.title}\n\n*{chapter.question}*\n")
    assert 2_000 <= len(text.split()) <= 5_000
    assert "## What the lecture said, and what is true" in text
    assert "## Limits of this chapter" in text
    assert f"<!-- problems: {chapter.number} -->" in text
    assert text.count("$$") >= 2 or chapter.number == 15
    assert ">>> " in text
    figures = re.findall(r"!\[.*?\]\(.*?/book/(\w+)\.svg\)", text)
    assert figures
    assert all(name in DRAWINGS for name in figures)
    assert tuple(re.findall(r"<!-- view: (\w+) -->", text)) == chapter.views


def test_every_card_is_found_by_its_name_and_a_wrong_name_is_told_its_three_nearest() -> None:
    for card in CARDS:
        assert card_named(card.id) is card
    with pytest.raises(InputError) as refused:
        card_named("ratio-h200s")
    assert "did you mean ratio-h200, drain-b300, why-latent-on-h20? `rackmath quiz --list` lists all" in str(
        refused.value
    )
    with pytest.raises(InputError, match=r"^CARD .*: `rackmath quiz --list` lists all$"):
        card_named("0")


def test_the_answers_of_the_book_are_those_of_all_cards_by_chapter() -> None:
    sections = answers().split("\n## ")[1:]
    assert len(sections) == len(CHAPTERS)
    for entry, section in zip(CHAPTERS, sections, strict=True):
        assert section.startswith(f"{entry.title}\n")
        assert re.findall(r"^- \*\*(.+?)\*\*: ", section, re.MULTILINE) == [card.id for card in cards_of(entry.number)]


def test_every_drawing_stands_in_one_chapter() -> None:
    named = [name for chapter in CHAPTERS for name in re.findall(r"/book/(\w+)\.svg", chapter.text)]
    assert sorted(named) == sorted(DRAWINGS)
    with pytest.raises(InputError, match="figure = 'none'"):
        drawing("none")


def test_the_readme_counts_the_cards() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    assert f"its {len(CARDS)} cards" in readme
