"""A sample of the hostile input that `tools/fuzz.py` makes by the hundred thousand."""

from __future__ import annotations

import time
from pathlib import Path

import click
import pytest

from tests.conftest import tool

fuzz = tool("fuzz")


@pytest.mark.parametrize(("surface", "cases"), [("lines", 250), ("options", 60), ("files", 100)])
def test_hostile_input_breaks_nothing(
    surface: str, cases: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RACKMATH_DATA", str(tmp_path))
    assert [broken for _, broken in fuzz.cases(surface, 2026, range(cases)) if broken] == []


def test_a_case_without_an_end_is_stopped_and_one_that_waits_for_a_processor_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def endless(_: object) -> str:
        while True:
            pass

    monkeypatch.setattr(fuzz, "LONGEST", 0.3)
    monkeypatch.setattr(fuzz, "line", endless)
    ((_, broken),) = fuzz.cases("lines", 1, range(1))
    assert broken.startswith("takes more than ")
    monkeypatch.setattr(fuzz, "line", lambda _: time.sleep(0.6) or "")
    assert list(fuzz.cases("lines", 1, range(1))) == [(0, "")]


def test_what_breaks_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rackmath.cli.app.main", lambda words: {}["no such key"])
    assert "traceback" in fuzz.typed(["model", "llama-3.1-8b"])
    monkeypatch.setattr("rackmath.cli.app.main", lambda words: click.echo("tokens/s  nan"))
    assert "writes" in fuzz.typed(["model", "llama-3.1-8b"])
    monkeypatch.setattr("rackmath.cli.app.main", lambda words: click.echo("on nan-server/inf.csv"))
    assert fuzz.typed(["model", "llama-3.1-8b"]) == ""
