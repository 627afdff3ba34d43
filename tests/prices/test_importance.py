"""Importance sampling against densities whose integral, mean and spread are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.errors import InputError
from rackmath.prices.importance import draw, pareto_shape, quantiles


@settings(max_examples=10, deadline=None)
@given(correlation=st.floats(-0.95, 0.95), scale=st.floats(0.05, 5.0), shift=st.floats(-3, 3))
def test_a_normal_density_comes_back(correlation: float, scale: float, shift: float) -> None:
    covariance = np.array([[1.0, correlation], [correlation, 1.0]]) * scale**2
    inverse = np.linalg.inv(covariance)

    def log_density(points):
        off = points - shift
        return -np.einsum("ij,jk,ik->i", off, inverse, off) / 2

    found = draw(log_density, np.zeros(2), np.full(2, 2.0))
    mean = found.weights @ found.points
    spread = (found.points - mean).T * found.weights @ (found.points - mean)
    assert found.effective >= 1e4
    assert found.pareto_k < 0.7
    assert mean == pytest.approx([shift, shift], abs=0.06 * scale)
    assert spread == pytest.approx(covariance, abs=0.06 * scale**2)
    exact = np.log(2 * np.pi) + np.log(np.linalg.det(covariance)) / 2
    assert found.log_evidence == pytest.approx(exact, abs=0.03)


def test_the_same_seed_gives_the_same_draws() -> None:
    def log_density(points):
        return -np.sum(points**2, axis=1) / 2

    first, second = (draw(log_density, np.zeros(1), np.ones(1)) for _ in range(2))
    assert np.array_equal(first.points, second.points)


def test_an_impossible_density_is_refused() -> None:
    with pytest.raises(InputError, match="impossible"):
        draw(lambda points: np.full(len(points), -np.inf), np.zeros(1), np.ones(1))


def test_weighted_quantiles_of_equal_weights_are_numpys() -> None:
    values = np.random.default_rng(1).normal(size=20_001)
    weights = np.full(len(values), 1 / len(values))
    at = np.array([0.05, 0.5, 0.9])
    assert quantiles(values, weights, at) == pytest.approx(np.quantile(values, at), abs=1e-3)


@pytest.mark.parametrize("shape", [0.2, 0.5, 1.0])
def test_the_tails_shape_of_pareto_weights_is_found(shape: float) -> None:
    uniform = np.random.default_rng(2).random(200_000)
    assert pareto_shape(uniform**-shape) == pytest.approx(shape, abs=0.12)
