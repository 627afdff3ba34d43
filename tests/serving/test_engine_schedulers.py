"""Engines' schedulers are the defaults of a simulation, and what is asked for stands in their place."""

from __future__ import annotations

import pytest

from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.result import run_simulation
from rackmath.errors import InputError
from rackmath.serving.schedulers import SCHEDULERS, scheduler
from rackmath.serving.simulator import Batching


@pytest.mark.parametrize("family", SCHEDULERS)
def test_every_engine_has_rules_that_the_simulator_knows(family: str) -> None:
    own = scheduler(family)
    Batching(policy=own.policy, preemption=own.preemption, block=own.block)
    assert own.source


def test_an_engine_that_nothing_is_known_of_is_taken_to_be_as_vllm() -> None:
    assert scheduler("mindie") == SCHEDULERS["vllm"]


@pytest.mark.parametrize(
    ("options", "rules"),
    [
        ({}, ("chunked", "recompute", 16)),
        ({"engine": "sglang"}, ("prefill-first", "retract", 1)),
        ({"engine": "trtllm"}, ("unchunked", "reserve", 32)),
        # What another policy does with a full cache is not SGLang's way.
        ({"engine": "sglang", "policy": "chunked"}, ("chunked", "recompute", 1)),
        ({"engine": "sglang", "draft_tokens": 2}, ("prefill-first", "reserve", 1)),
        ({"policy": "static"}, ("static", "reserve", 16)),
        ({"engine": "trtllm", "preemption": "recompute", "block_size": 64}, ("unchunked", "recompute", 64)),
    ],
)
def test_what_is_asked_for_stands_in_the_place_of_the_engines_own(
    options: dict[str, object], rules: tuple[str, str, int]
) -> None:
    request = SimulateRequest(model="llama-3.1-8b", on="h100-sxm", gpus=1, **options)  # type: ignore[arg-type]
    assert (request.scheduler.policy, request.scheduler.preemption, request.scheduler.block) == rules


@pytest.mark.parametrize(
    ("on", "options", "step"),
    [
        ("h100-sxm", {}, "1,024 sequences and 8,192 tokens"),
        ("h100-sxm", {"engine": "sglang"}, "4,096 sequences and 8,192 tokens"),
        ("h100-sxm", {"engine": "trtllm"}, "2,048 sequences and 8,192 tokens"),
        ("l40s", {}, "256 sequences and 2,048 tokens"),
        ("a100-sxm", {}, "256 sequences and 2,048 tokens"),
        ("rtx-4090", {"engine": "sglang"}, "2,048 sequences and 2,048 tokens"),
        ("b200", {"engine": "sglang"}, "4,096 sequences and 16,384 tokens"),
        # A step has a token for each of its sequences, and vLLM takes no more of them than that.
        ("l40s", {"max_num_batched_tokens": 128}, "128 sequences and 128 tokens"),
        ("l40s", {"max_num_seqs": 64}, "64 sequences and 2,048 tokens"),
    ],
)
def test_a_step_is_as_large_as_the_engine_makes_it_on_the_card(on: str, options: dict[str, object], step: str) -> None:
    run = run_simulation(
        SimulateRequest(
            model="llama-3.1-8b",
            on=on,
            gpus=1,
            poisson=2,
            input=300,
            output=20,
            requests=50,
            no_evidence=True,
            **options,  # type: ignore[arg-type]
        )
    )
    assert any(f"a step takes at most {step}" in line for line in run.assumptions)


def test_more_sequences_than_the_engines_step_has_tokens_are_refused() -> None:
    with pytest.raises(InputError, match="--max-num-batched-tokens = 2048: 4096 sequences decode 4,096 tokens a step"):
        run_simulation(
            SimulateRequest(model="llama-3.1-8b", on="l40s", gpus=1, poisson=2, input=300, output=20, max_num_seqs=4096)
        )
