"""Where a cache can wait: larger blocks take longer, tiers follow each other by hold time."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from rackmath.cli.app import cli
from rackmath.errors import InputError
from rackmath.lab import kv_tiers
from rackmath.lab.budget import TimeLimit
from rackmath.lab.ceilings import Ceilings


def test_blocks_come_back_from_every_tier(measured: Ceilings, tmp_path: Path) -> None:
    found = kv_tiers.experiment(measured, TimeLimit(60.0), size=2**24, folder=tmp_path)
    assert [curve.name for curve in found.curves] == ["RAM", "mapped file", "disk"]
    for curve in found.curves:
        assert curve.measured[-1] > curve.measured[0] > 0
        assert curve.predicted[0] == pytest.approx(curve.measured[0])
        assert curve.predicted[-1] == pytest.approx(curve.measured[-1])
    assert all(seconds > 0 for seconds in found.facts["drain_time"].values())
    stays = found.facts["stays"]
    assert stays[0]["start"] == 0
    assert all(a["stop"] == b["start"] for a, b in pairwise(stays))
    assert not list(tmp_path.iterdir()), "the file is gone"


def test_bad_input_is_refused(measured: Ceilings, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--usd-per-hour"):
        kv_tiers.experiment(measured, TimeLimit(60.0), usd_per_hour=-1.0, size=2**24)
    with pytest.raises(InputError, match="free"):
        kv_tiers.experiment(measured, TimeLimit(60.0), size=2**60, folder=tmp_path)
    result = CliRunner().invoke(cli, ["lab", "kv-tiers", "--folder", str(tmp_path / "none")])
    assert result.exit_code == 2
