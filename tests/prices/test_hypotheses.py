"""Hypotheses about ratios: each is the inverse of what it implies, and chances are chances."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.io import price_files
from rackmath.prices import hypotheses, page
from rackmath.prices.evidence import CELLS, ProviderHabits, cell, mass, read
from rackmath.prices.hypotheses import RatioContext, RatioDraws, stories
from rackmath.prices.importance import quantiles
from rackmath.prices.lists import PriceList, Rates
from rackmath.prices.market import RIDGE
from rackmath.prices.page import Listing, Ratio
from rackmath.prices.population import Population, population

MARKET = price_files.market()
MODELS = population(MARKET, draws=2000)


def listing(model: str, provider: str, output: float = 10.0, cached_input: float | None = 0.2) -> Listing:
    tier = Rates(input=2.0, cached_input=cached_input, write=None, write_hour=None, output=output)
    return Listing(prices=PriceList(model=model, provider=provider, tiers=(tier,)))


def told(kind: str, name: str, value: float, models: Population = MODELS, **more: float) -> RatioDraws:
    ratio = Ratio(kind=kind, value=value, start=more.pop("start", 0.0), stop=more.pop("stop", inf))
    asked = RatioContext(ratio=ratio, input=more.pop("input", 2.0), **more)
    return next(one for one in stories(asked, models) if one.hypothesis == name)


def one_model(place: int) -> Population:
    """A population of a single model."""
    arrays = {
        name: getattr(MODELS, name)[place : place + 1]
        for name in MODELS.__dataclass_fields__
        if isinstance(getattr(MODELS, name), np.ndarray)
    }
    return replace(MODELS, **arrays)


def truths(m: Population) -> dict[tuple[str, str], float]:
    """What each hypothesis should find again when a ratio is exactly as it foretells."""
    top = float(m.above[0])
    return {
        (page.OUTPUT, "weight reads"): RIDGE * m.sparsity[0] / m.read_out[0],
        (page.OUTPUT, "crossover"): m.context[0],
        (page.OUTPUT, "attention"): m.context[0],
        (page.INPUT_ABOVE, "attention"): 200e3 * 5**top,
        (page.OUTPUT_ABOVE, "crossover"): 200e3 * 5**top,
        (page.CACHED, "load or recompute"): m.link[0],
        (page.WRITE, "rent of HBM"): 2.35 / 80,
        (page.WRITE_HOUR, "rent of HBM"): 2.35 / 80,
        (page.WRITE_HOUR, "rent of flash"): 0.15 / (4 * 8766),
        ("batch", "full batches"): RIDGE * m.sparsity[0] / m.read_in[0],
        ("fast", "small batches"): RIDGE * m.sparsity[0] / m.read_out[0],
    }


@given(st.integers(0, 1999))
def test_what_a_ratio_implies_is_what_foretold_it(place: int) -> None:
    model = one_model(place)
    for (kind, name), truth in truths(model).items():
        more = {"speed": 1.3} if kind == "fast" else {}
        start = 200e3 if "above" in kind else 0.0
        foretold = float(told(kind, name, 1.5, model, start=start, **more).predicted[0])
        if not np.isfinite(foretold) or foretold == 1.0:
            continue
        again = told(kind, name, foretold, model, start=start, **more).implied
        assert again is not None
        # Rents near nothing vanish in a ratio near 1.
        close = 1e-6 + 1e-14 / abs(foretold - 1) if "rent" in name else 1e-6
        assert again[0] == pytest.approx(truth, rel=close), (kind, name)


@given(batch=st.floats(2, 1e4), sparsity=st.floats(1, 40), speed=st.floats(1.01, 5))
def test_speed_by_smaller_batches_by_brute_force(batch: float, sparsity: float, speed: float) -> None:
    """Step of B + r rho; its cost per token is that over B."""
    reads = RIDGE * sparsity
    small = (batch + reads) / speed - reads
    model = replace(one_model(0), sparsity=np.array([sparsity]), read_out=np.array([reads / batch]))
    said = float(told("fast", "small batches", 2.0, model, speed=speed).predicted[0])
    if small <= 1e-6 * batch:
        assert said > 1e4
    else:
        cost = (small + reads) / small / ((batch + reads) / batch)
        assert said == pytest.approx(cost, rel=1e-6)


def test_a_cached_token_costs_its_share_of_the_link_over_that_of_the_memory() -> None:
    """Keys and values that are read as long as weights are used, at 3.35 TB/s, come over a link of 30 GB/s."""
    model = replace(one_model(0), crossover=np.array([10.0]), utilisation=np.array([0.4]), link=np.array([30e9]))
    story = told(page.CACHED, "load or recompute", 5.0, model)
    assert story.predicted[0] == pytest.approx(0.4 * 3.35e12 / (10 * 30e9))
    assert story.implied is not None
    assert story.implied[0] == pytest.approx(0.4 * 3.35e12 / (10 * 5))


def test_the_lecture_s_crossover_comes_back() -> None:
    """100 B active parameters and a cliff at 200 k: 1.67 kB per token at a ridge of 300."""
    model = replace(one_model(0), active=np.array([100e9]))
    implied = told(page.CLIFF, "crossover", 200e3, model, start=200e3).implied
    assert implied is not None
    assert implied[0] * RIDGE / 300 == pytest.approx(1667, rel=1e-3)


def test_attention_takes_all_flops_that_the_weights_do_at_twice_its_context() -> None:
    """A cliff where the mean token's attention, half the prompt away, takes 2N FLOPs."""
    model = replace(one_model(0), active=np.array([30e9]))
    implied = told(page.CLIFF, "attention", 120e3, model, start=120e3).implied
    assert implied is not None
    assert implied[0] * 120e3 / 2 == pytest.approx(2 * 30e9)


def test_tiers_that_cost_the_same_imply_no_batch() -> None:
    assert told("fast", "small batches", 1.0, speed=1.5).implied is None
    assert told("batch", "full batches", 1.0).implied is None
    for kind, name, more, value in (
        ("fast", "small batches", {"speed": 1.5}, 1.01),
        ("batch", "full batches", {}, 0.99),
    ):
        implied = told(kind, name, value, **more).implied
        assert implied is not None
        assert np.isfinite(implied).all()


def test_a_fast_tier_without_a_claimed_speed_foretells_nothing() -> None:
    assert stories(RatioContext(ratio=Ratio(kind="fast", value=2.0), input=1.0), MODELS) == []
    assert stories(RatioContext(ratio=Ratio(kind="priority", value=2.0), input=1.0), MODELS) == []


def test_a_population_is_the_market_s() -> None:
    many = population(MARKET, draws=100_000)
    dense = many.sparsity == 1.0
    # No model multiplies a token by more than it stores.
    assert many.sparsity.min() == 1.0
    assert dense.mean() == pytest.approx(MARKET.dense.share, abs=0.01)
    assert np.median(np.log(many.active[dense] / 1e9)) == pytest.approx(MARKET.dense.active, abs=0.02)
    assert np.std(np.log(many.active[~dense])) == pytest.approx(MARKET.sparse.active_deviation, rel=0.02)
    sparse = replace(MARKET.sparse, sparsity=9.0, sparsity_deviation=0.5, correlation=0.8)  # far from stopping at 1
    alike = population(replace(MARKET, sparse=sparse), draws=100_000)
    kind = alike.sparsity > 1
    assert np.corrcoef(np.log([alike.active[kind], alike.sparsity[kind]]))[0, 1] == pytest.approx(0.8, abs=0.01)
    assert np.std(np.log(alike.sparsity[kind])) == pytest.approx(0.5, rel=0.02)
    assert np.median(np.log(many.sparsity[~dense])) == pytest.approx(MARKET.sparse.sparsity, abs=0.02)
    assert np.median(RIDGE * many.sparsity / many.read_out) == pytest.approx(np.exp(MARKET.batch), rel=0.02)
    assert np.median(many.cache) == pytest.approx(np.exp(MARKET.cache) / 2, rel=0.02)
    assert np.median(many.context) == pytest.approx(2900, rel=0.02)
    assert np.std(np.log(many.context)) == pytest.approx(1.0, rel=0.02)
    assert np.array_equal(many.active, population(MARKET, draws=100_000).active)


def test_a_dearer_model_is_a_larger_one() -> None:
    sizes = [quantiles(MODELS.active, MODELS.given(price), np.array([0.5]))[0] for price in (0.1, 1.0, 10.0)]
    assert sizes[0] < sizes[1] / 2 < sizes[2] / 4
    assert MODELS.given(1.0).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("kind", [page.OUTPUT, page.CACHED, page.CLIFF, "batch"])
def test_chances_of_all_cells_sum_to_one(kind: str) -> None:
    weights = np.full(2000, 1 / 2000)
    cells = range(30, 71) if kind == page.CLIFF else range(-30, 31)
    start = [Ratio(kind=kind, value=10 ** (at / CELLS), start=1.0) for at in cells]
    asked = [RatioContext(ratio=ratio, input=1.0) for ratio in start]
    story = stories(asked[0], MODELS)[0]
    inside = np.round(CELLS * np.log10(story.predicted))
    outside = np.mean((inside < min(cells)) | (inside > max(cells)))
    total = sum(mass(story, ratio, weights) for ratio in start)
    assert total == pytest.approx(1 - 0.99 * outside, abs=1e-9)
    habits = ProviderHabits([listing("a", "one"), listing("b", "two", 8.0), listing("c", "two", 4.0)])
    assert sum(habits.probability(ratio, "three", frozenset()) for ratio in start) == pytest.approx(1.0)


def test_round_prices_and_powers_of_two_fall_into_the_same_cells() -> None:
    assert cell(128e3) == cell(125e3)
    assert cell(256e3) == cell(272e3) == cell(250e3)
    assert len({cell(value) for value in (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)}) == 11


def test_providers_count_once_and_their_own_models_not_at_all() -> None:
    crowd = [listing(f"m{i}", "large", 10.0) for i in range(50)]
    habits = ProviderHabits([*crowd, listing("x", "small", 4.0), listing("m1", "copy", 10.0)])
    ten, four = Ratio(kind=page.OUTPUT, value=5.0), Ratio(kind=page.OUTPUT, value=2.0)
    even = 1 / 61
    assert habits.probability(ten, "new", frozenset()) == pytest.approx((2 + even) / 4)
    assert habits.probability(four, "new", frozenset()) == pytest.approx((1 + even) / 4)
    # A provider's habit is no evidence about itself, nor is a reseller of its models.
    mine = frozenset(f"m{i}" for i in range(50))
    assert habits.probability(ten, "large", mine) == pytest.approx(even / 2)


def test_factors_favour_the_truth_on_average() -> None:
    """Ratios that a hypothesis makes speak for it; ratios of others' habits speak against it."""
    weights = np.full(2000, 1 / 2000)
    random = np.random.default_rng(5)
    others = [listing(f"o{i}", f"p{i}", output=2 * 10 ** random.uniform(-0.05, 0.05)) for i in range(30)]
    habits = ProviderHabits(others)
    story = told(page.OUTPUT, "weight reads", 5.0)

    def factor(value: float) -> float:
        ratio = Ratio(kind=page.OUTPUT, value=value)
        return np.log(mass(story, ratio, weights) / habits.probability(ratio, "new", frozenset()))

    assert np.mean([factor(value) for value in random.choice(story.predicted, 200)]) > 1
    assert np.mean([factor(one.prices.tiers[0].output / 2) for one in others]) < -1


def test_a_reading_says_what_other_providers_print_and_what_it_would_mean() -> None:
    mine = listing("m", "me", cached_input=0.2)
    habits = ProviderHabits([mine, *(listing(f"o{i}", f"p{i}") for i in range(9))])
    found = {one.ratio.kind: one for one in read(mine, frozenset({"m"}), habits, MODELS, {})}
    cached_input = {e.hypothesis: e for e in found[page.CACHED].evidence}
    assert cached_input["convention"].probability == pytest.approx((9 + 1 / 61) / 10)
    assert cached_input["load or recompute"].log10_factor < -1
    weights = MODELS.given(2.0)
    truth = quantiles(told(page.CACHED, "load or recompute", 0.1).implied, weights, np.array([0.5]))[0]
    assert cached_input["load or recompute"].implied.median == pytest.approx(truth)


def test_the_crossover_misses_cliffs_of_open_models_by_orders_of_magnitude() -> None:
    """Half of all models have it below 2,000 tokens; no published cliff is below 32,000."""
    assert np.median(MODELS.crossover) < 3000
    assert np.mean(MODELS.crossover > 128e3) < 0.01
    assert pytest.approx(2.35 / 80) == hypotheses.HBM_RENT * 3600e9
