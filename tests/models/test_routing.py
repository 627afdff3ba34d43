"""How tokens choose experts: chances that add up, distinct experts against drawing them, files of counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rackmath as rm
from rackmath.api.routing import counts_of, routing_of
from rackmath.errors import InputError
from rackmath.models.operators import distinct_experts
from rackmath.models.routing import GRID, Routing


@given(st.integers(2, 300), st.integers(1, 16), st.floats(0, 3))
def test_chances_add_up(experts: int, active: int, skew: float) -> None:
    active = min(active, experts)
    chance = Routing(skew=skew).chances(experts, active)[0]
    assert chance.sum() == pytest.approx(active)
    assert (chance <= 1).all()
    assert (np.diff(chance) <= 1e-12).all()
    below = chance < 1 - 1e-9
    ranks = np.arange(1, experts + 1)[below]
    if below.any():
        assert chance[below] * ranks**skew == pytest.approx((chance[below] * ranks**skew).mean())


@given(st.integers(2, 300), st.integers(1, 16), st.floats(1, 1e6))
def test_even_choices_are_the_lecture_s(experts: int, active: int, tokens: float) -> None:
    active = min(active, experts)
    expected = distinct_experts(experts, active, tokens)
    assert Routing().distinct(experts, active, tokens) == pytest.approx(expected, rel=4e-3, abs=1e-9)


@given(st.floats(0, 3), st.floats(0, 0.9), st.integers(1, 500))
def test_unlike_or_correlated_choices_touch_fewer(skew: float, correlation: float, tokens: int) -> None:
    even = Routing().distinct(64, 4, tokens)
    some = Routing(skew=skew, correlation=correlation).distinct(64, 4, tokens)
    assert 4 - 1e-6 <= some <= even + 1e-6


def test_distinct_against_drawing_them() -> None:
    """Tokens that choose each expert with a chance drawn from a beta distribution, whose correlation is as stated."""
    draw = np.random.default_rng(3)
    chance = Routing(skew=0.8).chances(32, 4)[0]
    for correlation in (0.05, 0.3):
        strength = 1 / correlation - 1
        drawn = draw.beta(chance * strength, (1 - chance) * strength, size=(40_000, 32))
        for tokens in (1, 8, 32):
            touched = (1 - (1 - drawn) ** tokens).sum(axis=1).mean()
            said = Routing(skew=0.8, correlation=correlation).distinct(32, 4, tokens)
            assert said == pytest.approx(touched, rel=0.01)


def test_arrays_and_numbers_agree() -> None:
    routing = Routing(skew=0.7, correlation=0.1)
    tokens = np.array([0.0, 1.0, 7.0, 100.0, 1e4])
    assert routing.distinct(128, 8, tokens) == pytest.approx([routing.distinct(128, 8, t) for t in tokens])
    assert (np.diff(routing.distinct(128, 8, GRID)) >= -1e-9).all()


def test_counts_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text("layer,expert,tokens\n0,0,10\n0,1,30\n1,1,5\n1,0,5\n")
    assert counts_of(path) == (10, 30, 5, 5)
    chances = Routing(counts=counts_of(path)).chances(2, 1)
    assert chances == pytest.approx(np.array([[0.25, 0.75], [0.5, 0.5]]))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("expert,tokens\n0,1\n2,1\n", "lacks experts"),
        ("expert,tokens\n0,1\n0,1\n", "twice"),
        ("expert,tokens\n0,many\n", "line 2"),
        ("expert,tokens\n", "no rows"),
        ("expert,tokens\n0,0\n1,0\n", "not all zero"),
        ("expert,tokens\n0,-1\n1,2\n", "none negative"),
        ("expert,tokens\n0,nan\n1,2\n", "none negative"),
        ("tokens\n1\n", "column expert"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "counts.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=reason):
        routing_of(None, str(path))


def test_counts_of_fewer_experts_than_a_token_meets_are_refused() -> None:
    with pytest.raises(InputError, match="each token goes to 2"):
        Routing(counts=(5.0, 0.0, 0.0, 0.0)).chances(4, 2)


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text("expert,tokens\n0,1\n1,1\n2,1\n")
    ask = {"batch": 8, "context": 1000}
    with pytest.raises(InputError, match="not both"):
        routing_of(0.5, str(path))
    with pytest.raises(InputError, match="has no experts"):
        rm.estimate("llama-3.1-8b", "h100-sxm", expert_skew=0.5, **ask)
    with pytest.raises(InputError, match="128 experts"):
        rm.estimate("qwen3-30b-a3b", "h100-sxm", expert_load=str(path), **ask)
    with pytest.raises(InputError, match="--expert-skew"):
        Routing(skew=9)
