"""What a context cliff says of a cache: against a grid, and at both ends."""

from __future__ import annotations

import numpy as np
import pytest

from rackmath.errors import InputError
from rackmath.io import price_files
from rackmath.prices.cliff import cache_from_cliff
from rackmath.prices.decode import Offer, decode
from rackmath.prices.importance import quantiles
from rackmath.prices.market import RIDGE

MARKET = price_files.market()
HALF = np.array([0.5])


def test_a_known_model_with_a_cliff_by_a_grid() -> None:
    """Active parameters known: crossover says one cache; its chance is the prior's mass of the cliff's cell."""
    active = np.full(4000, np.log(70e9))
    cliff = 4000.0
    found = cache_from_cliff(cliff, active, np.full(4000, 1 / 4000), MARKET)
    grid = np.linspace(MARKET.cache - 9 * MARKET.cache_scale, MARKET.cache + 9 * MARKET.cache_scale, 400_001)
    density = np.exp(-(((grid - MARKET.cache) / MARKET.cache_scale) ** 2) / 2)
    density /= density.sum()
    stands = np.log10(2 * 70e9 / (RIDGE * np.exp(grid)))
    inside = density[np.abs(stands - np.log10(cliff)) < 0.05].sum()
    assert found.crossover == pytest.approx(inside / (inside + 0.1 / 4), rel=0.01)
    mixed = found.logs < np.log(2 * 70e9 / (RIDGE * cliff)) + 1e-9
    below = (1 - found.crossover) * density[grid < np.log(2 * 70e9 / (RIDGE * cliff))].sum() + found.crossover
    assert found.weights[mixed].sum() == pytest.approx(below, abs=0.02)
    assert found.weights.sum() == pytest.approx(1.0)


def test_a_cliff_far_from_any_crossover_leaves_the_prior() -> None:
    offer = [Offer(model="m", provider="p", input=0.1, output=0.4)]
    plain, far, near = (decode(offer, MARKET, cliff=cliff) for cliff in (None, 5e6, 1500.0))
    assert far.kv_bytes_per_token.median == pytest.approx(plain.kv_bytes_per_token.median, rel=0.06)
    assert far.active_params == plain.active_params == near.active_params
    spans = [np.log(one.kv_bytes_per_token.high90 / one.kv_bytes_per_token.low90) for one in (plain, near)]
    assert spans[1] < 0.9 * spans[0]
    said = [line for line in near.cannot_tell if "cliff" in line]
    assert len(said) == 1
    assert not any("cliff" in line for line in plain.cannot_tell)


def test_a_longer_cliff_means_a_smaller_cache() -> None:
    active = np.log(30e9) + 0.5 * np.random.default_rng(1).standard_normal(4000)
    sizes = []
    for cliff in (1000.0, 4000.0, 16_000.0):
        found = cache_from_cliff(cliff, active, np.full(4000, 1 / 4000), MARKET)
        crossed = found.logs[:4000]
        sizes.append(float(np.exp(quantiles(crossed, np.full(4000, 1 / 4000), HALF)[0])))
    assert sizes[0] == pytest.approx(4 * sizes[1])
    assert sizes[1] == pytest.approx(4 * sizes[2])


@pytest.mark.parametrize("cliff", [0.0, -1.0, 999.0, 1e8, float("nan")])
def test_a_cliff_that_is_none_is_refused(cliff: float) -> None:
    with pytest.raises(InputError, match="cliff"):
        decode([Offer(model="m", provider="p", input=1.0)], MARKET, cliff=cliff)
