"""Figures of a pass that no other test states: found by mutants that lived (`tools/mutants.py`)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rackmath.engine import Layout, estimate
from rackmath.engine.kernel_curves import Kernels
from rackmath.engine.losses import CORRECTION, dispatch_time
from rackmath.engine.pass_work import pass_work
from rackmath.io import catalogue, constants_file
from rackmath.models.operator import Pass

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
    both = estimate(target, system, layout, **POINT, drafted=2, draft=draft).memory
    assert both.cache == pytest.approx(float(plain.cache + alone.cache))
    assert both.weights == pytest.approx(float(plain.weights + alone.weights))
    assert both.activations >= max(float(plain.activations), float(alone.activations))


def test_logits_are_gathered_of_every_verified_token_and_of_a_prompt_s_last() -> None:
    """Eight sequences of four tokens each on four H100: three quarters of the logits move, sums take 5/4 in the switch."""
    system, model = catalogue.system("h100-sxm"), catalogue.model("llama-3.1-70b")
    gathered = 8 * 128_256 * 2 * 3 / 4 / 450e9
    summed = 8 * 4 * 8192 * 2 * 5 / 4 / 450e9
    for phase, tokens in (("prefill", 1), ("decode", 4), ("train", 4)):
        work = Pass(phase=phase, sequences=8.0, new_tokens=4.0, context=4.0)
        outside = pass_work(model, work, Layout(tensor=4), system).wire.outside
        assert outside == pytest.approx(summed + tokens * gathered), phase
