"""The script of a page: every module once, after those that it needs, without names in common."""

from __future__ import annotations

import re
from importlib.resources import files

from rackmath.web.script import MODULES, page_script

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
