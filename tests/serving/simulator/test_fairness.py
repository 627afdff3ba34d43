"""Virtual token counters: equal service to those who always ask, none saved up, nothing taken from those who are alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.result import run_simulation
from rackmath.errors import InputError
from rackmath.serving.simulator import Arrivals, Batching, simulate
from tests.serving.simulator.test_against_reference import times

SEATS = 8


def overload(sizes: list[tuple[int, int]], counts: list[int], seed: int) -> Arrivals:
    """All requests of all classes at once: (prompt, answer) of each class, and how many it sends."""
    rank = np.repeat(np.arange(len(sizes)), counts).astype(np.int32)
    rank = np.random.default_rng(seed).permutation(rank)
    prompt, output = (np.array([size[i] for size in sizes], np.int32)[rank] for i in range(2))
    return Arrivals(arrival=np.arange(len(rank)) * 1e-6, prompt=prompt, output=output, rank=rank)


def service(work: Arrivals, requests: np.ndarray, until: float) -> list[float]:
    """Cost of the tokens that each class has had until a moment: answers are written evenly."""
    part = np.clip((until - requests["first"]) / np.maximum(requests["finish"] - requests["first"], 1e-12), 0, 1)
    written = np.where(requests["first"] <= until, 1 + (work.output - 1) * part, 0.0)
    cost = np.where(requests["admitted"] <= until, work.prompt, 0.0) + 2 * written
    return [float(cost[work.rank == k].sum()) for k in range(int(work.rank.max()) + 1)]


@settings(max_examples=25, deadline=None)
@given(
    long=st.integers(5, 60), answer=st.integers(2, 80), seed=st.integers(0, 100),
    weight=st.sampled_from([1.0, 2.0, 0.5]),
)  # fmt: skip
def test_two_who_always_ask_are_served_alike(long: int, answer: int, seed: int, weight: float) -> None:
    """The bound that the paper proves: twice the cost of a prompt, or of all that a batch holds, whichever is more."""
    sizes = [(20, 20), (long, answer)]
    work = overload(sizes, [300, 300], seed)
    batching = Batching(max_num_seqs=SEATS, max_num_batched_tokens=512, scheduling="vtc", class_weights=(1.0, weight))
    requests = simulate(work, times(SEATS, 512), batching=batching).requests
    most = max(p + a for p, a in sizes)
    bound = 2 * max(max(20.0, long), 2 * SEATS * most) * max(1.0, 1 / weight)
    # As long as both have requests that wait.
    ends = [float(requests["admitted"][work.rank == k].max()) for k in range(2)]
    for until in np.linspace(0, min(ends), 12)[1:]:
        one, other = service(work, requests, float(until))
        assert abs(one - other / weight) <= bound


def test_priority_and_order_of_arrival_are_not_fair() -> None:
    """What the counters are for: by arrival the class of long requests has most of the service."""
    work = overload([(20, 20), (60, 80)], [300, 300], 1)
    apart: dict[str, float] = {}
    for scheduling in ("priority", "vtc"):
        batching = Batching(max_num_seqs=SEATS, max_num_batched_tokens=512, scheduling=scheduling)
        requests = simulate(work, times(SEATS, 512), batching=batching).requests
        one, other = service(work, requests, 3.0)
        apart[scheduling] = abs(one - other)
    assert apart["vtc"] < 0.2 * apart["priority"]


def test_service_that_nobody_asked_for_is_not_saved_up() -> None:
    """A class that comes late shares from then on: it does not get all until it has had as much as the other."""
    early, late = np.zeros(400), np.full(200, 5.0)
    rank = np.repeat([0, 1], [400, 200]).astype(np.int32)
    work = Arrivals(
        arrival=np.concatenate([early, late]), prompt=np.full(600, 20, np.int32), output=np.full(600, 20, np.int32),
        rank=rank,
    )  # fmt: skip
    requests = simulate(
        work, times(SEATS, 512), batching=Batching(max_num_seqs=SEATS, max_num_batched_tokens=512, scheduling="vtc")
    ).requests
    among = (requests["admitted"] > 5.1) & (requests["admitted"] < 7.0)
    assert among.sum() > 20
    assert (rank[among] == 1).mean() == pytest.approx(0.5, abs=0.1)


def test_who_is_alone_is_served_as_if_nobody_counted() -> None:
    work = overload([(20, 20)], [200], 3)
    fast, counted = (
        simulate(
            work, times(SEATS, 512), batching=Batching(max_num_seqs=SEATS, max_num_batched_tokens=512, scheduling=name)
        ).requests
        for name in ("priority", "vtc")
    )
    assert (fast["finish"] == counted["finish"]).all()


ASKED = {"model": "llama-3.1-8b", "on": "h100-sxm", "gpus": 1, "poisson": 60.0, "input": 500, "output": 100,
         "requests": 2000, "no_evidence": True}  # fmt: skip


def test_the_report_has_what_each_class_saw() -> None:
    # Priority decides who waits for a seat: where nobody does, classes see the same.
    facts = run_simulation(SimulateRequest(**ASKED, max_num_seqs=64, classes="0.25,0.75")).to_dict()
    first, second = facts["classes"]
    assert first["requests"] + second["requests"] == 2000
    assert first["requests"] == pytest.approx(500, abs=80)
    assert first["time_to_first_token"]["p99"] < 0.1 * second["time_to_first_token"]["p99"]
    assert "classes" not in run_simulation(SimulateRequest(**ASKED)).to_dict()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"class_weights": "1,2"}, "--scheduling-policy vtc"),
        ({"scheduling_policy": "vtc", "class_weights": "1,2,3", "classes": "1,1"}, "2 numbers"),
        ({"scheduling_policy": "vtc", "class_weights": "1,0", "classes": "1,1"}, "--class-weights"),
        ({"scheduling_policy": "vtc", "policy": "static"}, "static"),
    ],
)
def test_weights_that_mean_nothing_are_refused(fields: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run_simulation(SimulateRequest(**ASKED, **fields))
