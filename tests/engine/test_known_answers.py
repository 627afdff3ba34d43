"""Figures of a pass that no other test states: found by mutants that lived (`tools/mutants.py`)."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from rackmath.engine import Layout, estimate
from rackmath.engine.constants import Constants, EngineVersion, RowGroup
from rackmath.engine.kernel_curves import Kernels
from rackmath.engine.layout import as_floats
from rackmath.engine.losses import CORRECTION, Losses, dispatch_time
from rackmath.engine.pass_checks import check_accepted, check_pass, pass_assumptions
from rackmath.engine.pass_work import collectives_time, pass_work, shown_time
from rackmath.engine.roofline import local_pass, timed_operators
from rackmath.errors import InputError
from rackmath.io import catalogue, constants_file
from rackmath.models.operator import Pass
from rackmath.models.totals import from_totals

POINT = {"batch": 16, "context": 2000}


@pytest.mark.parametrize("factor", [0.8, 1.7])
def test_measurements_multiply_the_computed_time(factor: float) -> None:
    system, model = catalogue.system("h100-sxm"), catalogue.model("llama-3.1-70b")
    losses = constants_file.losses_of(system, constants_file.engine_of(system, "vllm", 2026.0), "time per token")
    plain = estimate(model, system, Layout(tensor=8), **POINT, losses=losses)
    told = replace(losses, correction={"decode": factor})
    corrected = estimate(model, system, Layout(tensor=8), **POINT, losses=told)
    assert corrected.time == pytest.approx(factor * float(plain.time))
    assert corrected.lost[CORRECTION] == pytest.approx((factor - 1) * float(plain.time))
    other = replace(losses, correction={"prefill": factor})
    assert estimate(model, system, Layout(tensor=8), **POINT, losses=other).time == plain.time


def test_a_step_that_verifies_three_tokens_multiplies_four_of_each_sequence() -> None:
    """Eight sequences with three drafts compute what 32 sequences do, but for what a draft does not see."""
    system, model = catalogue.system("h100-sxm"), catalogue.model("llama-3.1-8b")
    verified = estimate(model, system, Layout(), batch=8, context=2000, draft_tokens=3)
    plain = estimate(model, system, Layout(), batch=32, context=2000)
    assert verified.compute_time == pytest.approx(float(plain.compute_time), rel=1e-3)
    assert verified.memory_time < plain.memory_time


def test_a_fused_attention_moves_no_scores_where_nothing_is_said() -> None:
    system, model = catalogue.system("h100-sxm"), catalogue.model("llama-3.1-8b")
    point = {"batch": 1, "context": 30_000, "phase": "prefill"}
    times = [
        float(estimate(model, system, Layout(), **point, losses=losses).time)
        for losses in (Losses(), Losses(unfused=0.0), Losses(unfused=1.0))
    ]
    assert times[0] == times[1] < times[2]


def test_no_measurement_makes_a_pass_faster_than_its_bound() -> None:
    system, model = catalogue.system("h100-sxm"), catalogue.model("llama-3.1-70b")
    losses = constants_file.losses_of(system, constants_file.engine_of(system, "vllm", 2026.0), "time per token")
    told = replace(losses, correction={"decode": 0.01})
    pass_ = estimate(model, system, Layout(tensor=8), **POINT, losses=told)
    assert pass_.time == pass_.time_ideal


def test_dispatch_is_its_wire_and_its_latency() -> None:
    kernels = Kernels(wire_exchange=0.5, exchange_latency=3.0)
    assert dispatch_time(2e-3, 1e-4, kernels) == pytest.approx(4e-3 + 3e-4)


def test_a_draft_model_takes_memory_of_its_own() -> None:
    system, layout = catalogue.system("h100-sxm"), Layout(tensor=8)
    target, draft = catalogue.model("llama-3.1-70b"), catalogue.model("llama-3.1-8b")
    plain, alone = (estimate(model, system, layout, **POINT).memory for model in (target, draft))
    both = estimate(target, system, layout, **POINT, draft_tokens=2, draft=draft).memory
    assert both.cache == pytest.approx(float(plain.cache + alone.cache))
    assert both.weights == pytest.approx(float(plain.weights + alone.weights))
    assert both.activations >= max(float(plain.activations), float(alone.activations))


def test_a_draft_model_takes_a_pass_for_each_token_that_it_writes() -> None:
    system, layout = catalogue.system("h100-sxm"), Layout(tensor=8)
    losses = constants_file.losses_of(system, constants_file.engine_of(system, "vllm", 2026.0), "time per token")
    target, draft = catalogue.model("llama-3.1-70b"), catalogue.model("llama-3.1-8b")
    verified = estimate(target, system, layout, **POINT, draft_tokens=3, losses=losses)
    # The scheduler has run before the target's pass: the draft's follow without it.
    own = estimate(draft, system, layout, **POINT, losses=replace(losses, host=0.0, host_sequence=0.0))
    both = estimate(target, system, layout, **POINT, draft_tokens=3, draft=draft, losses=losses)
    assert both.lost["host"] == pytest.approx(float(verified.lost["host"]))
    assert verified.lost["host"] > 0
    assert both.time == pytest.approx(float(verified.time) + 3 * float(own.time))
    for name in ("terms", "lost"):
        for part, value in getattr(both, name).items():
            assert value == pytest.approx(float(getattr(verified, name)[part]) + 3 * float(getattr(own, name)[part]))


def test_logits_are_gathered_of_every_verified_token_and_of_a_prompt_s_last() -> None:
    """Eight sequences of four tokens each on four H100: three quarters of the logits move, sums take 5/4 in the switch."""
    system, model = catalogue.system("h100-sxm"), catalogue.model("llama-3.1-70b")
    gathered = 8 * 128_256 * 2 * 3 / 4 / 450e9
    summed = 8 * 4 * 8192 * 2 * 5 / 4 / 450e9
    for phase, tokens in (("prefill", 1), ("decode", 4), ("train", 4)):
        work = Pass(phase=phase, sequences=8.0, new_tokens=4.0, context=4.0)
        outside = pass_work(model, work, Layout(tensor=4), system).wire.outside
        assert outside == pytest.approx(summed + tokens * gathered), phase


def test_products_of_training_hide_reductions_and_nothing_else() -> None:
    system, model = catalogue.system("h100-sxm"), catalogue.model("llama-3.1-70b")
    layout = as_floats(Layout(tensor=8, pipeline=2))
    for phase, hidden in (("train", 1.0), ("decode", 0.0)):
        new = 1.0 if phase == "decode" else 8192.0
        work = Pass(phase=phase, sequences=1.0, new_tokens=new, context=8192.0)
        pass_ = pass_work(model, work, layout, system)
        tensor = float(pass_.wire.tensor + pass_.latency.tensor)
        assert 0 < tensor < sum(float(op.time) for op in pass_.operators)
        rest = sum(float(side.outside + side.pipeline) for side in (pass_.wire, pass_.latency))
        assert float(pass_.exchange) == pytest.approx(rest + (1 - hidden) * tensor)


def test_drafts_are_accepted_in_decode_only() -> None:
    system, model = catalogue.system("h100-sxm"), catalogue.model("llama-3.1-70b")
    plain = estimate(model, system, Layout(tensor=8), **POINT, draft_tokens=2)
    fewer = estimate(model, system, Layout(tensor=8), **POINT, draft_tokens=2, accepted_tokens=1.5)
    assert float(fewer.tokens_per_second) == pytest.approx(1.5 * 16 / float(plain.time))
    with pytest.raises(InputError, match="in decode only"):
        estimate(model, system, Layout(tensor=8), **POINT, phase="prefill", accepted_tokens=1.0)


@pytest.mark.parametrize(
    ("model", "name", "moved"),
    [
        # One input of 4,096; queries, keys and values out of it; gate and what it multiplies out of it.
        ("llama-3.1-8b", "self_attn.q_proj", 4096 + 4096 + 2 * 1024),
        ("llama-3.1-8b", "mlp.gate_proj", 4096 + 2 * 14_336),
        # Eight experts: each of its three matrices reads its input and writes its output.
        ("qwen3-30b-a3b", "mlp.experts.gate_proj", 8 * 3 * (2048 + 768)),
    ],
)
def test_products_of_one_input_read_it_once(model: str, name: str, moved: int) -> None:
    system = catalogue.system("h100-sxm")
    work = Pass(phase="decode", sequences=3.0, new_tokens=1.0, context=500.0)
    timed = timed_operators(catalogue.model(model), work, as_floats(Layout()), system)
    product = next(t for t in timed if t.operator.name == name)
    assert float(product.activations) == pytest.approx(
        3 * moved * 2 * product.operator.count / system.chip.memory_bandwidth
    )


def test_a_model_known_by_its_totals_needs_no_activations_and_its_rate_is_shared() -> None:
    system, model = catalogue.system("h100-sxm"), from_totals("closed", 1e11, 1e10, 4000.0)
    step = estimate(model, system, Layout(tensor=8), **POINT)
    assert float(step.memory.activations) == 0.0
    assert float(step.tokens_per_second_per_gpu) == pytest.approx(16 / float(step.time) / 8)


@pytest.mark.parametrize(
    ("layout", "groups", "slices"),
    [
        (Layout(tensor=4, expert=16, data=8), 4, 1),
        (Layout(tensor=8, expert=2), 1, 4),
        (Layout(data=8, ffn=16, expert=16, micro_batches=2), 8, 1),
    ],
)
def test_groups_that_share_experts_and_ranks_that_share_an_expert(layout: Layout, groups: int, slices: int) -> None:
    assert (layout.expert_groups, layout.expert_slices) == (groups, slices)


def test_a_format_that_a_chip_has_no_rate_for_is_said_and_others_are_not() -> None:
    model = catalogue.model("deepseek-v3")
    said = {
        name: [note for note in pass_assumptions(model, catalogue.system(name), "decode", None) if "multiplied" in note]
        for name in ("h100-sxm", "a100-sxm")
    }
    assert said["h100-sxm"] == []
    assert len(said["a100-sxm"]) == 1
    assert said["a100-sxm"][0].startswith("fp8 weights are multiplied at ")


@pytest.mark.parametrize(("batches", "wrong"), [([-1.0, 5.0], -1.0), ([1.0, 2e9], 2e9), ([0.5, np.inf], np.inf)])
def test_of_several_batches_the_wrong_one_is_named(batches: list[float], wrong: float) -> None:
    with pytest.raises(InputError) as error:
        check_pass("decode", np.array(batches), 100.0, 0.0, 0.0)
    assert error.value.value == wrong


def test_what_a_config_asks_for_and_nobody_understands_is_said() -> None:
    model = replace(catalogue.model("llama-3.1-8b"), not_understood=("mystery_rate", "secret_gate"))
    notes = pass_assumptions(model, catalogue.system("h100-sxm"), "decode", None)
    assert "not understood and left out: mystery_rate, secret_gate" in notes


def test_a_width_that_ranks_do_not_divide_is_cut_evenly() -> None:
    """14,336 over 3 ranks is 4,778.7 for the output of one product and for the input of the next."""
    model, system = catalogue.model("llama-3.1-8b"), catalogue.system("h100-sxm")
    layout = as_floats(Layout(tensor=3))
    work = local_pass("decode", 1.0, 100.0, 0.0, layout, None)
    sides = [side for t in timed_operators(model, work, layout, system) for side in (t.outputs, t.inputs)]
    assert 14_336 / 3 in sides


@pytest.mark.parametrize(("draft_tokens", "refused"), [(0, False), (1000, False), (1001, True), (-1, True)])
def test_drafts_of_a_step_are_bounded(draft_tokens: int, refused: bool) -> None:
    with pytest.raises(InputError, match="0 to 1000") if refused else nullcontext():
        check_pass("decode", 1.0, 100.0, 0.0, float(draft_tokens))


def test_collectives_take_their_wires_and_latencies_with_a_chip_s_kernels() -> None:
    layout = as_floats(Layout(tensor=2, expert=8, data=4, pipeline=2))
    work = Pass(phase="decode", sequences=8.0, new_tokens=1.0, context=1000.0)
    pass_ = pass_work(catalogue.model("deepseek-v3"), work, layout, catalogue.system("h100-sxm"))
    w, t = pass_.wire, pass_.latency
    assert min(float(side) for side in (w.dispatch, w.combine, t.dispatch, t.combine)) > 0
    kernels = Kernels(wire=0.8, wire_exchange=0.5, exchange_latency=3.0)
    seconds = collectives_time(pass_, kernels)
    assert float(seconds.experts) == pytest.approx(float((w.dispatch + w.combine) / 0.5 + 3 * (t.dispatch + t.combine)))
    assert float(seconds.hops) == pytest.approx(float(w.pipeline / 0.8 + t.pipeline))


def test_an_engine_s_factor_is_on_all_reductions() -> None:
    """Those inside layers, and those of the embedding and of the logits outside of them."""
    work = Pass(phase="decode", sequences=256.0, new_tokens=1.0, context=1000.0)
    layout, system = as_floats(Layout(tensor=8)), catalogue.system("h100-sxm")
    pass_ = pass_work(catalogue.model("llama-3.1-70b"), work, layout, system)
    seconds = collectives_time(pass_, Kernels(wire=0.8))
    assert min(float(seconds.tensor), float(seconds.outside)) > 0
    shown = [float(shown_time(pass_, seconds, Losses(network=factor), 1.0)) for factor in (2.0, 3.0)]
    assert shown[1] - shown[0] == pytest.approx(float(seconds.tensor + seconds.outside))


def test_rows_are_counted_by_family_generation_and_phase() -> None:
    def group(family: str, generation: str, phase: str, rows: int) -> RowGroup:
        return RowGroup(family=family, generation=generation, phase=phase, rows=rows, first=2025.0, last=2026.0)

    groups = (
        group("sglang", "hopper", "serving", 1),
        group("vllm", "ampere", "serving", 2),
        group("vllm", "hopper", "prefill", 4),
        group("vllm", "hopper", "serving", 8),
        group("vllm", "zen", "serving", 16),
    )
    counted = Constants(base={}, moves={}, chips=frozenset(), evidence=groups)
    here = EngineVersion(generation="hopper", family="vllm")
    assert [counted.rows(here, phase) for phase in ("", "prefill", "serving", "training")] == [12, 4, 8, 0]
    assert counted.rows(EngineVersion(generation="hopper", family="trtllm")) == 0


def test_what_is_refused_of_drafts_is_named_with_the_largest_number() -> None:
    check_accepted("prefill", None, 4.0)
    check_accepted("decode", np.array([1.0, 5.0]), 4.0)
    for phase, accepted in (("prefill", [2.0, 3.0, 1.0]), ("decode", [2.0, 5.5, 1.0]), ("decode", [2.0, 0.5])):
        with pytest.raises(InputError) as refused:
            check_accepted(phase, np.array(accepted), 4.0)
        assert refused.value.args[1] == max(accepted)
