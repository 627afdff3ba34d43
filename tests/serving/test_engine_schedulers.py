"""Engines' schedulers are the defaults of a simulation, and what is asked for stands in their place."""

from __future__ import annotations

import pytest

from rackmath.api.simulation.request import SimulateRequest
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
        ({"engine": "sglang", "drafted": 2}, ("prefill-first", "reserve", 1)),
        ({"policy": "static"}, ("static", "reserve", 16)),
        ({"engine": "trtllm", "preemption": "recompute", "block_size": 64}, ("unchunked", "recompute", 64)),
    ],
)
def test_what_is_asked_for_stands_in_the_place_of_the_engines_own(
    options: dict[str, object], rules: tuple[str, str, int]
) -> None:
    request = SimulateRequest(model="llama-3.1-8b", on="h100-sxm", gpus=1, **options)  # type: ignore[arg-type]
    assert (request.scheduler.policy, request.scheduler.preemption, request.scheduler.block) == rules
