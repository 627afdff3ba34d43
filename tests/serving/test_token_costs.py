"""Accelerator time of tokens: against closed forms on the lecture's model, and the engine itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.engine import Layout, estimate, parse_layout
from rackmath.errors import DoesNotFit, InputError
from rackmath.io import catalogue
from rackmath.models.totals import from_totals
from rackmath.serving.contexts import cost_against_context
from rackmath.serving.long_prompts import read_prompts
from rackmath.serving.token_costs import Demand, reading

H100 = catalogue.system("h100-sxm")
LLAMA = catalogue.model("llama-3.1-8b")


def test_a_long_prompt_costs_its_flops() -> None:
    """Without attention and losses: 2 N FLOP per token at the chip's rate."""
    model = from_totals("m", 8e9, 8e9, 1e3)
    found = reading(model, H100, [Layout()], np.array([50_000.0]), np.ones(1))
    assert found.seconds[0] == pytest.approx(2 * 8e9 / H100.chip.rate("bf16"), rel=1e-4)


def test_found_tokens_cost_nothing_but_their_attention() -> None:
    model = from_totals("m", 8e9, 8e9, 1e3)
    for hit in (0.0, 0.5, 0.9):
        found = reading(model, H100, [Layout()], np.array([100_000.0]), np.ones(1), hit=hit)
        assert found.seconds[0] == pytest.approx(2 * 8e9 / H100.chip.rate("bf16"), rel=1e-3)
    none, half = (
        reading(LLAMA, H100, [Layout()], np.array([60_000.0]), np.ones(1), hit=h).seconds[0] for h in (0, 0.5)
    )
    # A new token sees 30,000 tokens in the mean without hits, and 45,000 with half of them found.
    attention = 2 * 2 * len(LLAMA.layers) * 4096 / H100.chip.rate("bf16")
    assert half - none == pytest.approx(15_000 * attention, rel=0.01)


@given(length=st.floats(600, 8192), hit=st.floats(0, 0.9))
def test_reading_is_the_engine_s_time_over_new_tokens(length: float, hit: float) -> None:
    layout = parse_layout("tp2", 4, LLAMA)
    found = reading(LLAMA, H100, [layout], np.array([length]), np.ones(1), hit=hit)
    new = length * (1 - hit)
    many = max(np.floor(8192 / new), 1.0)
    step = estimate(LLAMA, H100, layout, batch=2 * many, context=length, cached_tokens=length - new, phase="prefill")
    assert found.seconds[0] == pytest.approx(float(step.time) * 4 / (2 * many * new), rel=1e-9)
    assert found.low[0] <= found.seconds[0] <= found.high[0]


@pytest.mark.parametrize(("text", "gpus", "batch"), [("tp2", 2, 1), ("tp1,dp4", 4, 8), ("pp4", 4, 1), ("pp4", 4, 4)])
@pytest.mark.parametrize("cached", [0, 12_000])
def test_a_long_prompt_takes_its_chunks_one_after_the_other(text: str, gpus: int, batch: int, cached: int) -> None:
    """Each chunk sees those before it; through stages every chunk but the first finds the pipeline full."""
    layout, length, chunk = parse_layout(text, gpus, LLAMA), 60_000, 4000
    whole = read_prompts(LLAMA, H100, layout, batch=batch, context=length, cached_tokens=cached, chunk=chunk)
    chunks = (length - cached) / chunk
    one_by_one = [
        float(
            estimate(LLAMA, H100, layout, batch=batch, context=seen + chunk, cached_tokens=seen, phase="prefill").time
        )
        for seen in range(cached, length, chunk)
    ]
    stages, own = float(layout.pipeline), min(batch / float(layout.data), float(layout.pipeline))
    full = own / (own + stages - 1)
    mean = float(np.mean(one_by_one))
    assert whole.time == pytest.approx((chunks * full + 1 - full) * mean, rel=0.002)
    assert whole.tokens == pytest.approx(batch * chunks * chunk)
    assert sum(whole.terms.values()) == pytest.approx(whole.time_ideal)
    last = estimate(LLAMA, H100, layout, batch=batch, context=length, cached_tokens=length - chunk, phase="prefill")
    assert whole.memory.total == pytest.approx(last.memory.total)


def test_a_short_prompt_is_one_pass() -> None:
    layout = parse_layout("tp2,pp2", 4, LLAMA)
    whole = read_prompts(LLAMA, H100, layout, batch=3.0, context=np.array([500.0, 8192.0]))
    one = estimate(LLAMA, H100, layout, batch=3.0, context=np.array([500.0, 8192.0]), phase="prefill")
    assert np.asarray(whole.time) == pytest.approx(np.asarray(one.time))
    assert np.asarray(whole.memory.total) == pytest.approx(np.asarray(one.memory.total))


def test_a_prompt_longer_than_its_activations_fit_is_read() -> None:
    """A million tokens of activations fill a box; a chunk of them does not."""
    model, system = catalogue.model("deepseek-v3"), catalogue.system("h200-sxm")
    layout = parse_layout("tp1,pp8", 8, model)
    whole = estimate(model, system, layout, batch=1, context=1e6, phase="prefill")
    assert not whole.memory.fits
    assert reading(model, system, [layout], np.array([1e6]), np.ones(1)).seconds[0] > 0


def test_the_cheapest_layout_is_taken_and_none_that_does_not_fit() -> None:
    lengths = np.array([4000.0])
    layouts = [parse_layout(text, 8, LLAMA) for text in ("tp8", "tp2", "tp1")]
    each = [reading(LLAMA, H100, [one], lengths, np.ones(1)).seconds[0] for one in layouts]
    assert reading(LLAMA, H100, layouts, lengths, np.ones(1)).seconds[0] == min(each)
    large = catalogue.model("llama-3.1-405b")
    with pytest.raises(DoesNotFit):
        reading(large, H100, [parse_layout("tp1", 8, large)], lengths, np.ones(1))
    with pytest.raises(DoesNotFit):
        reading(large, H100, [], lengths, np.ones(1))


@given(mean=st.floats(100, 50_000), spread=st.floats(0.05, 1.5))
def test_lengths_keep_the_mean_and_the_spread(mean: float, spread: float) -> None:
    lengths, parts = Demand(prompt=mean, answer=1.0, spread=spread).lengths()
    assert parts.sum() == pytest.approx(1.0)
    assert parts @ lengths == pytest.approx(mean, rel=0.02)
    # The fourth deviation ends the tail, so wide spreads lose a little of the second moment.
    assert parts @ lengths**2 / mean**2 == pytest.approx(np.exp(spread**2), rel=0.02 + 0.12 * spread**4)


def test_longer_prompts_than_are_taken_count_as_the_longest() -> None:
    lengths, parts = Demand(prompt=5000.0, answer=1.0, spread=1.0, longest=8000.0).lengths()
    assert lengths.max() == 8000.0
    assert parts.sum() == pytest.approx(1.0)
    assert Demand(prompt=5000.0, answer=600.0).context == 5300.0


def test_a_spread_next_to_none_is_none() -> None:
    """1e-320 divides to infinity: found by `tools/fuzz.py`, as a warning of ``prices cost --spread``."""
    contexts = np.array([500.0, 1000.0, 3000.0, 10_000.0])
    narrow, none = (Demand(prompt=2900.0, answer=1.0, spread=spread).parts(contexts) for spread in (1e-320, 0.0))
    assert narrow.tolist() == none.tolist() == [0, 0, 1, 0]


def test_all_requests_of_one_length_are_at_the_nearest_context() -> None:
    parts = Demand(prompt=2900.0, answer=1.0).parts(np.array([500.0, 1000.0, 3000.0, 10_000.0]))
    assert parts.tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize(
    "wrong", [{"prompt": 0.0}, {"answer": float("nan")}, {"hit": 1.0}, {"spread": -1.0}, {"longest": 10.0}]
)
def test_demand_that_is_none_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        Demand(**{"prompt": 1000.0, "answer": 100.0, **wrong})


def test_given_layouts_and_batches_are_the_ones_that_are_tried() -> None:
    contexts = np.array([2000.0, 8000.0])
    layout = parse_layout("tp4", 8, LLAMA)
    found = cost_against_context(LLAMA, H100, 8, contexts, slowest=1.0, layouts=[layout], batches=np.array([64.0]))
    step = estimate(LLAMA, H100, layout, batch=64.0, context=contexts)
    assert found.gpu_seconds == pytest.approx(np.asarray(step.time) * 8 / 64)
    assert found.layout == (layout.text(),) * 2
    assert np.all(found.low <= found.gpu_seconds)
    assert np.all(found.gpu_seconds <= found.high)
