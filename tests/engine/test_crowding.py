"""Experts on the fullest rank: against draws, and where the answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath import catalogue
from rackmath.engine import Layout, Losses, estimate
from rackmath.engine.crowding import fullest_rank
from rackmath.models.operators import distinct_experts
from tests.conftest import make_system


@pytest.mark.parametrize(
    ("experts", "active", "ranks"), [(256, 8, 8), (256, 8, 32), (128, 4, 8), (8, 2, 4), (512, 10, 64)]
)
@pytest.mark.parametrize("tokens", [2, 4, 16, 64])
def test_fullest_rank_is_that_of_draws(experts: int, active: int, ranks: int, tokens: int) -> None:
    draw = np.random.default_rng(tokens)
    touched = np.zeros((600, experts), dtype=bool)
    for trial in touched:
        for _ in range(tokens):
            trial[draw.permutation(experts)[:active]] = True
    on_rank = touched.reshape(600, ranks, -1).sum(axis=2)
    drawn = on_rank.max(axis=1).mean() / on_rank.mean()
    part = float(distinct_experts(experts, active, tokens)) / experts
    assert fullest_rank(experts, part, ranks) == pytest.approx(drawn, rel=0.12)


@given(
    experts=st.sampled_from([8, 64, 160, 256]),
    touched=st.floats(1e-3, 1),
    ranks=st.sampled_from([1, 2, 4, 8, 16, 32]),
)
def test_fullest_rank_lies_between_the_mean_and_all(experts: int, touched: float, ranks: int) -> None:
    found = float(fullest_rank(experts, touched, ranks))
    held = -(-experts // ranks)
    assert 1 <= found <= max(held, 1) / (held * touched) * (1 + 1e-9)
    if ranks == 1:
        assert found == 1


def test_one_rank_or_all_experts_leave_nothing_to_chance() -> None:
    assert fullest_rank(256, 0.1, 1) == 1
    assert fullest_rank(256, 1.0, 32) == 1
    assert fullest_rank(256, 0.1, 8) > fullest_rank(256, 0.5, 8) > fullest_rank(256, 0.9, 8) > 1
    assert fullest_rank(256, 0.1, 16) > fullest_rank(256, 0.1, 8)


def test_small_batches_on_expert_ranks_wait_for_the_fullest() -> None:
    """Eight ranks, four tokens: a mean rank reads 3.8 experts of a layer, the fullest 6.5; sliced experts do not care."""
    model, system = catalogue.model("deepseek-v3"), make_system()
    times = {}
    for name, layout in (("dealt", Layout(tensor=8, expert=8)), ("sliced", Layout(tensor=8, expert=1))):
        for chance in (0.0, 1.0):
            e = estimate(model, system, layout, batch=4, context=100, losses=Losses(chance=chance))
            times[name, chance] = float(e.time)
            if name == "dealt" and chance:
                assert float(e.lost["imbalance"]) == pytest.approx(e.time - times[name, 0.0])
    assert 1.2 < times["dealt", 1.0] / times["dealt", 0.0] < 1.7
    assert times["sliced", 1.0] == times["sliced", 0.0]
