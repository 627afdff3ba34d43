"""What a page is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One address."""

    path: str
    title: str
    short: str
    """Name in the navigation."""
    text: Sequence[str]
    """Paragraphs that derive; plain text."""
    views: Sequence[str]
    chapter: int = 0
    """Of the lecture, for its equations and claims; 0 where it has none."""
    book: int = 0
    """Chapter of the book whose text it shows; 0 for tools."""
