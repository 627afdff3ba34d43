"""Run the examples of the documents again and write what they print; write the generated pages.

    python tools/documents.py            # rewrite
    python tools/documents.py --check    # exit 1 where a document says something else than its command

A ``console`` block holds commands after ``$ ``; what follows each is its output. What follows an example after ``>>> ``
is what Python prints; it is rewritten here and checked by pytest. ``<!-- problems: 3 -->`` stands before the problems
of chapter 3. Pages under ``docs/generated`` are written whole.
"""

from __future__ import annotations

import contextlib
import doctest
import inspect
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
import traceback
from dataclasses import fields, is_dataclass
from functools import cached_property
from pathlib import Path

import rackmath as public
from rackmath.api.fields import fields_of
from rackmath.cli.app import main as rackmath
from rackmath.errors import RackmathError
from rackmath.lecture.claims import RULINGS, Claim, claims, listed, text_of
from rackmath.lecture.quiz import answers, problems
from rackmath.lecture.verdicts import LARGEST_FACTOR

ROOT = Path(__file__).parent.parent
BOOK = ROOT / "src/rackmath/data/book"
OWN = "mine"
"""Folder of the measurements that a block of commands keeps."""
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
PROBLEMS = re.compile(r"<!-- problems: (\d+) -->\n.*?<!-- /problems -->", re.DOTALL)
EXAMPLE = re.compile(r"^( *)>>> .*\n(?:\1\.\.\.(?: .*)?\n)*", re.MULTILINE)
OUTPUT = re.compile(r"(?:(?! *>>> |```).*\S.*\n)*")
"""What stands below an example: up to an empty line, the next example or the end of the block."""
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def main() -> None:
    """Rewrite all documents, or report those that differ."""
    check = "--check" in sys.argv[1:]
    examples = [
        ROOT / "tests/data" / name for name in ("rows.csv", "run.json", "served.json", "usage.jsonl", "agent.toml")
    ]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        # No page sees the measurements that somebody keeps on this machine.
        os.environ["RACKMATH_DATA"] = OWN
        for file in examples:
            shutil.copy(file, folder)
        _refresh(check)


def _refresh(check: bool) -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted(BOOK.glob("*.md"))]
    wanted = {page: refreshed(page.read_text(encoding="utf-8")) for page in pages if "_build" not in page.parts}
    if not check:
        wanted = {page: with_outputs(text, page.name) for page, text in wanted.items()}
    wanted[ROOT / "docs/generated/answers.md"] = answers()
    wanted[ROOT / "docs/generated/ledger.md"] = ledger()
    wanted[ROOT / "docs/generated/python.md"] = reference()
    stale = [p for p, text in wanted.items() if not p.exists() or p.read_text(encoding="utf-8") != text]
    if check and stale:
        sys.exit("out of date, run tools/documents.py: " + ", ".join(str(p.relative_to(ROOT)) for p in stale))
    for page in stale:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(wanted[page], encoding="utf-8")
    print(f"{len(wanted)} pages, {len(stale)} {'stale' if check else 'rewritten'}")


def refreshed(text: str) -> str:
    """Text with the output of every command in its console blocks, and the problems of its chapter."""
    text = PROBLEMS.sub(lambda block: _problems(int(block.group(1))), text)
    return BLOCK.sub(lambda block: "```console\n" + _session(block.group(1)) + "```", text)


def _problems(chapter: int) -> str:
    return f"<!-- problems: {chapter} -->\n{problems(chapter)}<!-- /problems -->"


def with_outputs(text: str, name: str) -> str:
    """Text with what Python prints below every example that prints something else than what stands there."""
    scope: dict[str, object] = {"__name__": "__main__"}
    pieces, end = [], 0
    with contextlib.chdir(ROOT):
        for example in EXAMPLE.finditer(text):
            output = OUTPUT.match(text, example.end())
            assert output is not None
            wanted, printed_now = output.group(), _run(example, scope, name)
            matches = doctest.OutputChecker().check_output(wanted, printed_now, FLAGS)
            pieces += [text[end : example.end()], wanted if matches else printed_now]
            end = output.end()
    return "".join(pieces) + text[end:]


def _run(example: re.Match[str], scope: dict[str, object], name: str) -> str:
    indent = example.group(1)
    source = "".join(line[len(indent) + 4 :] or "\n" for line in example.group().splitlines(keepends=True))
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            exec(compile(source, name, "single"), scope)
    except RackmathError as error:
        # Documents show refusals; the lines between are elided by doctest.
        out.write(f"Traceback (most recent call last):\n{''.join(traceback.format_exception_only(error))}")
    return "".join(f"{indent}{line}" for line in out.getvalue().splitlines(keepends=True))


def printed(arguments: list[str]) -> str:
    """Standard output of one command; a document shows none that is refused."""
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            rackmath(arguments)
    except SystemExit as end:
        if end.code not in (None, 0):
            sys.exit(f"rackmath {shlex.join(arguments)}: status {end.code}")
    return out.getvalue()


def ledger() -> str:
    """The ledger of claims as a page."""
    lines = [
        "# Ledger of claims",
        "",
        "Generated by `python tools/documents.py` from `rackmath lecture claims`. Each claim is computed",
        "with its own inputs and with real ones: data sheets, true configs, the engine. It holds within a factor of",
        f"{LARGEST_FACTOR}, holds only for some cases, or does not hold. The board has a page with a filter.",
        "",
        "![Real over said](../book/ledger.svg)",
    ]
    entries = claims()
    for ruling in RULINGS:
        chosen = [c for c in entries if c.ruling == ruling]
        lines += ["", f"## {ruling[0].upper()}{ruling[1:]}: {len(chosen)}", ""]
        lines += ["| claim | at | said | with its inputs | with real inputs | unit |", "|---|---|---|---|---|---|"]
        for c in chosen:
            values = (text_of(v) for v in (c.lecture, c.with_lecture_inputs, c.with_real_inputs))
            lines.append(f"| {c.id} | {c.time} | {' | '.join(values)} | {c.unit} |")
        lines += ["", *(f"- **{c.id}**: {c.statement}. {c.why}{_cases(c)}{_instead(c)} {_shown_by(c)}" for c in chosen)]
    return "\n".join(lines) + "\n"


def _cases(c: Claim) -> str:
    return f" Holds for {listed(c.holds_for)}; not for {listed(c.fails_for)}." if c.holds_for else ""


def _shown_by(c: Claim) -> str:
    return f"Real values: {c.source}; `{c.command}`."


def reference() -> str:
    """Public names, and the fields of every request, as a page."""
    lines = [
        "# Reference of Python",
        "",
        "Generated by `python tools/documents.py` from what `import rackmath` exports.",
    ]
    for name in sorted(set(public.__all__) - {"__version__"}, key=str.lower):
        value = getattr(public, name)
        about = (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ")
        lines += ["", f"## {name}", "", about]
        if inspect.isfunction(value):
            signature = re.sub(r"'([^']*)'", r"\1", str(inspect.signature(value)))
            lines += ["", "```python", f"rm.{name}{signature}", "```"]
        elif name.endswith("Request"):
            lines += ["", *_fields(value)]
        elif is_dataclass(value):
            lines += ["", *_members(value)]
    return "\n".join(lines) + "\n"


def _fields(request: type) -> list[str]:
    lines = [
        "| field | on the command line | value | default | engines call it | what it is |",
        "|---|---|---|---|---|---|",
    ]
    for each in fields_of(request):
        option = each.option
        typed = option.metavar if option.argument else ", ".join(f"`{name}`" for name in each.names)
        default = "required" if each.required else "" if each.default is None else f"`{each.default!r}`"
        flags = ", ".join(f"{engine} `{flag}`" for engine, flag in option.flags.items())
        lines.append(_row(f"`{each.name}`", str(typed), option.kind.name, default, flags, option.help))
    return lines


def _members(record: type) -> list[str]:
    """Fields and properties of a result, with what their docstrings say."""
    known = {f.name: "" for f in fields(record) if not f.name.startswith("_")}
    for name, value in vars(record).items():
        about = inspect.getdoc(value) if isinstance(value, (property, cached_property)) else None
        if inspect.isfunction(value) and not name.startswith("_"):
            about = inspect.getdoc(value)
            name = f"{name}()"
        if about and not name.startswith("_"):
            known[name] = about.split("\n\n")[0].replace("\n", " ")
    return ["| member | |", "|---|---|", *(_row(f"`{name}`", about) for name, about in known.items())]


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _instead(c: Claim) -> str:
    return f" **Instead: {c.replaced_by}.**" if c.replaced_by else ""


def _session(block: str) -> str:
    text = ""
    for line in block.splitlines():
        if line.startswith("$ rackmath "):
            output = "\n".join(row.rstrip() for row in printed(shlex.split(line)[2:]).strip("\n").splitlines())
            text += f"{line}\n{output}\n"
    # What one block keeps no other sees.
    shutil.rmtree(OWN, ignore_errors=True)
    return text


if __name__ == "__main__":
    main()
