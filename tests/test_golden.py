"""Outputs of every command as they are recorded: a change of form may change no number."""

from __future__ import annotations

import json

import pytest
from tools import golden

from rackmath.cli.app import COMMANDS

EXPECTED = json.loads((golden.FOLDER / "expected.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("line", golden.lines())
def test_a_command_prints_what_is_recorded(line: str) -> None:
    assert list(golden.differences(EXPECTED[line], golden.printed(line))) == []


def test_every_command_that_prints_numbers_is_recorded() -> None:
    recorded = {line.split()[0] for line in golden.lines()}
    # Pages, measurements of this machine, and a fit of minutes have no fixed output.
    assert set(COMMANDS) - recorded == {"board", "calibrate", "lab"}


def test_a_difference_is_seen() -> None:
    assert list(golden.differences({"a": [1.0, 2.0]}, {"a": [1.0, 2.0 + 1e-6]}))
    assert list(golden.differences({"a": 1}, {"b": 1}))
    assert not list(golden.differences({"a": 1.0}, {"a": 1.0 + 1e-12}))
