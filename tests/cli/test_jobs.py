"""Every command of docs/jobs.md, as it stands there."""

from __future__ import annotations

import json
import shlex
import shutil
from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner

from rackmath.cli.app import cli

ROOT = Path(__file__).parents[2]
JOBS = [
    line.strip() for line in (ROOT / "docs/jobs.md").read_text(encoding="utf-8").splitlines() if line.startswith("    ")
]


def test_the_page_has_the_jobs() -> None:
    assert len(JOBS) >= 28
    assert all(job.startswith("rackmath ") for job in JOBS)


@pytest.mark.parametrize("job", JOBS, ids=lambda job: " ".join(job.split()[1:4]))
def test_a_job_is_done_at_the_first_try(job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(ROOT / "tests/data/usage.jsonl", tmp_path)
    entry = json.loads((files("rackmath") / "data/models/qwen3-8b.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(entry["config"]), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, shlex.split(job)[1:])
    assert result.exit_code == 0, result.exception or result.output
    assert len(result.output.splitlines()) > 3
