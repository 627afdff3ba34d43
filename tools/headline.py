"""Numbers of generated reports that the README repeats, between marks that name the report."""

from __future__ import annotations

from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def write_headline(mark: str, text: str) -> None:
    """Put a text between ``<!-- mark -->`` and ``<!-- /mark -->`` of the README."""
    old = README.read_text(encoding="utf-8")
    start, end = old.index(f"<!-- {mark} -->") + len(f"<!-- {mark} -->"), old.index(f"<!-- /{mark} -->")
    README.write_text(old[:start] + text + old[end:], encoding="utf-8")
