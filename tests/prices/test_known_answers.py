"""Figures of prices that no other test states: they notice mutants that lived (`tools/mutants.py`)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rackmath.errors import InputError
from rackmath.prices import page
from rackmath.prices.cost import usd_per_million_tokens
from rackmath.prices.decode import _normal_interval, _prior
from rackmath.prices.hypotheses import HELD


def test_a_million_tokens_cost_their_part_of_the_rent() -> None:
    """Eight accelerators at 3.6 $ an hour are 8 mills a second: 20 ms for 256 tokens."""
    step: Any = SimpleNamespace(time=0.02, gpus=8.0, tokens=256.0)
    assert usd_per_million_tokens(step, 3.6 / 3600) == pytest.approx(0.02 * 0.008 / 256 * 1e6)
    with pytest.raises(InputError, match="price"):
        usd_per_million_tokens(step, 0.0)


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
