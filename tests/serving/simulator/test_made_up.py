"""Made-up traffic varies, nobody is in lockstep, sessions have prefixes, and a plan's options reach the simulator."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from rackmath.api.plan_question import PlanRequest
from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.traffic import TrafficRequest, traffic
from rackmath.cli import plan_simulate
from rackmath.cli.app import cli
from rackmath.errors import InputError

BASE = ["simulate", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "1", "--input", "2000", "--output", "200"]


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(cli, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_users_are_not_in_lockstep() -> None:
    facts = run(*BASE, "--users", "20", "--turns", "5", "--think", "10", "--requests", "2000")
    for name in ("latency", "time_to_first_token"):
        assert facts[name]["p99"] > 1.3 * facts[name]["p50"]
        assert facts[name]["p90"] > 1.1 * facts[name]["p50"]


def test_thinking_is_exponential_and_seeded() -> None:
    asked = TrafficRequest(users=50, input=100.0, output=20.0, think_time=7.0, length_cv=0.5, requests=20_000, seed=3)
    work, _ = traffic(asked)
    assert work.graph is not None
    assert work.graph.delay.mean() == pytest.approx(7.0, rel=0.03)
    assert work.graph.delay.std() == pytest.approx(7.0, rel=0.05)
    begins = work.arrival[:50]
    assert len(np.unique(begins)) == 50
    assert work.prompt.std() == pytest.approx(50, rel=0.1)
    again, _ = traffic(asked)
    assert again.graph is not None
    assert np.array_equal(work.graph.delay, again.graph.delay)
    assert np.array_equal(work.prompt, again.prompt)


def test_sessions_of_users_begin_with_themselves_and_follow_each_other() -> None:
    asked = TrafficRequest(
        users=3,
        turns=4,
        input=1000.0,
        output=100.0,
        turn_tokens=50,
        think_time=1.0,
        length_cv=0.5,
        requests=48,
        block=16,
    )
    work, _ = traffic(asked)
    assert work.graph is not None
    follows = dict(zip(work.graph.source.tolist(), work.graph.to.tolist(), strict=True))
    assert len(follows) == len(work.graph.to)
    assert np.isfinite(work.arrival).sum() == 3
    served = np.zeros(len(work), bool)
    for first in np.flatnonzero(np.isfinite(work.arrival)).tolist():
        at = first
        while at >= 0:
            assert not served[at]
            served[at] = True
            at = follows.get(at, -1)
    assert served.all()
    for s in range(12):
        turns = range(4 * s, 4 * s + 4)
        blocks = [work.blocks[work.start[i] : work.start[i + 1]].tolist() for i in turns]
        for i, (before, after) in enumerate(pairwise(blocks)):
            assert after[: len(before)] == before, "the next prompt begins with the prompt and its answer"
            length = int(work.prompt[4 * s + i] + work.output[4 * s + i])
            assert len(before) == (length - 1) // 16
            assert work.answer_blocks[4 * s + i] == (length - 1) // 16 - work.prompt[4 * s + i] // 16
            grown = work.prompt[4 * s + i + 1] - work.prompt[4 * s + i]
            assert grown > work.output[4 * s + i]
    others = [set(work.blocks[work.start[4 * s] : work.start[4 * s + 4]].tolist()) for s in range(12)]
    assert not set.intersection(*others)


def test_made_up_sessions_hit_the_cache() -> None:
    facts = run(*BASE, "--users", "20", "--turns", "5", "--think", "10", "--grows", "300", "--requests", "1000")
    assert 0.4 < facts["hit_tokens"] < 1
    assert not any("prefix caches stay empty" in note for note in facts["assumptions"])


def test_a_shared_beginning_is_found_by_all_but_the_first() -> None:
    facts = run(*BASE, "--poisson", "5", "--requests", "1000", "--cached-prefix", "0.8")
    assert facts["hit_tokens"] == pytest.approx(0.8, abs=0.02)
    plain = run(*BASE, "--poisson", "5", "--requests", "1000")
    assert facts["time_to_first_token"]["p50"] < plain["time_to_first_token"]["p50"]
    for wrong in (["--cached-prefix", "1.5"], ["--cached-prefix", "0.5", "--turns", "3"]):
        result = CliRunner().invoke(cli, [*BASE, "--poisson", "5", *wrong])
        assert isinstance(result.exception, InputError)


def test_a_resimulated_plan_keeps_every_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each field of a plan that a simulation has as well reaches the simulator's request."""
    seen: list[SimulateRequest] = []
    real = plan_simulate.replays

    def recorded(requests: Sequence[SimulateRequest], *more: Any) -> Any:
        seen.extend(requests)
        return real(requests, *more)

    monkeypatch.setattr(plan_simulate, "replays", recorded)
    options = ["--cached-prefix", "0.5", "--usd-per-gpu-hour", "2.5", "--engine", "sglang", "--year", "2026", "--ttft", "2",
               "--tpot", "0.05", "--draft-tokens", "2", "--acceptance", "0.7", "--draft-model", "llama-3.2-1b"]  # fmt: skip
    plan = [
        "plan",
        "llama-3.1-8b",
        "--on",
        "h100-sxm",
        "--gpus",
        "2",
        "--input",
        "1000",
        "--output",
        "100",
        "--one-pool",
    ]
    facts = run(*plan, *options, "--simulate", "2")
    assert facts["simulated"]
    assert seen
    asked = PlanRequest(
        model="llama-3.1-8b", on="h100-sxm", gpus=2, input=1000, output=100, one_pool=True, cached_prefix=0.5,
        usd_per_gpu_hour=2.5, engine="sglang", year=2026, ttft=2, tpot=0.05, draft_tokens="2", acceptance="0.7",
        draft_model="llama-3.2-1b",
    )  # fmt: skip
    # A point has its own accelerators, formats and drafts; the layout is the plan's answer.
    chosen = {"gpus", "weights", "kv", "draft_tokens"}
    shared = {f.name for f in fields(PlanRequest)} & {f.name for f in fields(SimulateRequest)} - chosen
    assert len(shared) > 10
    for request in seen:
        assert {name: getattr(request, name) for name in shared} == {name: getattr(asked, name) for name in shared}
        assert (request.draft_tokens, request.scheduler.preemption, request.poisson) == (2, "reserve", 2.0)
