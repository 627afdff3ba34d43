"""Chapters of the book: one question each, a text that the site and the board share, and cards of the quiz."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from rackmath.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """A chapter of the book."""

    number: int
    slug: str
    title: str
    short: str
    """Name in a navigation."""
    question: str
    """What it answers."""
    views: tuple[str, ...] = ()
    """Live figures of the board that stand in it, in their order."""
    lecture: int = 0
    """Chapter of the lecture whose equations and claims belong to it; 0 where another chapter of the book has them."""

    @property
    def file(self) -> str:
        """Name of the file of its text, without the suffix."""
        return f"{self.number:02}-{self.slug}"

    @property
    def text(self) -> str:
        """Its text in Markdown, examples included."""
        return (files("rackmath") / "data" / "book" / f"{self.file}.md").read_text(encoding="utf-8")


def _chapter(
    number: int, slug: str, short: str, title: str, question: str, views: str = "", lecture: int = 0
) -> Chapter:
    return Chapter(
        number=number,
        slug=slug,
        short=f"{number} {short}",
        title=f"{number}. {title}",
        question=question,
        views=tuple(views.split()),
        lecture=lecture,
    )


CHAPTERS: tuple[Chapter, ...] = (
    _chapter(1, "batch", "Batch", "The roofline and the batch",
             "Why is a token at batch 1 a thousand times dearer?", "batch", 1),
    _chapter(2, "departures", "Departures", "Batches that depart", "How long does a token wait for its batch?",
             "departures"),
    _chapter(3, "context", "Context", "Context", "Why does a long conversation cost more per token?",
             "conversation"),
    _chapter(4, "rack", "Rack", "A mixture of experts on a rack",
             "Why do 256 experts want 72 accelerators?", "rack", 2),
    _chapter(5, "collectives", "Collectives", "Collectives",
             "How long do eight accelerators need to agree on a sum?", "collective"),
    _chapter(6, "pipelines", "Pipelines", "Pipelines",
             "Why cut a model into stages if no token gets faster?", "stages pipeline", 3),
    _chapter(7, "memory", "Memory", "Memory and capacity", "How many conversations fit beside the weights?", "memory"),
    _chapter(8, "kernels", "Kernels", "Kernels", "Why does no kernel reach the peak on the data sheet?", "estimate"),
    _chapter(9, "load", "Load", "Serving under load", "What does the slowest user in a hundred see?", "simulate"),
    _chapter(10, "training", "Training", "Training and over-training", "How long should a model be trained?",
             "lifetime budget", 4),
    _chapter(11, "prices", "Prices", "Prices", "What does a price page say about the machine behind it?",
             "cliff page", 5),
    _chapter(12, "tiers", "Tiers", "Caches and tiers", "Where should a conversation wait for its user?", "cache"),
    _chapter(13, "agents", "Agents", "Agents", "What does a day of an agent cost?", "agent"),
    _chapter(14, "ciphers", "Ciphers", "Ciphers and reversible networks",
             "What do a block cipher and a network have in common?", "rounds", 6),
    _chapter(15, "errors", "Errors", "How wrong are we",
             "How far from the truth is a number of this book?", "accuracy"),
)  # fmt: skip
"""All chapters in their order."""


def chapter(number: int) -> Chapter:
    """Look a chapter up by its number.

    Errors: :class:`~rackmath.errors.InputError` for a number that the book does not have.
    """
    if not 1 <= number <= len(CHAPTERS):
        raise InputError("--chapter", number, f"the book has chapters 1 to {len(CHAPTERS)}")
    return CHAPTERS[number - 1]
