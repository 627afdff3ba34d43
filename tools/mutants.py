"""Mutate the core rooms, one line at a time by cosmic-ray's operators, and see which mutants their tests notice.

python tools/mutants.py --room engine --count 40 --seed 0        a sample, two at a time
python tools/mutants.py --room engine --all                      every mutant of a room (hours)
python tools/mutants.py --files src/rackmath/engine/step.py      of these files alone
python tools/mutants.py --changed HEAD~10 --seconds 240          of core files that changed since, as CI does

Mutants of the simulator are tried in Python, without a compiler, by the tests that do not ask for machine code.
Mutants of annotations, of texts and of messages are left out, and those in tests/data/equivalent_mutants.csv, which
names why no test can tell them. A mutant is noticed where a test of its room fails or does not end. cosmic-ray comes
with `pip install -e '.[dev]'`.
"""

from __future__ import annotations

import argparse
import ast
import csv
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path
from queue import Queue

from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "rackmath"
EQUIVALENT = ROOT / "tests" / "data" / "equivalent_mutants.csv"
ROOMS = {
    "engine": (),
    "models": (),
    "serving": (),
    "training": (),
    "prices": (),
    "evidence": ("tests/api/test_evidence.py",),
    "caching": ("tests/prices/test_agents.py",),
}
"""Core rooms, and tests that own them beside those in the folder of the same name."""
LIMIT = 240.0
"""Time after which a mutant counts as noticed: it does not end. [s]"""
_NO_MEANING = ("core/RemoveDecorator", "core/ExceptionReplacer")
"""Operators whose mutants change no number: decorators, and which error is caught; so those of | between types."""
_NO_ENDS = ("Eq_Is", "NotEq_IsNot")
"""Equal small numbers and names are identical in CPython, so no test can tell these."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one place."""

    file: Path
    operator: str
    occurrence: int
    line: int

    @property
    def text(self) -> str:
        """The line before it is changed."""
        return self.file.read_text(encoding="utf-8").splitlines()[self.line - 1].strip()

    @property
    def simulated(self) -> bool:
        """Whether it is one of the simulator's loop or of what surrounds it."""
        return "simulator" in self.file.parts

    @property
    def name(self) -> str:
        """How it is listed."""
        return f"{self.file.relative_to(ROOT)}:{self.line} {self.operator.removeprefix('core/')}"


def silent_lines(file: Path) -> set[int]:
    """Lines of a file whose changes no number depends on: annotations, decorators, docstrings, errors, imports."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        silent = isinstance(node, (ast.Import, ast.ImportFrom, ast.Raise, ast.JoinedStr)) or _is_silent(node)
        if silent and isinstance(node, (ast.stmt, ast.expr)):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        for decorator in getattr(node, "decorator_list", ()):
            lines.update(range(decorator.lineno, decorator.end_lineno + 1))
    return lines


def _is_silent(node: ast.AST) -> bool:
    """Whether a statement is a field without a value, a docstring, or an import for types."""
    if isinstance(node, ast.AnnAssign):
        return node.value is None
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def mutants_of(file: Path) -> Iterator[Mutant]:
    """All mutants of a file that can change a number."""
    silent, tree = silent_lines(file), get_ast_from_path(file)
    for name in operator_names():
        operator_class = get_operator(name)
        if operator_class.arguments() or name.startswith(_NO_MEANING) or name.endswith(_NO_ENDS) or "BitOr" in name:
            continue
        operator = operator_class()
        positions = (start for node in ast_nodes(tree) for start, _ in operator.mutation_positions(node))
        for occurrence, (line, _) in enumerate(positions):
            if line not in silent:
                yield Mutant(file, name, occurrence, line)


def equivalents() -> set[tuple[str, str, str]]:
    """File, operator and line of mutants that no test can tell."""
    rows = csv.DictReader(EQUIVALENT.read_text(encoding="utf-8").splitlines())
    return {(row["file"], row["operator"], row["line"]) for row in rows}


def changed_code(mutant: Mutant) -> str | None:
    """The file with the mutant in it; None where that is no program or the same one: a bare * is changed too."""
    code = mutant.file.read_text(encoding="utf-8")
    changed = mutate_code(code, get_operator(mutant.operator)(), mutant.occurrence)
    try:
        same = changed is None or ast.dump(ast.parse(changed)) == ast.dump(ast.parse(code))
    except SyntaxError:
        return None
    return None if same else changed


def is_noticed(mutant: Mutant, changed: str, copy: Path, tests: Sequence[str], limit: float) -> bool | None:
    """Whether tests fail on a copy of the sources with the changed file; None where the limit is too short to say."""
    target = copy / mutant.file.relative_to(ROOT / "src")
    target.write_text(changed, encoding="utf-8")
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not long", *tests]
    try:
        ended = subprocess.run(
            words,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(copy), **({"NUMBA_DISABLE_JIT": "1"} if mutant.simulated else {})},
            capture_output=True,
            timeout=min(limit, LIMIT),
            check=False,
        )
        return ended.returncode != 0
    except subprocess.TimeoutExpired:
        return True if limit >= LIMIT else None
    finally:
        shutil.copyfile(mutant.file, target)


def changed_since(revision: str) -> list[Path]:
    """Files of the core rooms that differ from a revision, and are still there."""
    words = ["git", "diff", "--name-only", revision, "--", *(f"src/rackmath/{room}" for room in ROOMS)]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [ROOT / name for name in listed if name.endswith(".py") and (ROOT / name).exists()]


@cache
def asks_for_machine_code(test: Path) -> bool:
    """Whether a file of tests compiles the simulator, or imports another one that does."""
    text = test.read_text(encoding="utf-8")
    imported = re.findall(r"^from tests\.serving\.simulator\.(\w+) import", text, re.MULTILINE)
    return "compiled_code" in text or any(asks_for_machine_code(test.with_name(f"{name}.py")) for name in imported)


def tests_of(mutant: Mutant) -> Sequence[str]:
    """Files with tests of the folder that a mutant is in, those that import its module first: they notice most."""
    place = mutant.file.relative_to(SOURCE)
    folder = next(folder for parent in place.parents if (folder := ROOT / "tests" / parent).is_dir())
    own = sorted(path for path in folder.glob("test_*.py") if not (mutant.simulated and asks_for_machine_code(path)))
    module = re.compile(rf"from rackmath\.{re.escape('.'.join(place.with_suffix('').parts))} import\b")
    own.sort(key=lambda path: module.search(path.read_text(encoding="utf-8")) is None)
    return [*(str(path.relative_to(ROOT)) for path in own), *ROOMS[place.parts[0]]]


def results(
    mutants: Mapping[Mutant, str], tests: Sequence[str] | None, workers: int, seconds: float
) -> Iterator[tuple[Mutant, bool | None]]:
    """Try mutants with their code, each worker on a copy of its own; those not judged within ``seconds`` are None."""
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        copies: Queue[Path] = Queue()
        for i in range(workers):
            copy = Path(folder) / str(i)
            shutil.copytree(SOURCE, copy / "rackmath", ignore=shutil.ignore_patterns("__pycache__"))
            copies.put(copy)

        def run(mutant: Mutant) -> bool | None:
            copy = copies.get()
            try:
                left = end - time.monotonic()
                return is_noticed(mutant, mutants[mutant], copy, tests or tests_of(mutant), left) if left > 0 else None
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(workers) as pool:
            yield from zip(mutants, pool.map(run, mutants), strict=True)


def main() -> None:
    """Try the mutants that are asked for, and print those that no test notices."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--room", choices=ROOMS, default="engine")
    parser.add_argument("--files", nargs="*", type=Path, help="files instead of the whole room")
    parser.add_argument("--changed", help="files of core rooms that differ from this revision, instead of a room")
    parser.add_argument("--tests", nargs="*", help="tests instead of the room's")
    parser.add_argument("--count", type=int, default=40, help="mutants of the sample")
    parser.add_argument("--all", action="store_true", help="every mutant")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--seconds", type=float, default=inf, help="time for all; what is not judged by then is not counted"
    )
    parser.add_argument("--least", type=float, default=0.0, help="part that must be noticed, else the exit status is 1")
    arguments = parser.parse_args()
    files = sorted((SOURCE / arguments.room).rglob("*.py"))
    if arguments.files:
        files = [file.resolve() for file in arguments.files]
        if not arguments.tests and any(file.relative_to(SOURCE).parts[0] not in ROOMS for file in files):
            parser.error(f"name the tests of files outside of {', '.join(ROOMS)} with --tests")
    elif arguments.changed:
        files = changed_since(arguments.changed)
    known = equivalents()
    mutants = [
        mutant
        for file in files
        for mutant in mutants_of(file)
        if (str(mutant.file.relative_to(ROOT)), mutant.operator.removeprefix("core/"), mutant.text) not in known
    ]
    if not mutants:
        print("no mutants: no file of a core room is named or has changed")
        return
    if not arguments.all:
        mutants = random.Random(arguments.seed).sample(mutants, min(arguments.count, len(mutants)))
    # The simulator's tests take longest.
    mutants.sort(key=lambda mutant: mutant.simulated)
    changes = {mutant: code for mutant in mutants if (code := changed_code(mutant)) is not None}
    total = survivors = 0
    for mutant, failed in results(changes, arguments.tests, arguments.workers, arguments.seconds):
        if failed is None:
            continue
        total += 1
        if not failed:
            survivors += 1
            print(f"lives: {mutant.name}\n    {mutant.text}", flush=True)
    part = 1 - survivors / max(total, 1)
    unjudged = f"; {len(changes) - total} not judged in time" if total < len(changes) else ""
    print(f"{total - survivors} of {total} mutants noticed ({part:.0%}), seed {arguments.seed}{unjudged}")
    if part < arguments.least:
        sys.exit(
            f"fewer than {arguments.least:.0%} of the mutants were noticed: write known answers for those that live"
        )


if __name__ == "__main__":
    main()
