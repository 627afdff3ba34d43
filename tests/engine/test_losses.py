"""Losses: never faster than the bound, each term by a known answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.engine import Layout, Losses, estimate
from rackmath.engine.collectives import all_reduce
from rackmath.engine.constants import Constants, EngineVersion, inward, outward
from rackmath.engine.kernel_curves import KernelCurve, KernelLoad, Kernels, KernelSeconds, overlapped
from rackmath.engine.kernels import OUTSIDE, layer_kernels, pass_kernels
from rackmath.engine.losses import Factors, factors_of, kernel_time, reduction_time
from rackmath.engine.pass_work import LOSSES
from rackmath.engine.term import FACTOR, LOG, PART
from rackmath.engine.terms import OF_LOSSES, TERM, TERMS
from rackmath.errors import InputError
from rackmath.hardware import Link
from rackmath.io import catalogue, kernel_files
from rackmath.models.operator import Pass
from rackmath.models.operators import operators
from rackmath.serving.engines import remote
from tests.conftest import make_system

PARTS = st.floats(0.05, 1.0)
IDEAL = Losses().factors


@st.composite
def curves(draw) -> KernelCurve:
    return KernelCurve(
        part=draw(PARTS),
        stream=draw(PARTS),
        floor=draw(st.floats(0, 1e-4)),
        rows=draw(st.floats(0, 100)),
        side=draw(st.floats(0, 1000)),
        depth=draw(st.floats(0, 1e-8)),
        matrix=draw(st.floats(0, 1e-6)),
    )


@st.composite
def losses(draw) -> Losses:
    kinds = ("product.wide", "product.byte", "experts.byte", "attention.decode", "latent.prompt", "other")
    return Losses(
        kernels=Kernels(
            curves={kind: draw(curves()) for kind in kinds},
            wire=draw(PARTS),
            wire_exchange=draw(PARTS),
            reduction_latency=draw(st.floats(1, 20)),
            exchange_latency=draw(st.floats(1, 20)),
            pieces=draw(st.sampled_from([0.0, 1.0])),
        ),
        # Rows may find kernels faster than timings of other chips say: the bound still holds.
        compute=draw(st.floats(0.1, 3)),
        memory=draw(st.floats(0.1, 3)),
        network=draw(st.floats(0.1, 3)),
        exchange=draw(st.floats(0.1, 3)),
        launch=draw(st.floats(0, 1e-4)),
        started=draw(st.floats(0, 1e-4)),
        host=draw(st.floats(0, 1e-2)),
        host_sequence=draw(st.floats(0, 1e-4)),
        imbalance=draw(st.floats(0, 2)),
        software=draw(st.floats(1, 3)),
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

    def time(curve=("product.byte", 0.6), **changes) -> float:
        kernels = Kernels(
            curves={curve[0]: KernelCurve(part=0.6, stream=curve[1])}, wire_exchange=changes.pop("wire", 0.5)
        )
        k = Losses(kernels=kernels, host=1e-3, compute=1.2, memory=1.2, exchange=1.2, **changes)
        return float(estimate(deepseek, system, layout, batch=64, context=2000, losses=k).time)

    usual = time()
    assert time(curve=("product.byte", 0.5)) > usual
    assert time(wire=0.4) > usual
    for change in ({"touches": 1.0}, {"imbalance": 0.1}, {"routing": 1e-5}, {"launch": 1e-6}, {"grouped": 1.1}):
        assert time(**change) > usual, change


@given(a=st.floats(0, 1e3), b=st.floats(0, 1e3))
def test_overlap_lies_between_the_longer_and_the_sum(a: float, b: float) -> None:
    assert max(a, b) * (1 - 1e-12) <= overlapped(a, b) <= (a + b) * (1 + 1e-12)
    assert overlapped(3.0, 4.0) == pytest.approx(5.0)


LOAD = KernelLoad(compute=1.0, memory=0.0, rows=64.0, narrowness=0.0, launches=1.0, depth=0.0, matrices=0.0)


@pytest.mark.parametrize(
    ("curve", "load", "seconds"),
    [
        (KernelCurve(part=0.5), {}, 2.0),
        (KernelCurve(stream=0.25), {"compute": 0.0, "memory": 1.0}, 4.0),
        (KernelCurve(rows=64), {}, 2.0),
        (KernelCurve(side=256), {"narrowness": 1 / 512 + 1 / 512}, 2.0),
        (KernelCurve(floor=0.5), {"launches": 3.0}, 2.5),
        (KernelCurve(depth=1e-3), {"depth": 500.0}, 1.5),
        (KernelCurve(matrix=0.1), {"matrices": 8.0}, 1.8),
        (KernelCurve(part=0.5, stream=0.5), {"compute": 1.5, "memory": 2.0}, 5.0),
    ],
)
def test_each_constant_of_a_kernel_by_a_known_answer(curve: KernelCurve, load: dict, seconds: float) -> None:
    assert curve.seconds(LOAD._replace(**load)).total == pytest.approx(seconds)


def test_each_factor_of_an_engine_by_a_known_answer() -> None:
    found = KernelSeconds(fixed=1.0, compute=3.0, memory=4.0, least=0.0)

    def time(kind: str, scores: float = 0.0, ranks: float = 1.0, **changes: float) -> float:
        return float(kernel_time(kind, 0.0, found, scores, ranks, IDEAL._replace(**changes)))

    assert time("product.wide") == pytest.approx(6.0)
    assert time("product.wide", compute=2.0, memory=2.0) == pytest.approx(11.0)
    assert time("product.wide", fixed=3.0) == pytest.approx(8.0)
    assert time("product.wide", grouped=9.0, touches=9.0) == pytest.approx(6.0)
    assert time("experts.byte", grouped=2.0) == pytest.approx(11.0)
    assert time("experts.byte", narrow=2.0) == time("product.nibble", narrow=2.0) == pytest.approx(6.0)
    for kind in ("experts.nibble", "experts.expanded", "experts.codebook"):
        assert time(kind, narrow=2.0) == pytest.approx(11.0)
        assert time(kind, narrow=2.0, grouped=2.0) == pytest.approx(21.0)
    assert time("experts.byte", ranks=4.0, imbalance=4 / 9) == pytest.approx(1 + np.hypot(4.0, 4.0))
    assert time("attention.prompt", prompt_attention=2.0) == pytest.approx(11.0)
    assert time("attention.decode", prompt_attention=2.0) == pytest.approx(6.0)
    assert time("attention.decode", scores=0.5, unfused=8.0) == pytest.approx(1 + np.hypot(3.0, 8.0))
    assert time("other", touches=1.0) == pytest.approx(1 + np.hypot(3.0, 8.0))
    assert time("other.train", touches=1.0) == pytest.approx(6.0)
    assert kernel_time("product.wide", 0.0, found, 0.0, 1.0, IDEAL._replace(sustained=2.0), 1.0) == pytest.approx(
        1 + 52**0.5
    )
    assert time("product.wide", sustained=2.0) == pytest.approx(6.0)
    assert time("other.train", train_touches=1.0) == pytest.approx(1 + np.hypot(3.0, 8.0))
    # Faster than the largest part of a peak, or than the roofline, is not to be had.
    bounded = found._replace(least=2.0)
    assert kernel_time("product.wide", 0.0, bounded, 0.0, 1.0, IDEAL._replace(compute=0.1)) == pytest.approx(
        1 + np.hypot(2.0, 4.0)
    )
    assert KernelCurve(part=0.5, most=0.8).seconds(LOAD._replace(compute=1.2)).least == pytest.approx(1.5)
    assert kernel_time("product.wide", 10.0, found, 0.0, 1.0, IDEAL) == 10.0


@pytest.mark.parametrize("kind", ["product.wide", "experts.byte", "attention.prompt", "attention.decode", "other"])
def test_factors_of_a_kind_are_all_that_move_it(kind: str) -> None:
    found, usual = KernelSeconds(1.0, 3.0, 4.0, 0.0), IDEAL
    scores = 0.1 * kind.startswith("attention")
    base = kernel_time(kind, 0.0, found, scores, 4.0, usual, 1.0)
    for name in Factors._fields:
        moved = kernel_time(kind, 0.0, found, scores, 4.0, usual._replace(**{name: getattr(usual, name) + 0.5}), 1.0)
        assert bool(moved != base) is (name in factors_of(kind)), name


def test_products_of_one_input_are_one_kernel(llama) -> None:
    work = Pass(phase="decode", sequences=4.0, new_tokens=1.0, context=100.0)
    named = [op.kernel for op in operators(llama, work)]
    assert named.count("0.self_attn.qkv") == 3
    assert named.count("0.mlp.gate_up") == 2
    times = [
        float(estimate(llama, make_system(), Layout(), batch=4, context=100, losses=Losses(kernels=launching(t))).time)
        for t in (0.0, 1e-3)
    ]
    # Of each of 80 layers: joined projection, output, gate and up, down; and the head.
    assert times[1] - times[0] == pytest.approx((80 * 4 + 1) * 1e-3, rel=1e-9)


def launching(floor: float) -> Kernels:
    return Kernels(
        curves={f"product.{width}": KernelCurve(floor=floor) for width in ("wide", "byte", "nibble", "expanded")}
    )


def test_experts_of_a_layer_are_one_kernel_that_reads_each_of_them(deepseek) -> None:

    def added(layout: Layout) -> float:
        def time(matrix: float) -> float:
            k = Losses(kernels=Kernels(curves={f"experts.{w}": KernelCurve(matrix=matrix) for w in ("wide", "byte")}))
            return float(estimate(deepseek, make_system(), layout, batch=1 << 14, context=1, losses=k).time)

        return time(1e-6) - time(0.0)

    # All 256 experts of 58 layers are met; a rank that holds an eighth of them reads an eighth, slices are read by all.
    assert added(Layout(tensor=8)) == pytest.approx(58 * 256e-6, rel=1e-3)
    assert added(Layout(expert=8, data=8)) == pytest.approx(58 * 32e-6, rel=1e-3)


def test_reductions_in_pieces_by_a_search_over_the_pieces() -> None:
    """Two steps of m pieces: the model is their least time, and without pieces wire and latency add up."""
    for wire, latency in ((1e-3, 1e-6), (2e-5, 5e-6), (1e-6, 1e-6)):
        k = Kernels(wire=0.5, reduction_latency=2.0, pieces=1)
        pieces = np.linspace(1, 100, 200_001)
        least = ((pieces + 1) * (latency * 2 + wire / 0.5 / pieces)).min()
        assert reduction_time(wire, latency, k) == pytest.approx(least, rel=1e-4)
        assert reduction_time(wire, latency, replace(k, pieces=0)) == pytest.approx(wire / 0.5 + latency * 2)


def test_all_reduces_of_kernels_between_small_and_large() -> None:
    """Eight H100 in aiconfigurator's timings: 8.4 us for 64 KB, 20.9 us for 2 MB, 577 us for 134 MB."""
    system = catalogue.system("h100-sxm")
    assert system.scale_up is not None
    free, instant = (
        replace(system, scale_up=Link(bandwidth=bandwidth, latency=latency))
        for bandwidth, latency in ((system.scale_up.bandwidth, 0.0), (float("inf"), system.scale_up.latency))
    )
    k = kernel_files.kernels(system.chip, "vllm")
    for size, measured in ((2 * 2**20, 20.9e-6), (8 * 2**20, 60e-6), (128 * 2**20, 577e-6)):
        found = reduction_time(all_reduce(size, 8, free), all_reduce(size, 8, instant), k)
        assert found == pytest.approx(measured, rel=0.2)


def test_dispatch_has_a_wire_of_its_own(deepseek) -> None:
    system, layout = make_system(link=1e9), Layout(expert=8, data=8)
    args = dict(batch=64, context=100)
    whole = estimate(deepseek, system, layout, **args, losses=Losses())
    exchanged = estimate(deepseek, system, layout, **args, losses=Losses(kernels=Kernels(wire_exchange=0.5)))
    reduced = estimate(deepseek, system, layout, **args, losses=Losses(kernels=Kernels(wire=0.5)))
    assert exchanged.lost["network"] == pytest.approx(float(whole.terms["communication"]), rel=1e-6)
    assert reduced.time == whole.time


def test_launches_and_host_add_their_seconds(llama) -> None:
    k = Losses(launch=1e-6, host=1e-3, host_sequence=1e-5)
    e = estimate(llama, make_system(), Layout(), batch=7, context=100, losses=k)
    assert e.lost["launches"] == pytest.approx(pass_kernels(llama) * 1e-6)
    assert e.lost["host"] == pytest.approx(1e-3 + 7e-5)


def test_gaps_inside_grouped_products_are_in_their_timings(deepseek) -> None:
    """58 layers of experts, of each of which five kernels were timed as one."""
    e = estimate(deepseek, make_system(), Layout(), batch=8, context=1000, losses=Losses(launch=1e-6))
    assert e.lost["launches"] == pytest.approx((pass_kernels(deepseek) - 58 * 5) * 1e-6)


def test_a_llama_layer_launches_ten_kernels(llama, deepseek) -> None:
    # joined projection, rotation, attention in two, output, norm; gate and up, activation, down, norm
    assert layer_kernels(llama.layers[0]) == 10
    assert pass_kernels(llama) == 80 * 10 + OUTSIDE
    assert layer_kernels(deepseek.layers[-1]) > layer_kernels(deepseek.layers[0]) > 10


def test_a_host_that_starts_kernels_one_by_one_is_waited_for(llama) -> None:
    """Without a graph a step takes at least the host's time to start all kernels; long kernels hide it."""
    args = dict(batch=1, context=100)
    busy = float(estimate(llama, make_system(), Layout(), **args, losses=Losses()).time)
    slow = estimate(llama, make_system(), Layout(), **args, losses=Losses(started=2 * busy / pass_kernels(llama)))
    assert slow.time == pytest.approx(2 * busy)
    quick = estimate(llama, make_system(), Layout(), **args, losses=Losses(started=0.5 * busy / pass_kernels(llama)))
    assert quick.time == pytest.approx(busy)


def test_layers_of_experts_take_their_routing(deepseek, llama) -> None:
    args = dict(batch=1, context=100, losses=Losses(routing=1e-5))
    assert estimate(deepseek, make_system(), Layout(), **args).lost["launches"] == pytest.approx(58e-5)
    assert estimate(llama, make_system(), Layout(), **args).lost["launches"] == 0


def test_each_expert_adds_to_its_layer(deepseek) -> None:
    """58 layers of 256 experts, and 32 of 8."""
    args = dict(batch=1, context=100, losses=Losses(routing_expert=1e-9))
    assert estimate(deepseek, make_system(), Layout(), **args).lost["launches"] == pytest.approx(58 * 256e-9)
    mixtral = catalogue.model("mixtral-8x7b")
    assert estimate(mixtral, make_system(), Layout(), **args).lost["launches"] == pytest.approx(32 * 8e-9)


def test_blocks_that_were_timed_as_a_whole_have_no_gaps_and_no_hidden_starts() -> None:
    """Attention of DeepSeek-V3.2 was timed with its projections: 13 of the kernels of each of its 61 layers."""
    model = catalogue.model("deepseek-v3.2")
    args = dict(batch=8, context=1000)
    gaps = estimate(model, make_system(), Layout(), **args, losses=Losses(launch=1e-6)).lost["launches"]
    assert gaps == pytest.approx((pass_kernels(model) - 58 * 5 - 61 * 13) * 1e-6)
    floors = Kernels(curves={"sparse.decode": KernelCurve(floor=1e-4), "product.byte": KernelCurve(floor=1e-5)})
    # Starts hide behind ends of products, not of a block.
    times = [
        float(estimate(model, make_system(), Layout(), **args, losses=Losses(kernels=floors, fixed=fixed)).time)
        for fixed in (1.0, 0.5, 0.0)
    ]
    without = float(estimate(model, make_system(), Layout(), **args, losses=Losses()).time)
    assert times[0] - times[1] == pytest.approx(times[1] - times[2])
    assert times[2] - without == pytest.approx(61 * 1e-4, rel=1e-6)


def test_an_engine_without_kernel_timings_has_a_factor_on_its_steps() -> None:
    c = Constants(base={"own_kernels": 1.2}, moves={"own_kernels": {"atom": np.log(2.0)}})
    assert c.losses(EngineVersion(family="atom"), Kernels()).own_kernels == pytest.approx(1.4)
    assert c.losses(EngineVersion(family="unheard of"), Kernels()).own_kernels == pytest.approx(1.2)
    assert c.losses(EngineVersion(family="vllm"), Kernels()).own_kernels == 1
    system, layout, model = make_system(), Layout(), catalogue.model("llama-3.1-8b")
    args = dict(batch=1, context=100)
    plain, longer = (
        estimate(model, system, layout, **args, losses=Losses(host=1e-3, software=s, own_kernels=u)).time
        for s, u in ((1.0, 1.0), (1.5, 1.2))
    )
    assert longer == pytest.approx(1.8 * float(plain))


def test_half_the_wire_doubles_the_time_on_it(llama) -> None:
    system, layout = make_system(link=1e9), Layout(tensor=8)
    args = dict(batch=64, context=100)
    whole = estimate(llama, system, layout, **args, losses=Losses())
    half = estimate(llama, system, layout, **args, losses=Losses(kernels=Kernels(wire=0.5)))
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
    ("field", "value"), [("launch", -1e-6), ("software", 0.9), ("shown", 1.1), ("host", float("nan"))]
)
def test_constants_that_would_beat_the_bound_are_refused(field: str, value: float) -> None:
    with pytest.raises(InputError, match=field):
        Losses(**{field: value})


@pytest.mark.parametrize(("field", "value"), [("stream", 1.2), ("part", 0.0), ("floor", -1e-6), ("rows", float("inf"))])
def test_curves_that_would_beat_the_roofline_are_refused(field: str, value: float) -> None:
    with pytest.raises(InputError, match=field):
        KernelCurve(**{field: value})


@given(inner=st.floats(-20, 20), scale=st.sampled_from([PART, LOG, FACTOR]))
def test_the_inner_scale_round_trips_and_stays_physical(inner: float, scale: str) -> None:
    value = outward(inner, scale)
    assert inward(value, scale) == pytest.approx(inner, abs=1e-5)
    assert {PART: 0 < value < 1, LOG: value > 0, FACTOR: value > 1}[scale]


def test_constants_move_by_generation_and_family() -> None:
    c = Constants(base={"host": 1.5}, moves={"host": {"vllm": 1.0, "hopper": 0.5}})
    assert c.value("host", EngineVersion(generation="hopper", family="vllm")) == pytest.approx(1.5 * np.exp(1.5))
    assert c.value("host", EngineVersion(generation="tpu")) == pytest.approx(1.5)
    assert c.value("host", EngineVersion(generation="tpu"), step=0.25) == pytest.approx(1.5 * np.exp(0.25))
    assert c.value("compute", EngineVersion()) == TERM["compute"].absent
    assert c.losses(EngineVersion(), Kernels()).software == 1


def test_without_constants_kernels_alone_take_time() -> None:
    """What multiplies a time is 1; what adds to it, or is a part of it, is nothing."""
    values = {name: Constants(base={}, moves={}).value(name, EngineVersion()) for name in TERM}
    factors = "compute memory fixed grouped narrow prompt_attention sustained network exchange software own_kernels"
    assert {name for name, value in values.items() if value == 1} == set(factors.split())
    assert {name for name, value in values.items() if value == 0} == set(TERM) - set(factors.split())


def test_a_prior_has_its_centre_where_its_scale_is_defined() -> None:
    for term in TERM.values():
        assert {PART: 0 < term.centre < 1, LOG: term.centre > 0, FACTOR: term.centre > 1}[term.scale]


def test_only_early_enablement_multiplies_whole_steps() -> None:
    c = Constants(base={"software": 1.1}, moves={"software": {"immature": np.log(3.0)}})
    assert c.losses(EngineVersion(stage="immature"), Kernels()).software == pytest.approx(1.3)
    assert (
        c.losses(EngineVersion(stage="balanced"), Kernels()).software
        == c.losses(EngineVersion(), Kernels()).software
        == 1
    )


def test_graphs_and_fused_kernels_are_facts_of_an_engine_and_its_date() -> None:
    c = Constants(base={"dispatch": 4e-5, "unfused": 9.0}, moves={})
    assert c.losses(EngineVersion(eager=True), Kernels()).started == pytest.approx(4e-5)
    assert c.losses(EngineVersion(), Kernels()).started == 0
    assert c.losses(EngineVersion(unfused=True), Kernels()).unfused == pytest.approx(9.0)
    assert c.losses(EngineVersion(), Kernels()).unfused == 0


def test_workers_are_called_one_by_one_in_the_engines_of_a_time() -> None:
    c = Constants(base={"remote": 7e-3, "remote_sequence": 3e-4}, moves={})
    early, late = (c.losses(EngineVersion(remote=flag), Kernels()) for flag in (True, False))
    assert (early.remote, early.remote_sequence) == (pytest.approx(7e-3), pytest.approx(3e-4))
    assert (late.remote, late.remote_sequence) == (0, 0)
    assert remote("vllm", 2023.9)
    assert not remote("vllm", 2024.1)
    assert not remote("sglang", 2023.9)


@pytest.mark.parametrize(
    ("layout", "groups"), [(Layout(), 0), (Layout(tensor=2), 1), (Layout(data=4), 0), (Layout(pipeline=2), 1)]
)
def test_a_step_of_several_workers_waits_for_the_calls(layout: Layout, groups: int) -> None:
    """64 sequences in a stage: 7 ms and 0.3 ms for each, in place of nothing."""
    a, system = catalogue.model("llama-3.1-8b"), catalogue.system("h100-sxm")

    def seconds(k: Losses) -> float:
        batch = 64 * layout.data * layout.pipeline
        return float(np.asarray(estimate(a, system, layout, batch=batch, context=512.0, losses=k).time))

    local = seconds(Losses())
    assert seconds(Losses(remote=7e-3, remote_sequence=3e-4)) - local == pytest.approx(groups * (7e-3 + 64 * 3e-4))


def test_one_table_names_every_constant_once() -> None:
    assert len({t.name for t in TERMS}) == len(TERMS)
    assert set(OF_LOSSES) <= set(Losses.__dataclass_fields__)
    assert all(t.meaning and t.width > 0 and t.unit for t in TERMS)
