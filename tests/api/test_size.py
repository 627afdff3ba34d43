"""The fewest accelerators: searched as a brute scan would, checked one below and one above."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rackmath
from rackmath.api.plan_question import PlanRequest, question_of
from rackmath.api.simulation.copies import Copies
from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.result import run_simulation
from rackmath.api.size import run_size
from rackmath.cli.size_text import show_size
from rackmath.errors import DoesNotFit, InputError

QUESTION: dict[str, Any] = {
    "model": "llama-3.1-8b",
    "on": "h100-sxm",
    "input": 1000,
    "output": 100,
    "no_evidence": True,
}
LIMITS = {("ttft", "p99"): 1.0}


class Counted(Copies):
    """Copies whose time to first token is known: ``need / copies``."""

    need: ClassVar[int] = 1
    asked: ClassVar[list[int]] = []

    def facts(self, count: int, end: int | None = None) -> dict[str, Any]:
        self.asked.append(count)
        return {"time_to_first_token": {"p99": self.need / count}}


@given(st.integers(1, 500), st.integers(1, 500), st.integers(1, 500))
def test_the_search_is_that_of_a_scan(need: int, start: int, most: int) -> None:
    Counted.need, Counted.asked = need, []
    copies = Counted(request=PlanRequest(**QUESTION), point={}, boxes=1, rate=1.0)
    assert copies.fewest(start, LIMITS, most) == (need if need <= most else 0)
    assert all(1 <= count <= most for count in Counted.asked)
    assert len(Counted.asked) <= 40


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    return run_size(PlanRequest(**QUESTION, rate=200, ttft_p99=0.5, tpot_p95=0.03)).facts


def test_one_copy_less_does_not_keep_the_limits(facts: dict[str, Any]) -> None:
    assert all(row["kept"] for row in facts["chosen"]["limits"])
    assert facts["smaller"] is None or not all(row["kept"] for row in facts["smaller"]["limits"])
    assert all(row["kept"] for row in facts["larger"]["limits"])
    assert facts["accelerators"] == facts["copies"] * facts["accelerators_per_copy"]
    assert facts["accelerators"] % 8 == 0
    assert [row["percentile"] for row in facts["chosen"]["limits"]] == ["p99", "p95"]


def test_the_headline_counts_all_units_of_a_box(facts: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """A box of eight holds several units: all of them are named, not the one that is copied."""
    d = facts["deployment"]
    show_size(facts)
    text = " ".join(capsys.readouterr().out.split())
    assert d["units"] > 1
    assert f"{facts['copies'] * d['units']:.0f} x ({d['layout']})" in text


def test_its_range_and_what_would_change_it(facts: dict[str, Any]) -> None:
    low, high = facts["accelerators_range"]
    assert low <= facts["accelerators"]
    assert high is None or high >= facts["accelerators"]
    for row in facts["chosen"]["limits"]:
        assert row["range"][0] <= row["value"] * (1 + 1e-9)
        assert row["range"][1] >= row["value"] * (1 - 1e-9)
    assert all(row["accelerators"] <= facts["accelerators"] for row in facts["changes"])


def test_the_answer_is_what_the_simulator_says() -> None:
    """The same fleet, set up by hand."""
    facts = run_size(PlanRequest(**QUESTION, rate=200, ttft_p99=0.5, tpot_p95=0.03, one_pool=True)).facts
    d = facts["deployment"]
    max_num_seqs = d["max_num_seqs"]
    result = run_simulation(
        SimulateRequest(
            model="llama-3.1-8b",
            on="h100-sxm",
            gpus=facts["accelerators"],
            layout=d["layout"],
            weights=d["weights"],
            kv=d["kv"],
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=max(d["chunk"], max_num_seqs),
            poisson=200.0,
            input=1000.0,
            output=100.0,
            length_cv=0.0,
            requests=12_000,
        )
    )
    assert result.ttft is not None
    assert result.tpot is not None
    first, per_token = facts["chosen"]["limits"]
    assert first["value"] == pytest.approx(result.ttft.p99)
    assert per_token["value"] == pytest.approx(result.tpot.p95)
    assert first["range"] == pytest.approx(list(result.ttft.p99_range or ()))


def test_the_bound_has_no_range() -> None:
    """No engine, no ends of its range: both are the answer, which is no more than an engine needs."""
    limits = {"rate": 200, "ttft_p99": 0.5, "tpot_p95": 0.03, "one_pool": True}
    bound, engine = (run_size(PlanRequest(**QUESTION, **limits, ideal=ideal)).facts for ideal in (True, False))
    assert bound["accelerators_range"] == [bound["accelerators"]] * 2
    assert bound["accelerators"] <= engine["accelerators"]
    for row in bound["chosen"]["limits"]:
        assert row["range"] == [row["value"]] * 2


def test_more_requests_take_more(facts: dict[str, Any]) -> None:
    twice = run_size(PlanRequest(**QUESTION, rate=800, ttft_p99=0.5, tpot_p95=0.03)).facts
    assert twice["accelerators"] > facts["accelerators"]
    assert twice["accelerators"] <= 5 * facts["accelerators"]


def test_most_are_kept_or_refused() -> None:
    with pytest.raises(DoesNotFit):
        run_size(PlanRequest(**QUESTION, rate=5000, gpus=8, ttft_p99=0.5))


def test_python_says_the_same(facts: dict[str, Any]) -> None:
    work = rackmath.Workload(input=1000, output=100, rate=200)
    result = rackmath.size("llama-3.1-8b", "h100-sxm", work, ttft_p99=0.5, tpot_p95=0.03, no_evidence=True)
    assert result.facts["accelerators"] == facts["accelerators"]
    assert result.picture().panels[0].series


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ttft_p99": 1}, "--rate"),
        ({"rate": 10}, "--ttft-p99"),
        ({"rate": 10, "gpus": 8, "usd_per_hour": 5}, "not both"),
    ],
)
def test_bad_input_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        run_size(PlanRequest(**(QUESTION | changes)))


def test_a_budget_pays_whole_boxes() -> None:
    """2.95 $ an hour each: 100 $ pay 33, of which four boxes of 8; 10 $ pay three of a box."""
    price = question_of(PlanRequest(**QUESTION, gpus=8)).price
    assert price is not None
    for budget, accelerators in ((100.0, 32), (10.0, 3)):
        assert int(budget / 3600 / price) in (33, 3)
        assert question_of(PlanRequest(**QUESTION, usd_per_hour=budget)).space.gpus == accelerators
    assert question_of(PlanRequest(**QUESTION, **{"usd_per_hour": "100$/h", "bill_used": True})).space.gpus == 33
    with pytest.raises(InputError, match="per hour"):
        question_of(PlanRequest(**QUESTION, usd_per_hour=1.0))
    with pytest.raises(InputError, match="--gpus"):
        question_of(PlanRequest(**QUESTION))
