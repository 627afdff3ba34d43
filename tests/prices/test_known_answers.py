"""Figures of prices that no other test states: they notice mutants that lived (`tools/mutants.py`)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rackmath.caching.tiers import TierCost
from rackmath.errors import InputError
from rackmath.io import price_files
from rackmath.prices import decode, evidence, forward, page
from rackmath.prices.cost import usd_per_million_tokens
from rackmath.prices.decode import Offer, _normal_interval, _prior
from rackmath.prices.hypotheses import HELD
from rackmath.prices.importance import Draws
from rackmath.prices.market import FLOOR
from rackmath.prices.rational import two_tier
from rackmath.serving.token_costs import Demand


def test_a_million_tokens_cost_their_part_of_the_rent() -> None:
    """Eight accelerators at 3.6 $ an hour are 8 mills a second: 20 ms for 256 tokens."""
    step: Any = SimpleNamespace(time=0.02, gpus=8.0, tokens=256.0)
    assert usd_per_million_tokens(step, 3.6 / 3600) == pytest.approx(0.02 * 0.008 / 256 * 1e6)
    for price in (0.0, -1.0):
        with pytest.raises(InputError, match="price"):
            usd_per_million_tokens(step, price)


def test_writes_are_paid_for_five_minutes_or_an_hour() -> None:
    assert HELD == {page.WRITE: 5 * 60.0, page.WRITE_HOUR: 60 * 60.0}


def test_half_of_a_lognormal_quantity_lies_within_two_thirds_of_a_deviation() -> None:
    held = _normal_interval(np.log(2.5), 0.5)
    assert held.median == pytest.approx(2.5)
    assert (held.low50, held.high50) == pytest.approx((2.5 * np.exp(-0.3372449), 2.5 * np.exp(0.3372449)))
    assert (held.low90, held.high90) == pytest.approx((2.5 * np.exp(-0.8224268), 2.5 * np.exp(0.8224268)))


def test_sparse_models_lie_where_size_and_sparsity_agree() -> None:
    """Against the density of two correlated normal numbers by its matrix."""
    kind: Any = SimpleNamespace(active=2.0, active_deviation=0.5, sparsity=1.5, sparsity_deviation=0.8, correlation=0.6)
    market: Any = SimpleNamespace(level=0.0, level_scale=1.0)
    points = np.array([[2.4, 0.0, 2.1], [2.4, 0.0, 0.9], [1.7, 0.0, 1.5]])
    matrix = np.array([[0.5**2, 0.6 * 0.5 * 0.8], [0.6 * 0.5 * 0.8, 0.8**2]])
    away = points[:, [0, 2]] - [2.0, 1.5]
    expected = -0.5 * np.einsum("ij,jk,ik->i", away, np.linalg.inv(matrix), away)
    density = _prior(points, kind, market, sparse=True)
    assert density - density[0] == pytest.approx(expected - expected[0])
    assert density[0] > density[1]


def test_a_product_is_a_price_over_an_ideal_chip_s_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws of one certain model: 40 billion active parameters that are asked 0.9 $ per million tokens."""
    market = price_files.market()
    level = np.log(0.9) - (1 - market.economy) * np.log(40)
    point = np.array([[np.log(40.0), level, np.log(5.0)]])

    def certain(kind: Any, *_: Any) -> Draws:
        points = np.repeat(point[:, : 3 if kind.sparsity_deviation > 0 else 2], 5, axis=0)
        return Draws(points=points, weights=np.full(5, 0.2), log_evidence=0.0, effective=5.0, pareto_k=0.1)

    monkeypatch.setattr(decode, "_posterior", certain)
    decoded = decode.decode([Offer(model="m", provider="p", input=0.9, output=None)], market)
    assert decoded.active_params.median == pytest.approx(40e9)
    assert decoded.total_params.high90 == pytest.approx(200e9)
    assert decoded.product.median == pytest.approx(0.9 / (FLOOR * 40))


def test_ranges_are_of_the_finite_draws_and_their_weights() -> None:
    """Half of the weight says nothing: the rest is weighed as if it were all."""
    weights = np.array([0.1, 0.2, 0.2, 0.5])
    interval = evidence._interval(np.array([1.0, 3.0, 7.0, np.inf]), weights)
    assert interval is not None
    # Of the finite weight 0.1, 0.4 and 0.8 lie below the middles of the three.
    assert interval.median == pytest.approx(3 + 0.1 / 0.4 * 4)
    assert interval.low50 == pytest.approx(1 + 0.15 / 0.3 * 2)
    assert evidence._interval(np.full(4, np.inf), weights) is None


def test_two_tiers_are_weighed_by_tokens_that_are_read_and_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts of 1,000 tokens of which a quarter is found, answers of 50: 750 read, 50 written, at that context alone."""
    contexts = np.array([500.0, 1000.0, 4000.0])
    weights: list[Any] = []

    def noted(contexts: Any, costs: Any, tokens: Any) -> Any:
        weights.append(tokens)
        return two_tier(contexts, costs, tokens)

    monkeypatch.setattr(forward, "two_tier", noted)
    side = np.array([1.0, 1.1, 1.4])
    tiers = [TierCost(name="hbm", drain_time=0.03, hold=1e-9, retrieve=0.0, wait=0.0, accelerator_seconds=0.0)]
    costs = forward.CostCurve(
        contexts=contexts, input=side, input_low=side, input_high=side, output=2 * side, output_low=side, output_high=side
    )  # fmt: skip
    page_ = forward.rational_page(
        costs, Demand(prompt=1000.0, answer=50.0, hit=0.25), tiers, tiers, fast=None, batch=None
    )
    assert weights[0] == pytest.approx(np.array([[0.0, 750.0, 0.0], [0.0, 50.0, 0.0]]))
    assert page_.input == pytest.approx(1.1)
