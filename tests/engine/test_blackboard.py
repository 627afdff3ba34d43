"""Under the lecture's assumptions the engine returns the blackboard's number."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rackmath.engine import Layout, estimate
from rackmath.engine.collectives import all_to_all
from rackmath.engine.layout import as_floats
from rackmath.engine.sharding import memory
from rackmath.hardware import Chip, Link, System
from rackmath.lecture.solve import evaluate
from rackmath.models.formats import cache_format, weight_format
from rackmath.models.totals import from_totals
from rackmath.prices import usd_per_million_tokens

EXACT = 1e-9
params = st.floats(1e9, 1e13)
batches = st.integers(1, 100_000)
contexts = st.integers(0, 1_000_000)
caches = st.floats(0, 1e6)
gpus = st.sampled_from([1, 2, 8, 64, 72])


def one(rate: float = 2e15, bandwidth: float = 4e12, capacity: float = 1e11, domain: int = 72) -> System:
    chip = Chip(
        name="lecture",
        vendor="none",
        year=2026,
        status="imagined",
        memory_capacity=capacity,
        memory_bandwidth=bandwidth,
        rates=(("bf16", rate), ("fp8", rate)),
    )
    up, out = Link(bandwidth=1e12), Link(bandwidth=1.25e11)
    return System(
        name="lecture", chip=chip, domain=domain, fabric="mesh", default_gpus=domain, scale_up=up, scale_out=out
    )


def lecture_model(total: float, active: float, kv: float):
    return from_totals("lecture", total, active, kv, weights=weight_format("fp8-pure"), cache=cache_format("fp8"))


@settings(max_examples=100, deadline=None)
@given(total=params, fraction=st.floats(0.001, 1), kv=caches, batch=batches, context=contexts, g=gpus)
def test_step_time_and_cost_are_the_lectures(total, fraction, kv, batch, context, g) -> None:
    model, system = lecture_model(total, fraction * total, kv), one()
    e = estimate(model, system, Layout(tensor=g), batch=batch, context=context)
    symbols = {
        "B": batch, "N_active": fraction * total, "C": g * 1e15, "N_total": total, "w": 1, "L": context, "kv": kv,
        "M": g * 4e12,
    }  # fmt: skip
    t = max(
        symbols["B"] * symbols["N_active"] / symbols["C"],
        (symbols["N_total"] * 1 + symbols["B"] * symbols["L"] * symbols["kv"]) / symbols["M"],
    )
    assert float(e.time_overlapped) == pytest.approx(t, rel=EXACT)
    cost = usd_per_million_tokens(e, 1e-3) * float(e.time_overlapped) / float(e.time)
    assert cost == pytest.approx(t / batch * g * 1e-3 * 1e6, rel=EXACT)


def test_the_solver_agrees_with_the_engine_on_a_step() -> None:
    model, system = lecture_model(8e11, 1e11, 2000), one()
    for batch, context in ((1, 0), (2400, 0), (2400, 200_000), (10_000, 8192)):
        e = estimate(model, system, Layout(tensor=72), batch=batch, context=context)
        t = evaluate(
            "step-time", "t", B=batch, N_active=1e11, C=72e15, N_total=8e11, w=1, L=context, kv=2000, M=72 * 4e12
        )
        assert float(e.time_overlapped) == pytest.approx(t, rel=EXACT)


def test_the_balance_batch_is_where_compute_meets_memory() -> None:
    model, system = lecture_model(8e11, 1e11, 0.0), one()
    balance = evaluate("balance-batch", "B_star", R=system.chip.ratio("fp8"), S=8)
    below, at, above = (
        estimate(model, system, Layout(tensor=72), batch=b, context=0) for b in (balance / 2, balance, 2 * balance)
    )
    assert float(below.time_overlapped) == pytest.approx(float(at.time_overlapped), rel=EXACT)
    assert float(above.time_overlapped) == pytest.approx(2 * float(at.time_overlapped), rel=EXACT)


def test_the_balance_batch_grows_with_context_as_solved() -> None:
    model, system = lecture_model(8e11, 1e11, 2000), one()
    found = evaluate(
        "balance-batch-context", "B_star", N_total=8e11, w=1, M=72 * 4e12, N_active=1e11, C=72e15, L=100_000, kv=2000
    )
    e = estimate(model, system, Layout(tensor=72), batch=found, context=100_000)
    assert float(e.time_overlapped) == pytest.approx(found * 1e11 / 72e15, rel=EXACT)


def test_the_latency_floor_and_the_weight_fetch_are_the_engines_at_batch_one() -> None:
    model, system = lecture_model(8e11, 1e9, 0.0), one()
    e = estimate(model, system, Layout(tensor=72), batch=1, context=0)
    assert float(e.time_overlapped) == pytest.approx(
        evaluate("weight-fetch", "t_floor", N_total=8e11, w=1, G=72, M_gpu=4e12), rel=EXACT
    )
    assert float(e.time_overlapped) == pytest.approx(
        evaluate("latency-floor", "t_floor", N_total=8e11, w=1, M=72 * 4e12), rel=EXACT
    )


@given(
    stages=st.sampled_from([1, 2, 4, 8]),
    width=st.sampled_from([1, 8, 64]),
    held=st.integers(1, 64),
    context=st.integers(1, 10**6),
)
def test_memory_per_gpu_is_the_lectures_with_full_pipelines(stages, width, held, context) -> None:
    # One pool is one layer; eight equal ones stand for the layers that stages divide.
    base = lecture_model(1e12, 1e11, 2000)
    model = base.__class__(
        name="x", hidden=1, vocabulary=0, layers=base.layers * 8, head=False, cache_format=base.cache_format
    )
    layout = as_floats(Layout(tensor=width, pipeline=stages))
    m = memory(model, layout, float(held * stages), float(context), 0.0, 1e15)
    by_lecture = evaluate(
        "pipeline-memory", "bytes_gpu", N_total=8e12, w=1, E_width=width, P=stages, B_micro=held, L=context, kv=8 * 2000
    )
    # The lecture's B_micro is what each stage works on; P of them are in flight and hold 1/P of the layers.
    assert float(m.weights + m.cache) == pytest.approx(by_lecture, rel=EXACT)


@given(racks=st.integers(2, 16))
def test_several_racks_are_slowed_as_the_lecture_says(racks) -> None:
    system = one(domain=72)
    inside = 1e12 / 1e12
    slow = float(all_to_all(1e12, 72.0 * racks, system))
    assume(slow > inside / racks)
    assert slow / inside == pytest.approx(evaluate("two-racks", "slowdown", n=racks, r=8), rel=EXACT)


def test_hardware_ratio_and_drain_time_are_the_records() -> None:
    chip = one().chip
    assert chip.ratio("fp8") == pytest.approx(evaluate("hardware-ratio", "R", F=2e15, M=4e12, w=1), rel=EXACT)
    assert chip.drain_time == pytest.approx(evaluate("drain-time", "t_drain", H=1e11, M=4e12), rel=EXACT)


def test_throughput_and_wait_follow_from_the_step() -> None:
    e = estimate(lecture_model(8e11, 1e11, 2000), one(), Layout(tensor=72), batch=2000, context=1000)
    assert float(e.tokens_per_second) == pytest.approx(evaluate("throughput", "X", B=2000, t=float(e.time)), rel=EXACT)


def test_a_long_pass_divides_what_it_fetches() -> None:
    # The lecture's time per token of a pass, with one sequence whose cache is read once.
    model, system = lecture_model(8e11, 1e11, 2000), one()
    e = estimate(model, system, Layout(tensor=72), batch=1, context=64, phase="prefill")
    t = evaluate(
        "pass-token-time",
        "t_token",
        N_active=1e11,
        C=72e15,
        N_total=8e11,
        w=1,
        B=1,
        L=64,
        kv=2000,
        M=72 * 4e12,
        L_pass=64,
    )
    assert float(e.time_overlapped) / 64 == pytest.approx(t, rel=EXACT)
