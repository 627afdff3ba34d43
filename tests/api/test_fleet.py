"""A fleet by request: what the command prints, a picture of a day, and limits that it does not know."""

from __future__ import annotations

import json
from math import isclose

import pytest
from click.testing import CliRunner

import rackmath as rm
from rackmath.cli.app import cli
from rackmath.errors import DoesNotFit, InputError

LOAD = {
    "model": "llama-3.1-8b", "on": "h100-sxm", "gpus": 8, "input": 1000, "output": 200, "one_pool": True,
    "tokens_per_second": 1e6, "ideal": True,
}  # fmt: skip


def test_it_is_the_command_s() -> None:
    facts = rm.answer(rm.FleetRequest(**LOAD)).to_dict()
    words = [
        "lecture",
        "fleet",
        "llama-3.1-8b",
        "--on",
        "h100-sxm",
        "--gpus",
        "8",
        "--input",
        "1000",
        "--output",
        "200",
    ]
    words += ["--one-pool", "--tokens-per-second", "1e6", "--ideal", "--json"]
    assert json.loads(CliRunner().invoke(cli, words).stdout) == facts
    # Capacity of 1.2 times a peak of twice the mean, whole replicas.
    units = 2.4e6 / facts["unit_tokens_per_second"]
    assert units <= facts["replicas"]["value"] < units + 1
    assert isclose(facts["gpus"]["value"], facts["replicas"]["value"] * facts["unit_gpus"])


def test_a_day_is_drawn_against_the_capacity() -> None:
    picture = rm.answer(rm.FleetRequest(**LOAD)).picture()
    (day,) = picture.panels[0].series
    assert len(day.x) == len(day.y) == 24
    assert max(day.y) == pytest.approx(1 / 1.2, rel=0.05)


def test_limits_on_percentiles_are_those_of_a_plan() -> None:
    with pytest.raises(InputError, match="rackmath plan"):
        rm.answer(rm.FleetRequest(**LOAD, ttft_p99=1.0))
    with pytest.raises(DoesNotFit, match="keeps the limits"):
        rm.answer(rm.FleetRequest(**LOAD, tpot=1e-6))
