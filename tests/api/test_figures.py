"""Answers to requests are those of the commands, and draw."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

import rackmath as rm
from rackmath.api.fields import words_of
from rackmath.cli.app import cli
from rackmath.errors import InputError

SYSTEM: dict[str, Any] = {"on": "h200-sxm", "gpus": 8}

CASES: list[Any] = [
    rm.EstimateRequest(model="llama-3.1-70b", **SYSTEM, batch=8, context=4096),
    rm.PlanRequest(model="llama-3.1-70b", **SYSTEM, input=1000, output=100, one_pool=True),
    rm.ContextRequest(models="llama-3.1-70b", **SYSTEM),
    rm.RacksRequest(),
    rm.CacheRequest(model="llama-3.1-70b", on="h200-sxm"),
    rm.AgentRequest(model="claude-opus-5-5", turns=10),
    rm.PageRequest(provider="anthropic"),
    rm.PriceRequest(input=0.6, output=2.5),
    rm.CostRequest(model="llama-3.1-70b", **SYSTEM),
    rm.BudgetRequest(law="besiroglu", loss=2.0, inference_tokens="10T"),  # type: ignore[arg-type]
    rm.DepthRequest(model="llama-3.1-70b"),
    rm.TrainRequest(model="llama-3.1-8b", **SYSTEM, tokens=1e12),
    rm.CompareRequest(models="llama-3.1-8b", **SYSTEM, input=500, output=50, weights="bf16,fp8"),
    rm.SimulateRequest(model="llama-3.1-8b", **SYSTEM, poisson=5, input=500, output=50, requests=100),
]


@pytest.mark.parametrize("request_", CASES, ids=lambda request: type(request).__name__)
def test_every_answer_draws_and_is_the_command_s(request_: Any) -> None:
    result = rm.answer(request_)
    figure = result.figure()
    assert len(figure.data) >= 1
    json.loads(figure.to_json())
    assert result._repr_html_().startswith("<table>")
    said = json.loads(
        CliRunner().invoke(cli, [*_COMMANDS[type(request_).__name__].split(), *words_of(request_), "--json"]).stdout
    )
    facts = result.to_dict()
    clocks = {"seconds"} if type(request_).__name__ in ("PlanRequest", "SimulateRequest") else set()
    assert _without(facts, clocks) == _without(said, clocks)


_COMMANDS = {
    "EstimateRequest": "estimate", "PlanRequest": "plan", "ContextRequest": "context", "RacksRequest": "racks",
    "CacheRequest": "cache", "AgentRequest": "agent", "PageRequest": "prices page", "PriceRequest": "prices decode",
    "CostRequest": "prices cost", "BudgetRequest": "train budget", "DepthRequest": "train depth",
    "TrainRequest": "train run", "CompareRequest": "compare", "SimulateRequest": "simulate",
}  # fmt: skip


def _without(facts: Any, keys: set[str]) -> Any:
    return {k: v for k, v in facts.items() if k not in keys} if isinstance(facts, dict) else facts


def test_a_request_without_a_picture_says_so() -> None:
    for request in (rm.PageRequest(), rm.PipelineRequest(schedule="1f1b", stages=2, microbatches=4)):
        with pytest.raises(InputError, match="nothing is drawn"):
            rm.answer(request).picture()
    with pytest.raises(TypeError, match="is no request"):
        rm.answer("plan")
