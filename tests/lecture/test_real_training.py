"""The training column of the ledger: closed forms of the lecture against schedules, laws and memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.lecture import real_training
from rackmath.lecture.claims import claims
from rackmath.lecture.solve import evaluate


@given(stages=st.integers(1, 12), microbatches=st.integers(1, 24))
def test_the_schedule_waits_as_the_closed_form_says(stages: int, microbatches: int) -> None:
    closed = evaluate("pipeline-bubble", "bubble", P=stages, m=microbatches)
    assert real_training.bubble(stages, microbatches) == pytest.approx(closed, abs=1e-12)


@given(stages=st.integers(2, 12), hop=st.floats(0, 1e-2))
def test_a_token_goes_around_and_pays_every_hop(stages: int, hop: float) -> None:
    closed = evaluate("pipeline-latency", "t_token", t=20e-3, hops=stages, t_hop=hop)
    assert real_training.token_time(20e-3 / stages, stages, hop) == pytest.approx(closed)


def test_laws_and_memory() -> None:
    assert real_training.tokens_at_optimum(1e11) / 1e11 == pytest.approx(18.1, abs=0.05)
    ten, hundred = real_training.inference_over_pretraining()
    assert (ten, hundred) == pytest.approx((10**0.3658 - 1, 100**0.3658 - 1), rel=1e-6)
    assert real_training.overtraining_of_equal_costs() == pytest.approx(6.65, abs=0.01)
    low, high = real_training.overtraining()
    assert low < 2 < 180 < high < 1e4
    assert real_training.reversible_growth() == "constant"
    assert real_training.reversible_compute() == pytest.approx(4 / 3)


def test_the_ledger_takes_them() -> None:
    ledger = {claim.id: claim for claim in claims()}
    assert ledger["pipeline-bubble"].with_real_inputs == pytest.approx(3 / 7)
    assert ledger["chinchilla-tokens"].with_real_inputs == real_training.tokens_at_optimum(1e11)
    assert "6.7x" in ledger["equal-costs"].why
