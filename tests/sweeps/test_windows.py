"""A long run in windows of its time: the parts make the whole, classes keep percentiles, the cut loses nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from rackmath.api.simulation.report import QUANTITIES
from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.result import run_simulation
from rackmath.api.simulation.traffic import traffic
from rackmath.cli.app import cli
from rackmath.errors import InputError
from rackmath.serving.simulator.days import DAY, daily
from rackmath.sweeps import workers
from rackmath.sweeps.replay_runs import RunLocation, whole_of_windows
from rackmath.sweeps.windows import arrivals_until, histogram, join_windows, percentile, window, windows_of

BASE = {"model": "llama-3.1-8b", "on": "h100-sxm", "gpus": 1, "poisson": 20.0, "input": 500, "output": 60,
        "requests": 40_000, "no_evidence": True}  # fmt: skip
HERE = RunLocation(workers=1)


def asked(**fields: object) -> SimulateRequest:
    return SimulateRequest(**(BASE | fields))  # type: ignore[arg-type]


@given(swing=st.floats(0, 0.99), begin=st.floats(0, DAY - 1), span=st.floats(60, 3 * DAY))
def test_expected_arrivals_are_those_that_the_day_bends(swing: float, begin: float, span: float) -> None:
    """As many as are expected until a moment come until then, wherever the day begins."""
    r = asked(diurnal_amplitude=swing, day_start=begin if swing else 0.0)
    count = arrivals_until(r, span)
    # The request of that number, evenly drawn, comes at that moment.
    even = np.arange(1, int(count) + 2) / 20.0
    arrival = daily(even, swing, begin)
    assert np.searchsorted(arrival, span) == pytest.approx(count, rel=2e-3, abs=20)
    assert arrivals_until(r, DAY) == pytest.approx(20.0 * DAY)


def test_a_day_that_begins_later_is_the_rest_of_the_same_day() -> None:
    even = np.arange(1, 900_000) / 10.0
    whole, rest = daily(even, 0.8), daily(even, 0.8, 6 * 3600.0)
    first = np.histogram(whole, np.arange(6, 12) * 3600.0)[0]
    again = np.histogram(rest, np.arange(0, 6) * 3600.0)[0]
    assert again == pytest.approx(first, rel=1e-2)
    # The rate is highest in the hour around six.
    assert again[0] > 1.7 * 36_000


@given(count=st.integers(1, 19), swing=st.sampled_from([0.0, 0.7]))
def test_windows_share_the_run_out(count: int, swing: float) -> None:
    r = asked(diurnal_amplitude=swing)
    parts = windows_of(r, count)
    assert len(parts) == count
    assert sum(part["length"] for part in parts) == pytest.approx(2000.0)
    begins = [(part["request"]["day_start"] + part["lead"]) % DAY for part in parts]
    if swing:
        assert begins == pytest.approx([i * 2000.0 / count for i in range(count)], abs=1e-6)
    else:
        assert {part["request"]["day_start"] for part in parts} == {0.0}
    assert len({part["request"]["seed"] for part in parts}) == count
    for part in parts:
        work, _ = traffic(SimulateRequest(**part["request"]).traffic)
        # Requests go on to come beyond its end.
        assert work.arrival[-1] > part["lead"] + part["length"]


@given(st.lists(st.floats(1e-5, 1e5), min_size=1, max_size=300), st.sampled_from([0.5, 0.9, 0.99]))
def test_classes_keep_percentiles_within_a_quarter_per_cent(values: list[float], part: float) -> None:
    found = percentile(histogram(np.array(values)), part)
    assert found == pytest.approx(np.quantile(values, part, method="inverted_cdf"), rel=2.6e-3)


def test_windows_see_what_the_whole_sees() -> None:
    r = asked(poisson=50.0)
    whole, parts = run_simulation(r).to_dict(), whole_of_windows(r, 10, HERE, lambda text: None)
    assert parts["requests"] == pytest.approx(40_000, rel=0.02)
    for key in QUANTITIES:
        for name in ("mean", "p50", "p90", "p99"):
            assert parts[key][name] == pytest.approx(whole[key][name], rel=0.05), (key, name)
        low, high = parts[key]["confidence"]["p90"]
        assert low <= parts[key]["p90"] <= high
    assert parts["throughput"] == pytest.approx(whole["throughput"], rel=0.03)
    assert parts["usd_per_million_tokens"] == pytest.approx(whole["usd_per_million_tokens"], rel=0.05)
    assert abs(parts["lead_in"]["ratio"] - 1) < 4 * parts["lead_in"]["error"] + 0.01


def test_a_window_of_the_peak_has_more_requests_than_one_of_the_trough() -> None:
    r = asked(poisson=2.0, diurnal_amplitude=0.9, requests=172_800, output=4)
    peak, trough = (window(**windows_of(r, 24)[hour]) for hour in (6, 18))
    assert peak["requests"] == pytest.approx(2 * 3600 * (1 + 0.9 * 0.9886), rel=0.03)
    assert trough["requests"] == pytest.approx(2 * 3600 * (1 - 0.9 * 0.9886), rel=0.12)


def test_a_cut_that_loses_a_queue_shows() -> None:
    """First tenths of half the latency: what came before them was missing."""
    r = asked(requests=4000)
    rows = [window(**part) for part in windows_of(r, 2)]
    for row in rows:
        row["early"] = row["late"] / 2
    found = join_windows(pl.DataFrame(rows), 100.0)["lead_in"]
    assert found["ratio"] == pytest.approx(0.5)
    assert found["error"] == pytest.approx(0, abs=1e-9)


def test_a_long_run_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r, where = asked(requests=20_000), RunLocation(workers=1, folder=tmp_path / "long")
    whole = whole_of_windows(r, 5, HERE, lambda text: None)
    computed, calls = workers.computed, list[str]()

    def stopping(chunk: workers.Chunk) -> pl.DataFrame:
        calls.append(chunk.name)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return computed(chunk)

    monkeypatch.setattr(workers, "computed", stopping)
    with pytest.raises(KeyboardInterrupt):
        whole_of_windows(r, 5, where, lambda text: None)
    again = whole_of_windows(r, 5, where, lambda text: None)
    # Two were kept: three remain.
    assert len(calls) == 3 + 3
    assert again == whole


def test_a_month_of_a_region_is_a_thousand_windows() -> None:
    """10^9 requests at 390 a second, by day and by night: none of them is held but a window's."""
    month = asked(poisson=390.0, diurnal_amplitude=0.5, requests=10**9)
    parts = windows_of(month, 1000)
    assert max(part["request"]["requests"] for part in parts) < 2.5e6
    assert sum(part["length"] for part in parts) == pytest.approx(1e9 / 390)
    with pytest.raises(InputError, match="--windows"):
        run_simulation(month)


@pytest.mark.parametrize(
    ("fields", "count", "message"),
    [
        ({"poisson": None, "users": 10}, 4, "--users"),
        ({"turns": 3}, 4, "--turns"),
        ({"upgrade_at": 3.0}, 4, "--upgrade-at"),
        ({}, 1000, "at most 20"),
        ({"requests": 100_000_000}, 2, "at least 22"),
    ],
)
def test_what_has_no_windows_is_refused(fields: dict[str, object], count: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        windows_of(asked(**fields), count)


def test_the_command_prints_the_whole_and_refuses_two_ways_at_once() -> None:
    words = ["simulate", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "1", "--poisson", "20", "--input", "500"]
    words += ["--output", "60", "--requests", "8000", "--windows", "4", "--workers", "1"]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    assert "in 4 windows" in result.output
    assert "(1 where lead-ins are long enough" in " ".join(result.output.split())
    facts = json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)
    assert facts["windows"] == 4
    refused = CliRunner().invoke(cli, [*words, "--capacity", "p90", "--ttft", "1"])
    assert refused.exit_code != 0
    assert isinstance(refused.exception, InputError)
