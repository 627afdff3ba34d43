"""``context``: models that do not fit are rows, trained lengths are said, reading stands beside writing."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from rackmath.cli.app import cli

BASE = ["context", "llama-2-7b,kimi-k2,llama-3.1-8b", "--on", "h100-sxm", "--gpus", "2", "--to", "100k"]


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    result = CliRunner().invoke(cli, [*BASE, "--json"])
    assert result.exit_code == 0, result.output
    return {one["model"]: one for one in json.loads(result.stdout)}


def test_a_model_that_does_not_fit_is_a_row(facts: dict[str, Any]) -> None:
    assert facts["kimi-k2"]["fits"] is False
    assert "needs 1," in facts["kimi-k2"]["reason"]
    assert "GB, there are 160" in facts["kimi-k2"]["reason"]
    assert "--slowest" not in facts["kimi-k2"]["reason"]
    text = CliRunner().invoke(cli, BASE).output
    assert "does not fit" in text
    assert "llama-3.1-8b" in text


def test_beyond_the_trained_length_is_said(facts: dict[str, Any]) -> None:
    assert "4,096 tokens" in facts["llama-2-7b"]["warnings"][0]
    assert facts["llama-3.1-8b"]["warnings"] == []
    assert facts["llama-3.1-8b"]["trained_to"] == 131_072
    one = ["estimate", "llama-2-7b", "--on", "h100-sxm", "--gpus", "1", "--batch", "1", "--json", "--context"]
    notes = [" ".join(json.loads(CliRunner().invoke(cli, [*one, n]).stdout)["assumptions"]) for n in ("4k", "1M")]
    assert "trained for" not in notes[0]
    assert "trained for 4,096 tokens" in notes[1]


def test_reading_is_what_estimate_says(facts: dict[str, Any]) -> None:
    llama = facts["llama-3.1-8b"]
    at = int(np.argmin(np.abs(np.array(llama["contexts"]) - 5600)))
    asked = ["estimate", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "2", "--batch", "1", "--phase", "prefill"]
    alone = json.loads(CliRunner().invoke(cli, [*asked, "--context", str(llama["contexts"][at]), "--json"]).stdout)
    assert llama["read_time"][at] == pytest.approx(alone["time"], rel=1e-6)
    # Nobody reads cheaper than on the accelerators of one prompt at the time they take, and no dearer.
    price = alone["usd_per_million_tokens"] / 1e6 * llama["contexts"][at]
    assert 0.3 * price < llama["read_cost"][at] <= price * (1 + 1e-9)


def test_what_cannot_be_trained_has_no_days_and_no_dollars() -> None:
    asked = ["train", "run", "llama-3.1-70b", "--on", "h100-sxm", "--gpus", "8", "--tokens", "1B"]
    if "run" not in (CliRunner().invoke(cli, ["train", "--help"]).output):
        asked.remove("run")
    facts = json.loads(CliRunner().invoke(cli, [*asked, "--json"]).stdout)
    assert facts["fits"] is False
    assert facts["days"] is None
    assert facts["usd"] is None
    assert facts["gpu_hours"] is None
    text = CliRunner().invoke(cli, asked).output
    assert "no days and no dollars" in text
    assert " $" not in text.split("assumed")[0].replace("no dollars", "")
