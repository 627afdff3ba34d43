"""Users who wait for their answers before two pools."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.result import SimulateResult, run_simulation
from rackmath.api.simulation.setup import setup_of
from rackmath.errors import InputError
from rackmath.serving.simulator.graph import no_edges
from rackmath.serving.simulator.pools_in_loop import MOST_ROUNDS, in_loop


def simulated(users: int, requests: int, **more: Any) -> SimulateResult:
    fields: dict[str, Any] = {
        "model": "llama-3.1-8b", "on": "h100-sxm", "gpus": 3, "layout": "tp1", "prefill_gpus": 2,
        "prefill_layout": "tp1", "weights": "fp8", "input": 2000, "output": 100, "length_cv": 0.3, "no_evidence": True,
    }  # fmt: skip
    return run_simulation(SimulateRequest(**fields | {"users": users, "requests": requests} | more))


@pytest.mark.parametrize(("users", "think_time"), [(1, 0.0), (6, 0.0), (6, 1.0)])
def test_each_asks_again_when_his_answer_has_ended(users: int, think_time: float) -> None:
    run = simulated(users, 12 * users, think_time=think_time)
    sent, finish = run.outcomes[0].requests["arrival"], run.outcomes[1].requests["finish"]
    graph = run.setup.work.graph
    assert graph is not None
    assert sent[users:] == pytest.approx(np.sort(finish[graph.source] + graph.delay), abs=1e-5)
    # No more than so many requests are anywhere at a time.
    inside = [(sent + 1e-4 <= t).sum() - (finish < t).sum() for t in np.concatenate([sent + 1e-4, finish])]
    assert max(inside) == users or (think_time > 0 and max(inside) < users)
    facts = run.to_dict()
    assert facts["served_rate"] * (facts["latency"]["mean"] + think_time) == pytest.approx(users, rel=0.2)


def test_more_users_are_served_faster_up_to_what_is_read() -> None:
    rates = [simulated(users, 15 * users).to_dict()["served_rate"] for users in (1, 2, 8, 64)]
    assert rates[0] < rates[1] < rates[2] < rates[3]
    assert rates[1] == pytest.approx(2 * rates[0], rel=0.2)
    assert rates[3] < 32 * rates[0]


def test_equal_prefixes_are_read_once_in_either_order() -> None:
    """Three quarters of each prompt are in the cache from the second on, whoever comes first after a time of thought."""
    run, plain = (simulated(4, 48, think_time=2.0, cached_prefix=part) for part in (0.75, 0.0))
    assert run.to_dict()["hit_rate"]["hbm"] > 0.9
    assert run.ttft is not None
    assert plain.ttft is not None
    assert run.ttft.mean < 0.6 * plain.ttft.mean


def test_what_does_not_settle_or_takes_too_many_runs_is_refused(tmp_path) -> None:
    with pytest.raises(InputError, match=f"give at most {2 * MOST_ROUNDS}, or --poisson"):
        simulated(2, 2 * MOST_ROUNDS + 1)
    with pytest.raises(InputError, match="without --turns"):
        simulated(2, 20, turns=2)
    work = setup_of(
        SimulateRequest(model="llama-3.1-8b", on="h100-sxm", gpus=1, input=9, output=9, poisson=1, requests=3)
    ).work
    with pytest.raises(InputError, match="without --turns"):
        in_loop(work, lambda part: pytest.fail("nothing is run"))
    assert no_edges(3).in_order is False
