"""Importance sampling against densities whose integral, mean and spread are known."""

from __future__ import annotations

import math

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


@pytest.mark.filterwarnings("ignore")
def test_nested_sampling_finds_the_same_posterior_and_evidence() -> None:
    """Dynesty, an independent sampler, on the decoder's own density: sparse models, one offer."""
    dynesty = pytest.importorskip("dynesty", reason="an oracle of the tests only")
    from rackmath.io import price_files
    from rackmath.prices.market import log_prices, normal_log, student_log

    market = price_files.market()
    kind = market.sparse
    center = np.array([kind.active, market.level, kind.sparsity])
    spread = np.array([kind.active_deviation, market.level_scale, kind.sparsity_deviation])
    variance = np.asarray(market.hosts.scale**2 + market.hosts.offer_scale**2 + 0.1**2)

    def likelihood(points: np.ndarray) -> np.ndarray:
        active, level, sparsity = points.T
        zero = np.asarray(0.0)
        into, _ = log_prices(active, sparsity, zero, level, np.asarray(market.economy), np.asarray(market.chunk))
        return normal_log(np.log(0.6) - into, variance)

    def density(points: np.ndarray) -> np.ndarray:
        off = (points - center) / spread
        prior = -(off[:, [0, 2]] ** 2).sum(axis=1) / 2
        return likelihood(points) + prior + student_log(points[:, 1] - market.level, np.asarray(market.level_scale**2))

    ours = draw(density, center, spread)
    from scipy import stats

    laws = [stats.norm(c, s) for c, s in zip(center, spread, strict=True)]
    laws[1] = stats.t(4, market.level, market.level_scale)
    sampler = dynesty.NestedSampler(
        lambda point: float(likelihood(point[None, :])[0]),
        lambda cube: np.array([law.ppf(u) for law, u in zip(laws, cube, strict=True)]),
        3,
        nlive=400,
        rstate=np.random.default_rng(1),
    )
    sampler.run_nested(dlogz=0.1, print_progress=False)
    theirs = sampler.results
    weights = theirs.importance_weights()
    for place in range(3):
        at = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
        mine = quantiles(ours.points[:, place], ours.weights, at)
        other = quantiles(theirs.samples[:, place], weights, at)
        assert mine == pytest.approx(other, abs=0.2 * spread[place])
    # Ours leaves out the constants of the prior's densities.
    constants = np.log(2 * np.pi) + np.log(spread[[0, 2]]).sum()
    constants -= np.log(market.level_scale) + stats.t.logpdf(0.0, 4, 0, market.level_scale)
    assert ours.log_evidence - constants == pytest.approx(theirs.logz[-1], abs=4 * theirs.logzerr[-1] + 0.05)


def test_the_tails_shape_is_zhang_s_and_stephens_estimate() -> None:
    """Their equations (2009, section 3), written out one by one, on the largest of 900 weights."""
    weights = np.random.default_rng(5).random(900) ** -0.4
    largest = sorted(weights)[-90:]
    threshold = sorted(weights)[-91]
    excess = [value - threshold for value in largest]
    n = len(excess)
    grid = 30 + int(n**0.5)
    middle = excess[int(n / 4 + 0.5) - 1]
    theta = [1 / excess[-1] + (1 - (grid / (j - 0.5)) ** 0.5) / (3 * middle) for j in range(1, grid + 1)]

    def shape(at: float) -> float:
        return sum(math.log(1 - at * value) for value in excess) / n

    likelihood = [n * (math.log(-at / shape(at)) - shape(at) - 1) for at in theta]
    part = [1 / sum(math.exp(other - own) for other in likelihood) for own in likelihood]
    best = sum(at * weight for at, weight in zip(theta, part, strict=True))
    assert pareto_shape(weights) == pytest.approx(shape(best), rel=1e-9)
