"""Sizes and docstrings, read from the source."""

from __future__ import annotations

import ast
import csv
import re
import tomllib
from pathlib import Path

import pytest

import rackmath
from rackmath.io.catalogue import system_names
from tests.conftest import tool

SOURCE = Path(rackmath.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
LONGEST_FILE = 300
LONGEST_FUNCTION = 60
_WORDS = (
    "found given asked kept taken made told seen held known shown written drawn done sent bought sold built gone lost "
    "meant paid put said spent thrown chosen driven fallen grown begun broken worn led cut met fed dealt "
    "this that these those some none both each one other others own same mine they them who what which"
)
IRREGULAR = frozenset(_WORDS.split())
TERMS = frozenset({"absorbed", "measured", "predicted", "expected", "speed", "need", "seed", "feed"})
"""Participles that are the field's own words for a value, and words that only look like one."""
EQUIVALENT = Path(__file__).parent / "data" / "equivalent_mutants.csv"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_files_are_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE


def test_lines_that_no_test_can_tell_are_still_there() -> None:
    """A line that changes leaves the list of equivalent mutants with it: else the list excuses nothing, unseen."""
    for row in csv.DictReader(EQUIVALENT.read_text(encoding="utf-8").splitlines()):
        path = SOURCE / Path(row["file"]).relative_to("src/rackmath")
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        assert row["line"] in lines, f"{row['file']}: {row['line']}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_functions_are_short_and_public_ones_documented(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    classes = [n for n in tree.body if isinstance(n, ast.ClassDef)]
    for node in [*tree.body, *(inner for c in classes for inner in c.body)]:
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            continue
        if not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{node.name} has no docstring"
        if isinstance(node, ast.FunctionDef):
            body = [n for n in node.body if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]
            length = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
            assert length <= LONGEST_FUNCTION, f"{node.name} has {length} lines"


def _names(tree: ast.Module) -> set[str]:
    """Names of values inside functions: parameters, and what is assigned or looped over."""
    functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    stored = {n.id for f in functions for n in ast.walk(f) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return stored | {a.arg for f in functions for a in (*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs)}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_values_are_named_by_nouns(path: Path) -> None:
    """No participle, pronoun or adjective by itself says what a value is."""
    names = {name.strip("_") for name in _names(ast.parse(path.read_text(encoding="utf-8")))}
    assert {n for n in names - TERMS if n in IRREGULAR or re.fullmatch(r"[a-z]{2,}ed", n)} == set()


def test_no_two_classes_have_one_name() -> None:
    places: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_each_dependency_has_its_reason_and_its_weight() -> None:
    root = Path(__file__).parents[1]
    declared = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [re.split(r"[^\w-]", text)[0] for text in declared["dependencies"]]
    assert sorted(tool("supply").REASONS) == sorted(names)
    page = (root / "docs/dependencies.md").read_text(encoding="utf-8")
    for name in names:
        assert re.search(rf"^\| {name} \| [\d.]+ \| \d+\.\d \| \S", page, re.MULTILINE), name
    for extra in set(declared["optional-dependencies"]) - {"test", "dev"}:
        assert f"- `{extra}`: " in page


def test_the_readme_counts_the_systems_of_the_catalogue() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    counts = re.findall(r"knows (\d+) systems", readme)
    assert [int(c) for c in counts] == [len(system_names())]
