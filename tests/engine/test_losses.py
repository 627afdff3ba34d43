"""Losses: never faster than the bound, each term by a known answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath import catalogue
from rackmath.engine import Layout, Losses, estimate
from rackmath.engine.collectives import all_reduce
from rackmath.engine.constants import SCALES, Constants, Engine, inward, outward
from rackmath.engine.kernels import OUTSIDE, layer_kernels, pass_kernels
from rackmath.engine.losses import Load, operator_time, overlapped, reduction_time
from rackmath.engine.pass_work import LOSSES
from rackmath.errors import InputError
from rackmath.hardware import Link
from tests.conftest import make_system

PARTS = st.floats(0.05, 1.0)
PRODUCT = dict(rows=64.0, narrowness=0.0, scores=0.0, ranks=1.0, heat=1.0, activations=0.0)


@st.composite
def losses(draw) -> Losses:
    return Losses(
        stream=draw(PARTS),
        stream_byte=draw(PARTS),
        cache=draw(PARTS),
        latent=draw(PARTS),
        matmul=draw(PARTS),
        matmul_byte=draw(PARTS),
        grouped=draw(PARTS),
        attention=draw(PARTS),
        wire=draw(PARTS),
        rows=draw(st.floats(0, 100)),
        side=draw(st.floats(0, 1000)),
        launch=draw(st.floats(0, 1e-4)),
        host=draw(st.floats(0, 1e-2)),
        host_sequence=draw(st.floats(0, 1e-4)),
        imbalance=draw(st.floats(0, 2)),
        pieces=draw(st.sampled_from([0.0, 1.0])),
        software=draw(st.floats(1, 3)),
        reduction_latency=draw(st.floats(1, 20)),
        exchange_latency=draw(st.floats(1, 20)),
    )


@settings(max_examples=60, deadline=None)
@given(
    k=losses(),
    name=st.sampled_from(["llama-3.1-8b", "deepseek-v3", "gpt-oss-20b", "qwen3-next-80b-a3b"]),
    batch=st.integers(1, 2048),
    phase=st.sampled_from(["decode", "prefill", "train"]),
    tensor=st.sampled_from([1, 2, 8]),
)
def test_nothing_beats_the_bound_and_the_losses_add_up(
    k: Losses, name: str, batch: int, phase: str, tensor: int
) -> None:
    model = catalogue.model(name)
    e = estimate(model, make_system(), Layout(tensor=tensor), batch=batch, context=777, phase=phase, losses=k)
    assert e.time >= e.time_ideal * (1 - 1e-12)
    assert set(e.lost) == set(LOSSES)
    assert min(e.lost.values()) >= -1e-12 * e.time
    assert e.time_ideal + sum(e.lost.values()) == pytest.approx(e.time, rel=1e-12)


def test_a_wider_loss_never_makes_a_pass_faster(deepseek) -> None:
    system, layout = make_system(), Layout(expert=8, data=8)
    base = Losses(stream=0.8, matmul=0.6, wire=0.5, host=1e-3)
    usual = estimate(deepseek, system, layout, batch=64, context=2000, losses=base).time
    for change in (
        {"stream": 0.7},
        {"matmul": 0.3},
        {"wire_exchange": 0.4},
        {"touches": 1.0},
        {"host": 2e-3},
        {"imbalance": 0.1},
        {"latent": 0.5},
    ):
        assert estimate(deepseek, system, layout, batch=64, context=2000, losses=replace(base, **change)).time > usual


@given(a=st.floats(0, 1e3), b=st.floats(0, 1e3))
def test_overlap_lies_between_the_longer_and_the_sum(a: float, b: float) -> None:
    assert max(a, b) * (1 - 1e-12) <= overlapped(a, b) <= (a + b) * (1 + 1e-12)
    assert overlapped(3.0, 4.0) == pytest.approx(5.0)


def test_each_part_of_a_product_by_a_known_answer() -> None:
    base = dict(PRODUCT)
    assert operator_time("product", "wide", Load(1.0, 0.0, **base), Losses(matmul=0.5)) == pytest.approx(2.0)
    assert operator_time("product", "wide", Load(0.0, 1.0, **base), Losses(stream=0.25)) == pytest.approx(4.0)
    assert operator_time(
        "product", "byte", Load(1.0, 0.0, **base), Losses(matmul=0.5, matmul_byte=0.5)
    ) == pytest.approx(4)
    assert operator_time("product", "wide", Load(1.0, 0.0, **base), Losses(rows=64)) == pytest.approx(2.0)
    assert operator_time("experts", "wide", Load(1.0, 0.0, **base), Losses(rows=64)) == pytest.approx(1.0)
    assert operator_time("experts", "wide", Load(1.0, 0.0, **base), Losses(expert_rows=128)) == pytest.approx(3.0)
    assert operator_time("experts", "wide", Load(1.0, 0.0, **base), Losses(grouped=0.5)) == pytest.approx(2.0)
    narrow = {**base, "narrowness": 1 / 512 + 1 / 512}
    assert operator_time("product", "wide", Load(1.0, 0.0, **narrow), Losses(side=256)) == pytest.approx(2.0)
    hot = {**base, "heat": 1e12}
    assert operator_time("product", "wide", Load(1.0, 0.0, **hot), Losses(energy=1e-12)) == pytest.approx(2.0)
    spread = {**base, "ranks": 4.0}
    assert operator_time("experts", "wide", Load(1.0, 0.0, **spread), Losses(imbalance=0.4)) == pytest.approx(1.3)
    scores = {**base, "scores": 0.1}
    assert operator_time("attention", "wide", Load(0.0, 1.0, **scores), Losses(unfused=10)) == pytest.approx(2.0)
    between = {**base, "activations": 0.25}
    for kind in ("product", "experts", "recurrence"):
        # Moved twice more at half of the bandwidth, after the product itself.
        assert operator_time(kind, "wide", Load(1.0, 0.0, **between), Losses(touches=2, stream=0.5)) == pytest.approx(
            2.0
        )
    assert operator_time("attention", "wide", Load(1.0, 0.0, **between), Losses(touches=2)) == pytest.approx(1.0)
    assert operator_time("recurrence", "wide", Load(1.0, 0.0, **base), Losses(recurrence=0.1)) == pytest.approx(10.0)
    assert operator_time("recurrence", "wide", Load(0.0, 1.0, **base), Losses(recurrence=0.1)) == pytest.approx(1.0)


def test_reductions_in_pieces_by_a_search_over_the_pieces() -> None:
    """Two steps of m pieces: the model is their least time, and without pieces wire and latency add up."""
    for wire, latency in ((1e-3, 1e-6), (2e-5, 5e-6), (1e-6, 1e-6)):
        k = Losses(wire=0.5, reduction_latency=2.0, pieces=1)
        pieces = np.linspace(1, 100, 200_001)
        least = ((pieces + 1) * (latency * 2 + wire / 0.5 / pieces)).min()
        assert reduction_time(wire, latency, k) == pytest.approx(least, rel=1e-4)
        assert reduction_time(wire, latency, replace(k, pieces=0)) == pytest.approx(wire / 0.5 + latency * 2)
    with pytest.raises(InputError, match="pieces"):
        Losses(pieces=2)


def test_all_reduces_of_kernels_between_small_and_large() -> None:
    """Eight H100 in aiconfigurator's timings: 10.5 us for 0.5 MB, 230 GB/s on the bus at 4 MB, 418 at 64 MB."""
    system = catalogue.system("h100-sxm")
    free, instant = (
        replace(system, scale_up=Link(bandwidth=bandwidth, latency=latency))
        for bandwidth, latency in ((450e9, 0.0), (float("inf"), 3.5e-6))
    )
    k = Losses(wire=0.67, pieces=1)
    for size, measured in ((0.5e6, 10.5e-6), (4.2e6, 1.75 * 4.2e6 / 230e9), (67e6, 1.75 * 67e6 / 418e9)):
        found = reduction_time(all_reduce(size, 8, free), all_reduce(size, 8, instant), k)
        assert found == pytest.approx(measured, rel=0.15)


def test_scans_of_many_tokens_are_recurrences_and_cost_their_part() -> None:
    hybrid, plain = catalogue.model("qwen3-next-80b-a3b"), catalogue.model("llama-3.1-8b")
    for model, slower in ((hybrid, True), (plain, False)):
        times = [
            float(
                estimate(
                    model,
                    make_system(),
                    Layout(),
                    batch=1,
                    context=4096,
                    phase="prefill",
                    losses=Losses(recurrence=part),
                ).time
            )
            for part in (1.0, 0.01)
        ]
        assert (times[1] > times[0]) is slower


def test_dispatch_has_a_wire_of_its_own(deepseek) -> None:
    system, layout = make_system(link=1e9), Layout(expert=8, data=8)
    args = dict(batch=64, context=100)
    whole = estimate(deepseek, system, layout, **args, losses=Losses())
    exchanged = estimate(deepseek, system, layout, **args, losses=Losses(wire_exchange=0.5))
    reduced = estimate(deepseek, system, layout, **args, losses=Losses(wire=0.5))
    assert exchanged.lost["network"] == pytest.approx(float(whole.terms["communication"]), rel=1e-6)
    assert reduced.time == whole.time


def test_launches_and_host_add_their_seconds(llama) -> None:
    k = Losses(launch=1e-6, host=1e-3, host_sequence=1e-5)
    e = estimate(llama, make_system(), Layout(), batch=7, context=100, losses=k)
    assert e.lost["launches"] == pytest.approx(pass_kernels(llama) * 1e-6)
    assert e.lost["host"] == pytest.approx(1e-3 + 7e-5)


def test_a_llama_layer_launches_ten_kernels(llama, deepseek) -> None:
    # joined projection, rotation, attention in two, output, norm; gate and up, activation, down, norm
    assert layer_kernels(llama.layers[0]) == 10
    assert pass_kernels(llama) == 80 * 10 + OUTSIDE
    assert layer_kernels(deepseek.layers[-1]) > layer_kernels(deepseek.layers[0]) > 10


def test_half_the_wire_doubles_the_time_on_it(llama) -> None:
    system, layout = make_system(link=1e9), Layout(tensor=8)
    args = dict(batch=64, context=100)
    whole = estimate(llama, system, layout, **args, losses=Losses())
    half = estimate(llama, system, layout, **args, losses=Losses(wire=0.5))
    assert half.lost["network"] - whole.lost["network"] == pytest.approx(whole.terms["communication"], rel=1e-9)


def test_two_batches_hide_the_shorter_of_work_and_exchange(deepseek) -> None:
    system, layout = make_system(link=5e10), Layout(expert=8, data=8)
    args = dict(batch=4096, context=1000)
    plain = estimate(deepseek, system, layout, **args)
    hidden = estimate(deepseek, system, layout, **args, two_batch=1.0)
    local = sum(plain.terms[t] for t in ("compute", "weights", "cache", "activations"))
    saved = plain.time_ideal - hidden.time_ideal
    assert saved == pytest.approx(min(local, saved), rel=1e-9)
    assert 0 < saved <= min(local, plain.terms["communication"])


@pytest.mark.parametrize(
    ("field", "value"), [("stream", 1.2), ("matmul", 0.0), ("launch", -1e-6), ("software", 0.9), ("wire", float("nan"))]
)
def test_constants_that_would_beat_the_bound_are_refused(field: str, value: float) -> None:
    with pytest.raises(InputError, match=field):
        Losses(**{field: value})


@given(inner=st.floats(-20, 20), scale=st.sampled_from(["part", "positive", "factor"]))
def test_the_inner_scale_round_trips_and_stays_physical(inner: float, scale: str) -> None:
    value = outward(inner, scale)
    assert inward(value, scale) == pytest.approx(inner, abs=1e-5)
    assert {"part": 0 < value < 1, "positive": value > 0, "factor": value > 1}[scale]


def test_constants_move_by_generation_family_and_year() -> None:
    base = {name: 0.5 if scale == "part" else 1.5 for name, scale in SCALES.items()}
    c = Constants(base=base, moves={"host": {"vllm": 1.0, "hopper": 0.5}}, slopes={"host": {"": -1.0, "hopper": 0.25}})
    engine = Engine(generation="hopper", family="vllm", date=2026.5)
    assert c.value("host", engine) == pytest.approx(1.5 * np.exp(1.0 + 0.5 + 1 * (-1.0 + 0.25)))
    assert c.value("host", Engine(date=2025.5)) == pytest.approx(1.5)
    # A trend ends with the rows that it was seen in.
    ended = replace(c, latest=2026.0)
    assert (
        ended.value("host", Engine(date=2028))
        == c.value("host", Engine(date=2026))
        > c.value("host", Engine(date=2028))
    )
    assert Constants(base={}, moves={}, slopes={}).losses(engine) == Losses(basis="")


def test_verifying_drafts_reads_weights_once(llama) -> None:
    system = make_system()
    one = estimate(llama, system, Layout(), batch=1, context=10)
    four = estimate(llama, system, Layout(), batch=1, context=10, drafted=3)
    assert four.terms["weights"] == pytest.approx(one.terms["weights"], rel=1e-9)
    assert four.tokens == 4 * one.tokens


@settings(max_examples=40, deadline=None)
@given(shown=st.floats(0, 1), wire=st.floats(0.05, 1), matmul=st.floats(0.1, 1), tensor=st.sampled_from([2, 4, 8]))
def test_products_hide_collectives_of_training_as_far_as_they_last(
    shown: float, wire: float, matmul: float, tensor: int
) -> None:
    model, system, layout = catalogue.model("llama-3.1-8b"), make_system(), Layout(tensor=tensor)
    args = {"batch": 4, "context": 2048, "phase": "train"}
    apart = Losses(wire=wire, matmul=matmul)
    hidden, seen, half = (
        float(estimate(model, system, layout, **args, losses=replace(apart, shown=part)).time)
        for part in (0.0, 1.0, shown)
    )
    assert hidden <= half * (1 + 1e-12) <= seen * (1 + 2e-12)
    # Hidden wholly, a pass takes its work or its collectives, whichever is longer, but never less than the bound.
    bound = float(estimate(model, system, layout, **args).time)
    assert hidden >= bound * (1 - 1e-12)
    prompt = {**args, "phase": "prefill"}
    for part in (0.0, 1.0):
        same = estimate(model, system, layout, **prompt, losses=replace(apart, shown=part)).time
        assert same == estimate(model, system, layout, **prompt, losses=apart).time
