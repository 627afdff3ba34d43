"""The notebooks of the jobs are those of the page, and every notebook of the documents runs."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from tools import notebooks

from tests.cli.test_jobs import JOBS

ROOT = Path(__file__).parents[2]


def test_every_job_has_its_notebook() -> None:
    wanted = notebooks.written()
    text = "".join(wanted.values())
    assert all(json.dumps(job)[1:-1] in text for job in JOBS)
    files = [notebooks.PAGE, *notebooks.FOLDER.glob("*.ipynb")]
    assert {path: path.read_text(encoding="utf-8") for path in files} == wanted


def executed(paths: Sequence[Path], folder: Path) -> dict[str, list[Any]]:
    """The cells of code of each notebook after a run of all in one kernel: starting one for each would take longer than the work."""
    cells = {path.stem: _code(path) for path in paths}
    whole = nbformat.v4.new_notebook()
    whole.cells = [cell for notebook in cells.values() for cell in notebook]
    for i, cell in enumerate(whole.cells):
        cell.id = str(i)
    NotebookClient(whole, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    return cells


def _code(path: Path) -> list[Any]:
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    # Committed without outputs: they are those of the machine that runs them.
    assert all(not cell.outputs for cell in cells), path.name
    return cells


@pytest.mark.long
def test_those_of_the_jobs_answer_in_every_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(ROOT / "tests/data/usage.jsonl", tmp_path)
    entry = json.loads((files("rackmath") / "data/models/qwen3-8b.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(entry["config"]), encoding="utf-8")
    monkeypatch.setenv("RACKMATH_DATA", str(tmp_path / "data"))
    # Cells that call the command find it beside this Python.
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    cells = [
        cell for notebook in executed(sorted(notebooks.FOLDER.glob("*.ipynb")), tmp_path).values() for cell in notebook
    ]
    silent = [cell.source for cell in cells if not cell.outputs and cell.source != "import rackmath as rm"]
    assert not silent
    typed = [output.text for cell in cells if cell.source.startswith("!") for output in cell.outputs]
    # A refusal is one line.
    assert all(text.count("\n") > 3 for text in typed)


@pytest.mark.long
def test_those_that_teach_draw_and_end_with_an_answer() -> None:
    cells = executed(sorted((ROOT / "docs/notebooks").glob("*.ipynb")), ROOT / "docs/notebooks")
    assert all(notebook[-1].outputs for notebook in cells.values())
    shown = [cell.outputs[0]["data"] for cell in cells["rackmath"] if cell.outputs]
    assert len(shown) == 6
    assert sum("application/vnd.plotly.v1+json" in data for data in shown) == 5
