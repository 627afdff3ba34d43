"""First tokens pass a server one after another: as a queue that is stepped through says, and no answer ends before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.serving.simulator import Batching, StepTimes, simulate
from rackmath.serving.simulator.frontend import passed_on, with_servers
from rackmath.serving.simulator.workload import plain, users


def stepped(first: list[float], place: list[int], frontend: list[float]) -> list[float]:
    """One server per replica, each request in turn."""
    passed, free = [np.nan] * len(first), [-np.inf] * len(frontend)
    for i in sorted((i for i in range(len(first)) if np.isfinite(first[i])), key=lambda i: first[i]):
        r = place[i]
        passed[i] = max(first[i], free[r])
        free[r] = passed[i] + frontend[r]
    return passed


@given(
    requests=st.lists(
        st.tuples(st.one_of(st.just(float("nan")), st.floats(0, 10)), st.integers(0, 2)), min_size=1, max_size=40
    ),
    frontend=st.lists(st.sampled_from([0.0, 0.01, 1.0]), min_size=3, max_size=3),
)
def test_a_queue_by_its_formula_is_the_queue_stepped_through(
    requests: list[tuple[float, int]], frontend: list[float]
) -> None:
    first, place = [time for time, _ in requests], [r if np.isfinite(time) else -1 for time, r in requests]
    passed = passed_on(np.array(first), np.array(place, np.int32), np.array(frontend))
    assert passed == pytest.approx(stepped(first, place, frontend), nan_ok=True)


def replica(frontend: float) -> tuple[StepTimes, Batching]:
    times = StepTimes(
        base=np.concatenate([[0.0], np.full(64, 0.01)]), slope=np.zeros(65),
        prompt=np.concatenate([[0.0], np.full(8192, 0.1)]), pair=0.0, error=0.0,
    )  # fmt: skip
    return times, Batching(max_num_seqs=64, max_num_batched_tokens=8192, memory=1_000_000, frontend=frontend)


def test_a_burst_leaves_one_by_one_and_the_engine_is_none_the_slower() -> None:
    work = plain(np.zeros(50), np.full(50, 100, np.int32), np.full(50, 20, np.int32))
    alone, together = (
        simulate(work, *replica(h)[:1], batching=replica(h)[1], kv_bytes=1.0).requests for h in (0.0, 0.005)
    )
    assert np.ptp(alone["first"]) == 0
    assert np.sort(together["first"]) - alone["first"] == pytest.approx(0.005 * np.arange(50))
    assert (together["finish"] >= together["first"]).all()
    assert together["finish"] == pytest.approx(np.maximum(alone["finish"], together["first"]))


def test_who_is_waited_for_has_his_first_token_with_his_last_at_the_latest() -> None:
    work = users(50, 100, np.full(100, 100, np.int32), np.full(100, 2, np.int32))
    times, batching = replica(0.05)
    q = simulate(work, times, batching=batching, kv_bytes=1.0).requests
    assert (q["first"] <= q["finish"]).all()
    waited = q["precedes"]
    free = simulate(work, times, batching=replica(0.0)[1], kv_bytes=1.0).requests
    assert q["finish"][waited] == pytest.approx(free["finish"][waited])
    assert with_servers(q, np.zeros(1)) is q
