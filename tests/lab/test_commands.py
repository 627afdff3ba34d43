"""The command: JSON, pictures, the page, and one line where PyTorch is missing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from rackmath.cli.app import cli
from rackmath.cli.lab.show import figure, panels
from rackmath.errors import InputError
from rackmath.lab import feistel
from rackmath.lab.budget import TimeLimit
from rackmath.lab.machine import Machine


def test_json_holds_what_was_measured_and_predicted() -> None:
    result = CliRunner().invoke(cli, ["lab", "feistel", "--blocks", "32", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert found["experiment"] == "feistel"
    assert found["facts"]["vector_holds"] is True
    assert {"machine", "curves", "findings", "ceilings", "median_error"} <= set(found)


@pytest.mark.long
def test_every_panel_is_drawn(cpu: Machine, tmp_path: Path) -> None:
    found = feistel.experiment(cpu, TimeLimit(60.0), rounds=(2, 8), blocks=16, layers=3)
    drawn = figure(found)
    assert [panel.title for panel in drawn.panels] == [name for name, _ in panels(found)]
    assert drawn.grid == (2, 2)
    for suffix in ("svg", "html", "png"):
        out = tmp_path / f"f.{suffix}"
        result = CliRunner().invoke(cli, ["lab", "feistel", "--blocks", "16", "--plot", str(out)])
        assert result.exit_code == 0, result.output
        assert out.stat().st_size > 5000


@pytest.mark.long
def test_the_page_holds_every_experiment(tmp_path: Path) -> None:
    out = tmp_path / "lab.html"
    result = CliRunner().invoke(
        cli, ["lab", "all", "--quick", "--seconds", "4", "--device", "cpu", "--html", str(out), "--json"]
    )
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["experiments"]
    # Each names what itself left out.
    assert not any("streams of bytes" in line for one in found[1:] for line in one["findings"])
    names = [one["experiment"] for one in json.loads(result.stdout)["experiments"]]
    assert names == ["roofline", "decode", "train-departs", "alltoall", "pipeline", "revnet", "feistel", "kv-tiers"]
    text = out.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "http" not in text.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    ).replace("https://matplotlib.org", "")
    assert all(f'id="{name}"' in text for name in names)
    assert text.count("<svg") == len(names)


def test_without_pytorch_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for arguments in (["feistel"], ["all"], ["roofline"]):
        result = CliRunner().invoke(cli, ["lab", *arguments])
        assert isinstance(result.exception, InputError)
        assert "rackmath[lab]" in str(result.exception)


def test_a_page_of_another_kind_is_refused() -> None:
    result = CliRunner().invoke(cli, ["lab", "all", "--html", "lab.pdf"])
    assert isinstance(result.exception, InputError)
