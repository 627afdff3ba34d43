"""Write one notebook for each job of docs/jobs.md: its question, its command, and the same in Python.

    python tools/notebooks.py            # rewrite docs/notebooks/jobs, and the page's links to them
    python tools/notebooks.py --check    # exit 1 where a notebook is not what the page asks

They are written without outputs, which are those of the machine that runs them; the tests run all of them.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

from rackmath.api.fields import python_of
from rackmath.cli.options import request_of_words

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/jobs.md"
FOLDER = ROOT / "docs/notebooks/jobs"
EXAMPLES = ROOT / "tests/data"
"""Has the files that commands name."""
JOB = re.compile(
    r"^(?P<question>[^\s#].*\?)\n\n(?P<commands>(?:    rackmath .*\n)+)(?:\n\[[^\n]*ipynb\)\n)?", re.MULTILINE
)
WITHOUT_PICTURE = (
    "AgentRequest",
    "ClaimsRequest",
    "MemoryRequest",
    "ModelRequest",
    "PriceRequest",
    "RlRequest",
    "SolveRequest",
)
"""Requests whose results draw nothing, for some questions."""


def written() -> dict[Path, str]:
    """Every notebook, and the page with links to them, by path."""
    page = PAGE.read_text(encoding="utf-8")
    result: dict[Path, str] = {}
    with contextlib.chdir(EXAMPLES):
        for job in JOB.finditer(page):
            name = _name(job)
            result[FOLDER / f"{name}.ipynb"] = _notebook(name, job["question"], job["commands"].split("\n")[:-1])
    result[PAGE] = JOB.sub(_linked, page)
    return result


def _linked(job: re.Match[str]) -> str:
    link = f"[in Python](notebooks/jobs/{_name(job)}.ipynb)"
    return f"{job['question']}\n\n{job['commands']}\n{link}\n"


def _name(job: re.Match[str]) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", job["question"].lower())[:9])


def _notebook(name: str, question: str, commands: list[str]) -> str:
    commands = [command.strip() for command in commands]
    typed = "\n".join(commands)
    heading = f"# {question}\n\nThe same from the command line ([all jobs](../../jobs.md)):\n\n```\n{typed}\n```"
    cells = [("markdown", heading), ("code", "import rackmath as rm")]
    for command in commands:
        cells += [("code", code) for code in _cells(command)]
    records = [_cell(f"{name[:40]}-{i}", kind, text) for i, (kind, text) in enumerate(cells)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {"cells": records, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _cell(name: str, kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "id": name, "metadata": {}, "source": text.splitlines(keepends=True)}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def _cells(command: str) -> list[str]:
    """What Python asks in place of a command."""
    words = shlex.split(command)[1:]
    if words[0] == "explore":
        return [f"answer = rm.explore({python_of(request_of_words(words[1:]))})\nanswer", "answer.figure()"]
    request = request_of_words(words)
    cells = [f"answer = rm.answer({python_of(request)})\nanswer"]
    if "--out" in words:
        return [*cells, f'answer.write("{words[words.index("--out") + 1]}")']
    if "--simulate" in words:
        rate, count = words[words.index("--simulate") + 1], 2000
        cells.append(f"rm.simulate(answer.best, rm.Poisson(rate={rate}, requests={count}))")
    return cells if type(request).__name__ in WITHOUT_PICTURE else [*cells, "answer.figure()"]


def main() -> None:
    """Rewrite all notebooks, or report those that differ."""
    wanted = written()
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    gone = [path for path in FOLDER.glob("*.ipynb") if path not in wanted]
    if "--check" in sys.argv[1:]:
        if stale or gone:
            names = ", ".join(path.name for path in (*stale, *gone))
            sys.exit(f"out of date, run tools/notebooks.py: {names}")
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in stale:
        path.write_text(wanted[path], encoding="utf-8")
    for path in gone:
        path.unlink()
    print(f"{len(wanted) - 1} notebooks, {len(stale)} files rewritten, {len(gone)} removed")


if __name__ == "__main__":
    main()
