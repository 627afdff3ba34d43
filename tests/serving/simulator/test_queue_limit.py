"""Queues of a limited length: who is refused, who goes on, and what a report says of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.result import run_simulation
from rackmath.cli.app import cli
from rackmath.errors import InputError
from rackmath.serving.simulator import Arrivals, Batching, Failures, Fleet, simulate
from rackmath.serving.simulator.graph import chains
from rackmath.sweeps.capacity import highest_rate
from rackmath.sweeps.replay_runs import RunLocation, whole_of_windows
from tests.serving.simulator.test_against_reference import times

ASKED = {"model": "llama-3.1-8b", "on": "h100-sxm", "gpus": 1, "poisson": 40.0, "input": 1000, "output": 200,
         "requests": 3000, "max_num_seqs": 32, "no_evidence": True}  # fmt: skip


def requests(count: int, rank: list[int] | None = None) -> Arrivals:
    """So many at once, of 10 tokens each."""
    return Arrivals(
        arrival=np.arange(count) * 1e-6, prompt=np.full(count, 10, np.int32), output=np.full(count, 10, np.int32),
        rank=np.zeros(count, np.int32) if rank is None else np.array(rank, np.int32),
    )  # fmt: skip


def test_those_beyond_the_limit_are_refused_when_they_come() -> None:
    """The first one begins at once; of those that come during its step three wait."""
    q = simulate(
        requests(8), times(1, 64), batching=Batching(max_num_seqs=1, max_num_batched_tokens=64, queue_limit=3)
    ).requests
    assert np.flatnonzero(np.isnan(q["refused"])).tolist() == [0, 1, 2, 3]
    assert q["refused"][4:] == pytest.approx(q["arrival"][4:])
    assert np.isnan(q["first"][4:]).all()


def test_a_more_urgent_request_takes_the_place_of_the_last_one_that_waits() -> None:
    batching = Batching(max_num_seqs=1, max_num_batched_tokens=64, queue_limit=2)
    q = simulate(requests(5, [1, 1, 1, 0, 1]), times(1, 64), batching=batching).requests
    assert np.flatnonzero(~np.isnan(q["refused"])).tolist() == [2, 4]
    assert q["refused"][2] == pytest.approx(q["arrival"][3])
    fair = simulate(requests(5, [1, 1, 1, 0, 1]), times(1, 64), batching=replace(batching, scheduling="vtc")).requests
    assert np.flatnonzero(~np.isnan(fair["refused"])).tolist() == [3, 4]


@settings(max_examples=40, deadline=None)
@given(
    users=st.integers(2, 30), limit=st.integers(1, 5), replicas=st.integers(1, 3), failing=st.booleans(),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_users_who_are_refused_ask_again(users: int, limit: int, replicas: int, failing: bool, seed: int) -> None:
    """Whoever gets an error thinks, and asks his next question: all are sent, each answered or refused."""
    count = 8 * users
    random = np.random.default_rng(seed)
    arrival = np.full(count, np.nan)
    arrival[:users] = np.sort(random.uniform(0, 0.1, users))
    work = replace(requests(count), arrival=arrival, graph=chains(count, users, np.full(count, 0.05)))
    failures = Failures(between=0.7, repair=0.2) if failing else Failures()
    outcome = simulate(
        work, times(2, 64), batching=Batching(max_num_seqs=2, max_num_batched_tokens=64, queue_limit=limit),
        fleet=Fleet(replicas=replicas, failures=failures, seed=seed),
    )  # fmt: skip
    q = outcome.requests
    assert (np.isfinite(q["finish"]) != np.isfinite(q["refused"])).all()
    ended = np.where(np.isnan(q["refused"]), q["finish"], q["refused"])
    # Users share one list: every request but the first ones follows the end of another one.
    ends, several = np.unique(np.round(ended, 9), return_counts=True)
    before, follow = np.unique(np.round(q["arrival"][users:] - 0.05, 9), return_counts=True)
    place = np.clip(np.searchsorted(ends, before - 1e-8), 0, len(ends) - 1)
    assert before == pytest.approx(ends[place], abs=1e-8)
    assert np.all(follow <= several[place])
    own = outcome.replicas.own
    assert not (own["waiting"] + own["unread"] + own["prompts"]).any()


def test_a_limit_that_nobody_meets_changes_nothing() -> None:
    free = run_simulation(SimulateRequest(**ASKED)).to_dict()
    bound = run_simulation(SimulateRequest(**ASKED, max_queued_requests=100_000)).to_dict()
    assert bound.pop("refused") == {"requests": 0, "share": 0.0, "with_tokens": 0}
    for facts in (free, bound):
        facts.pop("seconds")
    assert bound == free


def test_the_report_counts_refused_requests_as_late_and_pays_for_answers_alone(tmp_path: Path) -> None:
    asked = SimulateRequest(**ASKED, max_queued_requests=20, ttft=30.0)
    run = run_simulation(asked)
    facts = run.to_dict()
    refused = facts["refused"]
    assert 0.5 < refused["share"] < 0.7
    assert facts["good_share"] == pytest.approx(1 - refused["share"])
    assert facts["offered_rate"] == pytest.approx(40.0, rel=0.05)
    assert facts["served_rate"] == pytest.approx(40.0 * (1 - refused["share"]), rel=0.05)
    q = run.outcomes[0].requests
    served = np.isnan(q["refused"])
    assert facts["requests"] - served.sum() == refused["requests"]
    dollars = facts["mean_replicas"] * facts["span"] * 2.95 / 3600
    assert facts["usd_per_million_tokens"] == pytest.approx(
        dollars / run.setup.work.output[served].sum() * 1e6, rel=1e-6
    )
    # A queue of 20 waits for 20 turns of 32 sequences at most.
    assert facts["queueing"]["p99"] < 2.0
    over = run.over_time
    width = over["time"][1] - over["time"][0]
    assert float(over["arrivals"].sum() * width) == pytest.approx(facts["requests"])
    assert run.over_time["waiting"].max() <= 20
    run.write_requests(tmp_path / "out.parquet")
    table = pl.read_parquet(tmp_path / "out.parquet")
    assert (table["replica"] == -1).sum() == refused["requests"]
    assert np.isfinite(np.array(run.picture().panels[0].series[0].y)).all()


def test_no_rate_is_kept_at_which_more_are_refused_than_a_percentile_leaves_out() -> None:
    """Short queues keep the times of those who are served at any load."""
    asked = SimulateRequest(**(ASKED | {"poisson": 8.0}), max_queued_requests=2, ttft=2.0)
    rate = highest_rate(asked, "p99", RunLocation(workers=1), lambda text: None)
    assert rate["facts"]["refused"]["share"] <= 0.01
    assert rate["rate"] < 16


def test_windows_count_refused_requests() -> None:
    asked = SimulateRequest(**(ASKED | {"requests": 12_000}), max_queued_requests=20)
    whole = run_simulation(asked).to_dict()
    parts = whole_of_windows(asked, 3, RunLocation(workers=1), lambda text: None)
    assert parts["refused"] / parts["requests"] == pytest.approx(whole["refused"]["share"], rel=0.05)
    assert parts["latency"]["p50"] == pytest.approx(whole["latency"]["p50"], rel=0.05)


def test_the_command_says_how_many_were_refused() -> None:
    words = ["simulate", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "1", "--poisson", "40", "--input", "1000",
             "--output", "200", "--requests", "2000", "--seats", "32", "--max-queued-requests", "20"]  # fmt: skip
    result = CliRunner().invoke(cli, [*words, "--no-evidence"])
    assert result.exit_code == 0, result.output
    assert "requests for a full queue" in result.output
    assert "It refuses" in result.output
    facts = json.loads(CliRunner().invoke(cli, [*words, "--no-evidence", "--json"]).stdout)
    assert facts["refused"]["requests"] > 500


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"turns": 3, "turn_tokens": 100}, "sessions"),
        ({"gpus": 2, "prefill_gpus": 1}, "--prefill-gpus"),
        ({"engine": "sglang", "scheduler_recv_interval": 10}, "--scheduler-recv-interval"),
    ],
)
def test_limits_that_mean_nothing_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run_simulation(SimulateRequest(**(ASKED | fields), max_queued_requests=5))
