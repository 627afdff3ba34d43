"""First tokens pass a server in turn with the requests that it receives: as a queue that is stepped through says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.serving.simulator import Batching, Fleet, StepTimes, simulate
from rackmath.serving.simulator.frontend import passed_on, reception_ends, with_servers
from rackmath.serving.simulator.workload import plain, users

Requests = list[tuple[float, float, int]]
"""When each comes, how long an engine takes to write its first token (not a number: it is refused), and its replica."""


def stepped(requests: Requests, frontend: list[float], part: float) -> list[float]:
    """One server per replica, each request and each first token in turn."""
    jobs = [
        job
        for i, (come, takes, r) in enumerate(requests)
        if np.isfinite(takes)
        for job in ((come, 0, i, r), (come + takes, 1, i, r))
    ]
    passed, free = [np.nan] * len(requests), [-np.inf] * len(frontend)
    for time, kind, i, r in sorted(jobs):
        begun = max(time, free[r])
        free[r] = begun + (1 - part if kind else part) * frontend[r]
        if kind:
            passed[i] = begun
    return passed


@given(
    requests=st.lists(
        st.tuples(
            st.floats(0, 10), st.one_of(st.just(float("nan")), st.sampled_from([0.0, 0.5, 3.0])), st.integers(0, 2)
        ),
        min_size=1,
        max_size=40,
    ),
    frontend=st.lists(st.sampled_from([0.0, 0.01, 1.0]), min_size=3, max_size=3),
    part=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_a_queue_by_its_formula_is_the_queue_stepped_through(
    requests: Requests, frontend: list[float], part: float
) -> None:
    come = np.array([time for time, _, _ in requests])
    first = np.array([time + takes for time, takes, _ in requests])
    place = np.array([r if np.isfinite(takes) else -1 for _, takes, r in requests], np.int32)
    passed = passed_on(come, first, place, frontend=np.array(frontend), reception=np.full(3, part))
    assert passed == pytest.approx(stepped(requests, frontend, part), nan_ok=True)


def replica(frontend: float, reception: float = 0.0) -> tuple[StepTimes, Batching]:
    times = StepTimes(
        base=np.concatenate([[0.0], np.full(64, 0.01)]), slope=np.zeros(65),
        prompt=np.concatenate([[0.0], np.full(8192, 0.1)]), pair=0.0, error=0.0,
    )  # fmt: skip
    batching = Batching(
        max_num_seqs=64, max_num_batched_tokens=8192, memory=1_000_000, frontend=frontend, reception=reception
    )
    return times, batching


def test_a_burst_leaves_one_by_one_and_the_engine_is_none_the_slower() -> None:
    work = plain(np.zeros(50), np.full(50, 100, np.int32), np.full(50, 20, np.int32))
    alone, together = (
        simulate(work, *replica(h)[:1], batching=replica(h)[1], kv_bytes=1.0).requests for h in (0.0, 0.005)
    )
    assert np.ptp(alone["first"]) == 0
    assert np.sort(together["first"]) - alone["first"] == pytest.approx(0.005 * np.arange(50))
    assert (together["finish"] >= together["first"]).all()
    assert together["finish"] == pytest.approx(np.maximum(alone["finish"], together["first"]))


@pytest.mark.parametrize("closed", [False, True])
def test_engines_have_a_burst_when_all_of_it_is_received(closed: bool) -> None:
    """50 requests of 6 ms each, half of that to receive one: 147 ms, and 100 of the engine; then 3 ms for each."""
    prompt, output = np.full(50, 100, np.int32), np.full(50, 20, np.int32)
    work = users(50, 50, prompt, output) if closed else plain(np.zeros(50), prompt, output)
    times, batching = replica(0.006, 0.5)
    q = simulate(work, times, batching=batching, kv_bytes=1.0).requests
    assert (q["arrival"] == 0).all()
    assert np.sort(q["first"]) == pytest.approx(0.247 + 0.003 * np.arange(50))
    halves = simulate(work, times, batching=batching, kv_bytes=1.0, fleet=Fleet(replicas=2)).requests
    assert halves["first"].min() == pytest.approx(0.024 * 3 + 0.1)


def test_requests_that_come_apart_are_received_apart() -> None:
    come = np.array([0.0, 0.0, 0.0, 0.001, 0.5, 0.5, 2.0])
    assert reception_ends(come, 1, 0.1) == pytest.approx([0.2, 0.2, 0.2, 0.2, 0.6, 0.6, 2.0])
    assert reception_ends(come, 2, 0.1) == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.5, 0.5, 2.0])


def test_who_is_waited_for_has_his_first_token_with_his_last_at_the_latest() -> None:
    work = users(50, 100, np.full(100, 100, np.int32), np.full(100, 2, np.int32))
    times, batching = replica(0.05)
    q = simulate(work, times, batching=batching, kv_bytes=1.0).requests
    assert (q["first"] <= q["finish"]).all()
    waited = q["precedes"]
    free = simulate(work, times, batching=replica(0.0)[1], kv_bytes=1.0).requests
    assert q["finish"][waited] == pytest.approx(free["finish"][waited])
    assert with_servers(q, frontend=np.zeros(1), reception=np.zeros(1)) is q
