"""Sentences: their numbers are those of the answer, and the narrower format is what an estimate in it says."""

from __future__ import annotations

from dataclasses import replace

import pytest

import rackmath as rm
from rackmath.api.estimate import run_estimate
from rackmath.api.estimate_request import EstimateRequest
from rackmath.api.plan import run_plan
from rackmath.api.plan_question import PlanRequest
from rackmath.api.summary import plan_summary

STEP = EstimateRequest(
    model="llama-3.1-70b", on="h100-sxm", gpus=4, layout="tp4", batch=64, context=4000, no_evidence=True
)
PLAN = PlanRequest(model="llama-3.1-8b", on="h100-sxm", gpus=2, input=2000, output=200, tpot=0.02, no_evidence=True)


def test_an_estimate_says_cost_speed_and_what_a_narrower_format_does() -> None:
    result = run_estimate(STEP)
    first, second, third = result.summary
    assert f"{result.usd_per_million_tokens:.3g} $" in first
    assert f"{result.tokens_per_second_per_user:.3g} tokens/s for each user" in first
    assert second.startswith("Reading weights takes")
    narrower = run_estimate(replace(STEP, weights="fp8"))
    assert f"{narrower.time / result.time:.0%} of the time" in third


def test_what_was_asked_for_has_no_narrower_format() -> None:
    assert len(run_estimate(replace(STEP, weights="bf16")).summary) == 2
    assert run_estimate(replace(STEP, gpus=1, layout="tp1")).summary[0].startswith("It does not fit: it needs 2")


@pytest.mark.parametrize(
    ("model", "system", "engine", "form"),
    [
        ("llama-3.1-8b", "a100-sxm-80gb", "vllm", None),
        ("llama-3.1-8b", "h100-sxm", "vllm", "fp8"),
        ("llama-3.1-70b-fp8", "b200-sxm", "vllm", "nvfp4"),
        ("llama-3.1-70b-fp8", "h200-sxm", "vllm", None),
        # Its experts are in 4 bits already, and those of NVFP4 with their scales are larger.
        ("gpt-oss-20b", "b200-sxm", "vllm", None),
        ("gpt-oss-20b", "rtx-5090", "llama.cpp", None),
        ("llama-3.1-8b", "rtx-5090", "llama.cpp", "q8_0"),
    ],
)
def test_narrower_formats_are_what_the_engine_reads_and_fewer_bytes(
    model: str, system: str, engine: str, form: str | None
) -> None:
    request = EstimateRequest(
        model=model, on=system, gpus=1, layout="tp1", batch=1, context=500, engine=engine, no_evidence=True
    )
    narrower = run_estimate(request).narrower
    assert (narrower and narrower[0]) == form
    assert narrower is None or 0.4 < narrower[1] < 1


def test_a_plan_says_cost_and_what_half_of_it_would_be() -> None:
    facts = run_plan(PLAN).to_dict()
    first, second, third = plan_summary(facts)
    assert f"{facts['best']['usd_per_million_output_tokens']:.3g} $" in first
    assert "of 2 h100-sxm" in first
    assert "the limit on the time per output token" in second or "memory" in second
    # Half of the best point's dollars where some point has them; else the fewest there are.
    dollars = facts["best"]["usd_per_million_output_tokens"]
    cheapest = min(facts["frontier"], key=lambda p: p["usd_per_million_output_tokens"])
    assert cheapest["usd_per_million_output_tokens"] > dollars / 2
    share = cheapest["usd_per_million_output_tokens"] / dollars
    speed = cheapest["tokens_per_second_per_user"]
    assert third == f"At {speed:.3g} tokens/s for each user a token would cost {share:.0%} of that."


def test_what_is_paid_for_and_idle_counts_in_what_is_cheaper() -> None:
    """Seven of eight accelerators that are billed, against eight that each serve hardly more."""
    best = {"tokens_per_second_per_gpu": 466.0, "gpus": 7.0, "billed_gpus": 8.0, "tokens_per_second_per_user": 25.0}
    slow = {"tokens_per_second_per_gpu": 470.0, "gpus": 8.0, "billed_gpus": 8.0, "tokens_per_second_per_user": 7.0}
    facts = run_plan(PLAN).to_dict()
    whole = facts["best"] | best
    said = plan_summary(facts | {"best": whole, "frontier": [whole, facts["best"] | slow]})
    assert said[2] == f"At 7 tokens/s for each user a token would cost {466 * 7 / (470 * 8):.0%} of that."
    alone = plan_summary(facts | {"best": whole, "frontier": [whole]})
    assert alone[2] == "At no speed is a token cheaper with these accelerators."


def test_a_plan_that_keeps_nothing_says_so() -> None:
    (sentence,) = plan_summary(run_plan(replace(PLAN, tpot=1e-4)).to_dict())
    assert sentence.startswith("No deployment keeps the limits: the fastest takes")
    assert "inf" not in sentence


def test_a_run_and_a_training_in_sentences() -> None:
    """Numbers of the sentences are those of the facts; what does not keep up, or fit, says so."""
    traffic = {"requests": 300, "input": 500.0, "output": 100.0}
    run = rm.simulate(rm.Deployment(model="llama-3.1-8b", system="h100-sxm", gpus=1), rm.Poisson(rate=2), **traffic)
    facts = run.to_dict()
    first, second, third = run.summary
    assert f"{facts['usd_per_million_tokens']:.3g} $" in first
    assert f"{1 / facts['time_per_output_token']['mean']:.3g} tokens/s" in first
    assert f"busy {facts['utilisation']:.0%}" in second
    assert "keeps up" in third or "too short" in third
    job = rm.train("llama-3.1-8b", rm.load_system("h100-sxm", gpus=64), tokens=1e12)
    days, products, failures = job.summary
    assert days.startswith(f"{job.days:.3g} days")
    assert f"{job.mfu:.0%} of the peak" in products
    assert f"{1 - job.facts['useful']:.1%}" in failures
    (refused,) = rm.train("llama-3.1-70b", rm.load_system("h100-sxm", gpus=1), tokens=1e9).summary
    assert refused.startswith("It fits in no layout")
