"""Invariants of the engine, shares that sum to the whole, and limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.engine import Layout, Losses, estimate
from rackmath.engine.layout import as_floats, candidate_layouts
from rackmath.engine.pieces import CHUNK
from rackmath.engine.roofline import TERMS, local_pass, timed_operators
from rackmath.engine.sharding import memory, share
from rackmath.errors import DoesNotFit, InputError
from rackmath.io import catalogue
from rackmath.models.cache import cache_bytes
from rackmath.models.counts import multiplied_params, weight_bytes
from rackmath.models.formats import weight_format
from rackmath.models.operators import distinct_experts
from rackmath.models.requantise import requantise
from rackmath.prices import usd_per_million_tokens
from tests.conftest import make_system

NAMES = (
    "llama-3.1-8b",
    "deepseek-v3",
    "gpt-oss-120b",
    "gemma-3-27b",
    "nemotron-3-super",
    "deepseek-v4-flash",
    "qwen3-next-80b-a3b",
)
names = st.sampled_from(NAMES)
batches = st.integers(1, 5000)
contexts = st.integers(1, 200_000)
phases = st.sampled_from(["decode", "prefill"])


def run(name: str, batch: float, context: float, phase: str = "decode", system=None, layout: Layout | None = None):
    layout = layout or Layout(tensor=2)
    return estimate(catalogue.model(name), system or make_system(), layout, batch=batch, context=context, phase=phase)


@settings(max_examples=60, deadline=None)
@given(name=names, batch=batches, context=contexts, phase=phases, factor=st.floats(1, 10))
def test_time_never_rises_with_bandwidth_or_rate(
    name: str, batch: int, context: int, phase: str, factor: float
) -> None:
    slow = run(name, batch, context, phase)
    assert run(name, batch, context, phase, make_system(bandwidth=1e12 * factor)).time <= slow.time * (1 + 1e-12)
    assert run(name, batch, context, phase, make_system(rate=1e15 * factor)).time <= slow.time * (1 + 1e-12)
    assert run(name, batch, context, phase, make_system(link=1e11 * factor)).time <= slow.time * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(name=names, batch=batches, context=contexts, phase=phases, more=st.integers(1, 1000))
def test_time_never_falls_with_batch_or_context(name: str, batch: int, context: int, phase: str, more: int) -> None:
    if name == "llama-4-scout":  # chunked attention forgets at chunk borders
        return
    base = run(name, batch, context, phase)
    assert run(name, batch + more, context, phase).time >= base.time * (1 - 1e-12)
    assert run(name, batch, context + more, phase).time >= base.time * (1 - 1e-12)


@settings(max_examples=40, deadline=None)
@given(name=names, batch=batches, context=contexts, phase=phases)
def test_the_bounds_are_in_order_and_the_terms_add_up(name: str, batch: int, context: int, phase: str) -> None:
    e = run(name, batch, context, phase)
    assert e.time_overlapped <= e.time_ideal * (1 + 1e-12)
    assert sum(e.terms[t] for t in TERMS) == pytest.approx(e.time_ideal, rel=1e-12)
    assert e.terms[str(e.bound_by)] == max(e.terms.values())


@settings(max_examples=40, deadline=None)
@given(name=names, batch=batches, context=contexts, scale=st.floats(0.01, 100))
def test_time_scales_with_the_clock_of_the_whole_machine(name: str, batch: int, context: int, scale: float) -> None:
    base = make_system()
    faster = make_system(bandwidth=1e12 * scale, rate=1e15 * scale, link=1e11 * scale)
    ratio = run(name, batch, context, system=base).time / run(name, batch, context, system=faster).time
    assert ratio == pytest.approx(scale, rel=1e-9)


def test_decode_at_batch_one_reads_all_weights_of_a_dense_model(llama) -> None:
    e = estimate(llama, make_system(), Layout(), batch=1, context=0)
    size = weight_bytes(llama)
    read = sum(size.values()) - size["embedding"]
    assert e.terms["weights"] == pytest.approx(read / 1e12, rel=1e-9)


def test_prefill_of_a_long_prompt_is_bound_by_compute(llama) -> None:
    e = estimate(llama, make_system(bandwidth=1e13), Layout(), batch=8, context=4096, phase="prefill")
    body = 2 * multiplied_params(llama, head=False) * 8 * 4096
    attention = 80 * 2 * 64 * 256 * 4096 * 4097 / 2 * 8
    assert str(e.bound_by) == "compute"
    assert e.terms["compute"] == pytest.approx((body + attention + 2 * 128_256 * 8192 * 8) / 1e15, rel=1e-3)


def test_a_cached_prefix_saves_its_share_of_the_work(llama) -> None:
    whole = estimate(llama, make_system(), Layout(), batch=1, context=8192, phase="prefill")
    rest = estimate(llama, make_system(), Layout(), batch=1, context=8192, cached_tokens=4096, phase="prefill")
    again = estimate(llama, make_system(), Layout(), batch=1, context=4096, phase="prefill")
    assert again.time < rest.time < whole.time - again.time * 0.9
    assert rest.tokens == 4096


@pytest.mark.parametrize("name", NAMES)
def test_shares_of_memory_sum_to_the_model(name: str) -> None:
    model = catalogue.model(name)
    whole = memory(model, as_floats(Layout()), 4.0, 1000.0, 0.0, 1e15)
    total = sum(weight_bytes(model).values())
    assert whole.weights == pytest.approx(total, rel=1e-12)
    assert whole.cache == pytest.approx(4 * float(cache_bytes(model, 1000.0)), rel=1e-12)


def test_tensor_parallelism_divides_heads_and_replicates_what_has_none(deepseek, llama) -> None:
    def cache(model, tensor: float) -> float:
        return float(memory(model, as_floats(Layout(tensor=tensor)), 1.0, 1000.0, 0.0, 1e15).cache)

    # One latent serves all heads: every rank holds it. Llama's 8 groups divide to 8 ranks, then repeat.
    assert cache(deepseek, 8) == cache(deepseek, 1)
    assert cache(llama, 8) == cache(llama, 1) / 8
    assert cache(llama, 32) == cache(llama, 8)


def test_expert_parallelism_divides_experts_only(deepseek) -> None:
    def weights(layout: Layout) -> float:
        return float(memory(deepseek, as_floats(layout), 1.0, 1.0, 0.0, 1e15).weights)

    size = weight_bytes(deepseek)
    spread = weights(Layout(tensor=1, expert=64, data=64))
    assert spread == pytest.approx(sum(size.values()) - size["experts"] * 63 / 64, rel=1e-12)
    # 72 ranks: the fullest still holds 4 of 256 experts.
    assert weights(Layout(tensor=1, expert=72, data=72)) == spread


def test_one_sequence_on_many_groups_touches_as_few_experts_as_on_one(deepseek) -> None:
    def experts_read(batch: int) -> float:
        layout = as_floats(Layout(expert=64, data=64))
        work = local_pass("decode", float(batch), 100.0, 0.0, layout, None)
        timed = timed_operators(deepseek, work, layout, make_system(domain=64))
        per_expert = 4 / 64 * 653_908_770_816 / 256 * (1 + 4 / 128**2) / 1e12 / 4
        return sum(float(t.weights) for t in timed if t.operator.role == "experts") / per_expert

    for batch in (1, 3, 64, 6400):
        assert experts_read(batch) == pytest.approx(float(distinct_experts(256, 8, float(batch))), rel=1e-9)


def test_share_is_that_of_the_busiest_rank() -> None:
    assert share(256, 72.0) == 4 / 256
    assert share(8, 32.0) == 1 / 8
    assert share(None, 3.0) == pytest.approx(1 / 3)


def test_pipeline_stages_divide_weights_and_leave_the_cache(llama) -> None:
    system = make_system(domain=8)

    def run_stages(p: int):
        return estimate(llama, system, Layout(tensor=8, pipeline=p), batch=16 * p, context=4096).memory

    assert run_stages(4).cache == pytest.approx(run_stages(1).cache, rel=1e-12)
    layers = [run_stages(p).weights - run_stages(80).weights for p in (1, 2)]
    assert layers[1] < layers[0] / 1.9


def test_chunks_of_a_grid_give_what_single_points_give(deepseek, nvl72) -> None:
    batch = np.arange(1, CHUNK + 50)
    grid = estimate(deepseek, nvl72, Layout(tensor=1, expert=72, data=72), batch=batch, context=4096)
    for i in (0, 7, CHUNK - 1, CHUNK, CHUNK + 40):
        one = estimate(deepseek, nvl72, Layout(tensor=1, expert=72, data=72), batch=int(batch[i]), context=4096)
        for field in ("time", "time_overlapped", "tokens_per_second", "gpus"):
            assert np.broadcast_to(getattr(grid, field), batch.shape)[i] == pytest.approx(
                float(getattr(one, field)), rel=1e-12
            )
        assert grid.memory.total[i] == pytest.approx(float(one.memory.total), rel=1e-12)
        assert grid.bound_by[i] == one.bound_by


def test_layouts_broadcast_like_any_other_number(deepseek, nvl72) -> None:
    found = list(candidate_layouts(deepseek, 72))
    columns = {k: np.array([float(getattr(x, k)) for x in found]) for k in ("tensor", "expert", "pipeline", "data")}
    together = estimate(deepseek, nvl72, Layout(**columns), batch=720, context=4096)
    alone = [float(estimate(deepseek, nvl72, x, batch=720, context=4096).time) for x in found]
    np.testing.assert_allclose(together.time, alone, rtol=1e-12)


def test_narrow_weights_are_faster_and_smaller(llama) -> None:
    fp8 = requantise(llama, weights=weight_format("fp8"))
    system = make_system()
    wide, narrow = (estimate(m, system, Layout(), batch=1, context=100) for m in (llama, fp8))
    assert narrow.time < 0.6 * wide.time
    assert narrow.memory.weights < 0.6 * wide.memory.weights


def test_a_range_widens_the_estimate_and_never_beats_the_bound(llama) -> None:
    args = dict(batch=1, context=1)
    e = estimate(llama, make_system(), Layout(), **args, losses=Losses(software=2.0, low=0.75, high=2.0))
    assert (e.time / e.time_ideal, e.time_low / e.time, e.time_high / e.time) == pytest.approx((2, 0.75, 2), rel=1e-3)
    bold = estimate(llama, make_system(), Layout(), **args, losses=Losses(low=0.5, high=2.0))
    assert bold.time_low == bold.time_ideal
    with pytest.raises(InputError):
        Losses(low=1.5)


def test_cost_is_time_times_price_over_tokens(llama) -> None:
    e = estimate(llama, make_system(), Layout(tensor=4), batch=16, context=1)
    assert usd_per_million_tokens(e, 0.001) == pytest.approx(float(e.time) * 4 * 0.001 / 16 * 1e6, rel=1e-12)
    with pytest.raises(InputError):
        usd_per_million_tokens(e, 0.0)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"batch": 0}, "batch"),
        ({"batch": float("nan")}, "batch"),
        ({"context": -1}, "context"),
        ({"context": float("inf")}, "context"),
        ({"phase": "dream"}, "phase"),
        ({"cached_tokens": 5}, "cached_tokens"),
        ({"phase": "prefill", "context": 0}, "context"),
        ({"phase": "prefill", "cached_tokens": 100}, "cached_tokens"),
    ],
)
def test_numbers_out_of_range_are_refused_by_name(llama, change: dict[str, object], field: str) -> None:
    with pytest.raises(InputError) as caught:
        estimate(llama, make_system(), Layout(), **{"batch": 1, "context": 100, **change})  # type: ignore[arg-type]
    assert caught.value.field == field


def test_domains_without_a_network_between_them_are_refused(llama) -> None:
    lonely = replace(make_system(), scale_out=None)
    with pytest.raises(DoesNotFit, match="span more than one"):
        estimate(llama, lonely, Layout(tensor=8, data=2), batch=1, context=1)


def test_a_cache_cut_by_tokens_spares_decode_and_not_prompts(deepseek, nvl72) -> None:
    whole, cut = Layout(tensor=8, expert=8), Layout(tensor=8, expert=8, context_parallel=8)
    settings = {"batch": 64.0, "context": 50_000.0}
    decode = [estimate(deepseek, nvl72, x, **settings) for x in (whole, cut)]
    read = [
        sum(op.cache for op in timed_operators(deepseek, local_pass("decode", 64.0, 5e4, 0.0, x, None), x, nvl72))
        for x in (as_floats(whole), as_floats(cut))
    ]
    assert read[1] == pytest.approx(read[0] / 8)
    assert decode[1].memory.cache == pytest.approx(decode[0].memory.cache / 8)
    assert decode[1].terms["communication"] > decode[0].terms["communication"]
    prompts = [estimate(deepseek, nvl72, x, phase="prefill", **settings).time for x in (whole, cut)]
    assert prompts[0] == prompts[1]


def test_means_of_a_batch_are_interpolated_and_whole_batches_rounded_up() -> None:
    """A running batch of 1.5 is one for half of the time; nine sequences on eight groups put two on the fullest."""
    from rackmath.models.numbers import largest_part

    assert largest_part(9.0, 8.0) == 2
    assert largest_part(1.5, 1.0) == pytest.approx(1.5)
    assert largest_part(8.25, 8.0) == pytest.approx(1.25)
    assert list(largest_part(np.array([8.0, 8.5, 9.0]), 8.0)) == pytest.approx([1.0, 1.5, 2.0])
