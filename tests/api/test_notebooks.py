"""The notebooks of the jobs are those of the page, and every one of them runs."""

from __future__ import annotations

import json
import os
import shutil
import sys
from importlib.resources import files
from pathlib import Path

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


@pytest.mark.long
def test_all_of_them_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one kernel: starting one for each would take longer than the work."""
    shutil.copy(ROOT / "tests/data/usage.jsonl", tmp_path)
    entry = json.loads((files("rackmath") / "data/models/qwen3-8b.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(entry["config"]), encoding="utf-8")
    monkeypatch.setenv("RACKMATH_DATA", str(tmp_path / "data"))
    # Cells that call the command find it beside this Python.
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    whole = nbformat.v4.new_notebook()
    for path in sorted(notebooks.FOLDER.glob("*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        assert all(not cell.outputs for cell in cells if cell.cell_type == "code"), path.name
        whole.cells += [cell for cell in cells if cell.cell_type == "code"]
    for i, cell in enumerate(whole.cells):
        cell.id = str(i)
    NotebookClient(whole, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    silent = [cell.source for cell in whole.cells if not cell.outputs and cell.source != "import rackmath as rm"]
    assert not silent
    typed = [output.text for cell in whole.cells if cell.source.startswith("!") for output in cell.outputs]
    # A refusal is one line.
    assert all(text.count("\n") > 3 for text in typed)
