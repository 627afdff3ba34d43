"""The site: formulas are printed as such and once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

sphinx_build = pytest.importorskip("sphinx.cmd.build", reason="Sphinx comes with the extra dev")

ROOT = Path(__file__).parent.parent


def test_a_formula_is_printed_once(tmp_path: Path) -> None:
    shutil.copy(ROOT / "docs/conf.py", tmp_path)
    shutil.copytree(ROOT / "docs/_static", tmp_path / "_static")
    page = "# Page\n\nWith $\\tau = r/h$ in the text, and\n\n$$t = \\frac{B}{C}$$\n\nafter it.\n"
    (tmp_path / "index.md").write_text(page, encoding="utf-8")
    assert sphinx_build.main(["-q", "-W", "-b", "html", str(tmp_path), str(tmp_path / "html")]) == 0
    text = (tmp_path / "html/index.html").read_text(encoding="utf-8")
    assert text.count("<math") == 2
    assert "<mfrac>" in text
    assert "\\frac" not in text
    assert "\\tau" not in text
    assert "after it." in text
