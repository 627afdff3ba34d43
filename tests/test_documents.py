"""Documents: every link leads to a file that is there, every example shows an answer or a refusal of ours."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts),
    *sorted((ROOT / "src/rackmath/data/book").glob("*.md")),
]
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
CODE = re.compile(r"```.*?```|`[^`\n]*`|\$\$.*?\$\$", re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        address = urlsplit(link)
        if address.scheme:
            assert address.scheme == "https", link
            assert "." in address.netloc, link
        elif address.path:
            assert (page.parent / address.path).exists(), link


def test_every_page_of_the_documents_is_in_the_contents() -> None:
    contents = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        name = str(page.relative_to(ROOT / "docs").with_suffix(""))
        if "_build" not in page.parts and name != "index":
            assert f"\n{name}\n" in contents, name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_show_answers_and_refusals(page: Path) -> None:
    """What a tool writes below an example may be a defect: an error of Python's, or nothing where a command is refused."""
    text = page.read_text(encoding="utf-8")
    assert ">>>" not in FENCE.sub("", text), "an example stands in a block of code"
    for kind, block in FENCE.findall(text):
        for error in re.findall(r"Traceback \(most recent call last\):\n(?:\s.*\n)*(\S.*)", block):
            assert error.startswith("rackmath.errors."), error
        if kind == "console":
            for command, output in re.findall(r"^\$ (rackmath .*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
                assert output.strip(), command
