"""Every command of docs/jobs.md and of the how-to pages, as it stands there."""

from __future__ import annotations

import json
import shlex
import shutil
from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner

from rackmath.cli.app import cli

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]


def commands_of(page: Path) -> list[str]:
    return [line.strip() for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("    rackmath ")]


JOBS = commands_of(ROOT / "docs/jobs.md")
STEPS = [(page.stem, command) for page in sorted((ROOT / "docs/how-to").glob("*.md")) for command in commands_of(page)]


def test_the_page_has_the_jobs() -> None:
    assert len(JOBS) >= 28


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the pages name."""
    for name in ("usage.jsonl", "rows.csv", "run.json", "metrics.txt"):
        shutil.copy(ROOT / "tests/data" / name, tmp_path)
    entry = json.loads((files("rackmath") / "data/models/qwen3-8b.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(entry["config"]), encoding="utf-8")
    (tmp_path / "trace.csv").write_text("arrival,input,output\n0,100,50\n0.5,200,60\n1.5,150,40\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RACKMATH_DATA", str(tmp_path / "data"))
    return tmp_path


@pytest.mark.parametrize("job", JOBS, ids=lambda job: " ".join(job.split()[1:4]))
def test_a_job_is_done_at_the_first_try(job: str, folder: Path) -> None:
    result = CliRunner().invoke(cli, shlex.split(job)[1:])
    assert result.exit_code == 0, result.exception or result.output
    assert len(result.output.splitlines()) > 3


@pytest.mark.parametrize("page", sorted({page for page, _ in STEPS}))
def test_the_steps_of_a_how_to_follow_each_other(page: str, folder: Path) -> None:
    for step in [command for name, command in STEPS if name == page]:
        words, _, target = step.partition(" > ")
        result = CliRunner().invoke(cli, shlex.split(words)[1:])
        assert result.exit_code == 0, f"{step}: {result.exception or result.output}"
        if target:
            (folder / target).write_text(result.stdout, encoding="utf-8")
