"""The script of a page: every module once, after those that it needs, without names in common."""

from __future__ import annotations

import re
import shutil
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from rackmath.web import script
from rackmath.web.script import MODULES, edition, page_script

STATIC = files("rackmath.web").joinpath("static")
APART = {"quiz", "widget"}
"""Scripts of their own."""


def test_every_module_is_in_it_after_those_that_it_imports() -> None:
    names = {entry.name.removesuffix(".js") for entry in STATIC.iterdir() if entry.name.endswith(".js")}
    assert set(MODULES) == names - APART
    for place, name in enumerate(MODULES):
        text = STATIC.joinpath(f"{name}.js").read_text(encoding="utf-8")
        needs = re.findall(r'^import \{[^}\n]*\} from "\./(\w+)\.js";$', text, re.MULTILINE)
        assert len(needs) == len(re.findall(r"^import\b", text, re.MULTILINE)), "an import takes one line"
        assert set(needs) <= set(MODULES[:place])


def test_no_two_modules_have_a_name_in_common() -> None:
    script = page_script()
    own = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", script, re.MULTILINE)
    assert len(own) == len(set(own)) > 30
    assert not re.search(r"^(import|export)\b", script, re.MULTILINE)


def test_an_address_changes_with_its_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Browsers keep a script for ever; an upgrade may change one without a new version."""
    with as_file(STATIC) as folder:
        shutil.copytree(folder, tmp_path / "static")
    monkeypatch.setattr(script, "files", lambda package: tmp_path)
    assert edition.__wrapped__() == edition()
    with (tmp_path / "static/quiz.js").open("a", encoding="utf-8") as file:
        file.write(" ")
    assert edition.__wrapped__() != edition()
