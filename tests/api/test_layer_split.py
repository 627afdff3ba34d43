"""llama.cpp puts whole layers on each accelerator: a second one adds memory, not speed of a token."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest

from rackmath.api.context import ContextRequest, run_context
from rackmath.api.estimate import run_estimate
from rackmath.api.estimate_request import EstimateRequest
from rackmath.api.estimate_result import EstimateResult
from rackmath.api.fit import run_fit
from rackmath.api.fit_request import FitRequest
from rackmath.api.plan import run_plan
from rackmath.api.plan_question import PlanRequest
from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.result import run_simulation
from rackmath.api.token_costs import CostRequest, run_cost
from rackmath.engine import Layout
from rackmath.engine.encoding import timed_pass
from rackmath.engine.timer import engine_timer
from rackmath.errors import InputError
from rackmath.io import catalogue, constants_file
from rackmath.serving import Scheduling
from rackmath.serving.engines import engine_layouts
from rackmath.serving.load import Load
from rackmath.serving.prompts import reading_time
from rackmath.serving.steady import prompt_times
from rackmath.validation.predict import predict
from rackmath.validation.rows import COLUMNS, read_row

CARDS: dict[str, Any] = {"on": "rtx-4090", "engine": "llama.cpp", "no_evidence": True}


def token(gpus: int, **changes: Any) -> EstimateResult:
    request = CARDS | {"model": "llama-3.1-8b", "weights": "q4_k_m", "batch": 1, "context": 512, "gpus": gpus} | changes
    return run_estimate(EstimateRequest(**request))


def test_layouts_of_llama_cpp_are_stages_of_whole_layers() -> None:
    model = catalogue.model("mixtral-8x7b")
    assert [layout.text() for layout in engine_layouts(model, 4, "llama.cpp")] == ["tp1,ep1,pp4,dp1"]
    assert engine_layouts(model, 33, "llama.cpp") == []  # of 32 layers
    others = [layout.text() for layout in engine_layouts(model, 4, "vllm")]
    assert {"tp4,ep1,pp1,dp1", "tp4,ep4,pp1,dp1", "tp1,ep1,pp4,dp1", "tp1,ep4,pp1,dp4"} <= set(others)


def test_a_token_passes_all_accelerators_in_turn() -> None:
    single, four = token(1), token(4)
    assert four.layout.text() == "tp1,ep1,pp4,dp1"
    assert four.step.time_ideal == pytest.approx(single.step.time_ideal, rel=0.02)
    assert single.step.time <= four.step.time < 1.2 * single.step.time
    assert any("whole layers" in note for note in four.notes)
    # The bound is of no engine, and slices layers.
    assert token(4, ideal=True).step.time < single.step.time_ideal / 2


def test_no_two_cards_read_a_file_faster_than_each_its_half() -> None:
    rows = run_fit(FitRequest(**CARDS, models="llama-3.1-70b", gpus=2, weights="q4_k_m")).facts
    assert rows[0]["time"] > 40e9 / catalogue.system("rtx-4090").chip.memory_bandwidth


def test_slices_of_layers_are_an_experiment_and_experts_stay_together() -> None:
    assert any("--split-mode tensor" in note for note in token(2, layout="tp2").notes)
    assert not any("--split-mode tensor" in note for note in token(2, layout="pp2").notes)
    assert not any(
        "--split-mode tensor" in note for note in token(2, layout="tp2", engine="vllm", weights="int4").notes
    )
    with pytest.raises(InputError, match=r"llama\.cpp spreads no experts: write pp4"):
        token(4, model="mixtral-8x7b", layout="tp4,ep4")


def test_plans_have_one_pool_of_whole_layers() -> None:
    request = {"model": "llama-3.1-70b", "input": 500, "output": 100, "gpus": 4, "weights": "q4_k_m"}
    facts = run_plan(PlanRequest(**CARDS | request)).to_dict()
    assert {point["layout"] for point in facts["frontier"]} <= {"tp1,ep1,pp2,dp1", "tp1,ep1,pp4,dp1"}
    assert all(point["pools"] is None for point in facts["frontier"])


def test_llama_cpp_runs_256_sequences_at_most_and_4_where_nothing_is_said() -> None:
    request = {"model": "llama-3.2-1b", "input": 100, "output": 100, "gpus": 1, "weights": "q4_k_m"}
    best = run_plan(PlanRequest(**CARDS | request)).to_dict()["best"]
    assert 128 < best["concurrency"] <= 256
    assert best["stopped_by"] == "number of sequences that the engine takes"
    more = run_plan(PlanRequest(**CARDS | request | {"engine": "vllm", "weights": "int4"})).to_dict()["best"]
    assert more["concurrency"] > 256
    traffic = {"poisson": 1, "requests": 20, "input": 100, "output": 20, "weights": "q4_k_m", "gpus": 1}
    report = run_simulation(SimulateRequest(model="llama-3.2-1b", **CARDS | traffic)).to_dict()
    assert any("a step takes at most 4 sequences and 2,048 tokens" in note for note in report["assumptions"])


def test_traffic_is_served_by_whole_layers() -> None:
    request = CARDS | {"weights": "q4_k_m", "gpus": 4, "poisson": 0.05, "requests": 20, "input": 500, "output": 50}
    report = run_simulation(SimulateRequest(model="llama-3.1-70b", **request)).to_dict()
    assert any("tp1,ep1,pp2,dp1" in note or "tp1,ep1,pp4,dp1" in note for note in report["assumptions"])
    with pytest.raises(InputError, match="spreads no experts"):
        run_simulation(SimulateRequest(model="mixtral-8x7b", layout="tp4,ep4", **request))


def test_costs_of_a_layout_that_it_cannot_run_are_refused() -> None:
    request: dict[str, Any] = {"model": "mixtral-8x7b", "on": "h100-sxm", "gpus": 4, "engine": "llama.cpp"}
    for field in ("layout", "prefill_layout"):
        with pytest.raises(InputError, match="spreads no experts"):
            run_cost(CostRequest(**request, **{field: "tp4,ep4"}))


def test_long_contexts_cost_what_whole_layers_cost() -> None:
    request: dict[str, Any] = {"models": "llama-3.1-8b", "on": "rtx-4090", "gpus": 2, "to": 2000, "slowest": 1.0}
    dealt = run_context(ContextRequest(engine="llama.cpp", **request)).facts[0]
    assert set(dealt["layout"]) == {"tp1,ep1,pp2,dp1"}


@pytest.mark.parametrize(("prompt", "pieces"), [(300, 1), (512, 1), (513, 2), (1500, 3), (2048, 4), (6000, 4)])
def test_pieces_of_a_prompt_follow_each_other_over_the_cards(prompt: int, pieces: int) -> None:
    """The schedule by hand: a card takes a piece when it has done the one before and the card before has done this."""
    cards = 3
    done = np.zeros((pieces, cards))
    for piece, card in np.ndindex(pieces, cards):
        ready = max(done[piece - 1, card] if piece else 0.0, done[piece, card - 1] if card else 0.0)
        done[piece, card] = ready + 1 / (pieces * cards)
    dealt = token(cards, phase="prefill", context=prompt)
    in_turn = timed_pass(dealt.architecture, dealt.system, dealt.layout, {**dealt.settings, "piece": inf})
    assert dealt.step.time / in_turn.time == pytest.approx(done[-1, -1])
    assert dealt.step.time_ideal / in_turn.time_ideal == pytest.approx(done[-1, -1])


def test_an_estimate_and_a_prediction_of_a_prompt_are_the_same() -> None:
    cells = dict.fromkeys(COLUMNS, "") | {
        "id": "prompt", "model": "llama-3.1-8b", "hardware": "rtx-4090", "n_gpus": "2", "pp": "2", "engine": "llama.cpp",
        "weights": "q4_k_m", "kv": "fp16", "arrivals": "single", "batch": "1", "input_mean": "2048", "output_mean": "0",
        "context": "1024", "phase": "prefill", "metric": "prefill_speed", "per": "system", "value": "9000",
        "date": "2026-06-15", "flags": "layer_split", "benchmark": "llama-bench", "confidence": "high",
    }  # fmt: skip
    (prediction,) = predict([cells], constants_file.constants())
    answer = token(2, phase="prefill", context=2048, year=read_row(cells, 2).when)
    assert prediction.predicted == pytest.approx(2048 / float(answer.step.time), rel=0.01)


def test_a_prompt_longer_than_a_batch_follows_itself_over_the_cards_piece_by_piece() -> None:
    """12 pieces of 500 tokens over two cards: one after the other at the first, then the last, longest, at the second."""
    model, system, layout = catalogue.model("llama-3.1-8b"), catalogue.system("rtx-4090"), Layout(pipeline=2)
    plain, in_pieces = engine_timer(model, system, None), engine_timer(model, system, None, piece=512.0)
    turns = [float(plain("prefill", layout, 1.0, 500.0 * (i + 1), 0.0, 500.0 * i)) / 2 for i in range(12)]
    whole = sum(turns) + turns[-1]
    alone, *_ = reading_time(layout, 6000.0, 0.0, 2048.0, in_pieces, piece=512.0)
    assert float(alone) == pytest.approx(whole)
    load = Load(concurrency=1.0, input=6000.0, output=1.0, max_num_batched_tokens=2048.0, piece=512.0)
    _, first, _ = prompt_times(model, layout, load, in_pieces, Scheduling())
    assert float(first) == pytest.approx(whole)


def simulated(engine: str, gpus: int, layout: str, weights: str) -> dict[str, Any]:
    """Eight users with prompts of 2,000 tokens and next to no answers."""
    request = SimulateRequest(
        model="llama-3.1-8b", on="rtx-4090", gpus=gpus, engine=engine, layout=layout, weights=weights, users=8,
        requests=200, input=2000, output=8, no_evidence=True,
    )  # fmt: skip
    return run_simulation(request).to_dict()


def test_several_cards_have_one_batch_that_reads_one_prompt_after_the_other() -> None:
    """A second card of llama.cpp is memory; vLLM's stages read a prompt each."""
    one, two = (simulated("llama.cpp", gpus, layout, "q8_0") for gpus, layout in ((1, "tp1"), (2, "pp2")))
    assert two["replicas"] == [1]
    assert not any("micro-batch" in note for note in two["assumptions"])
    # A prompt of four pieces takes five turns of a card, which holds half of the layers.
    assert one["served_rate"] < two["served_rate"] < 1.7 * one["served_rate"]
    staged = simulated("vllm", 2, "pp2", "fp8")
    assert staged["replicas"] == [2]
    assert any("micro-batch" in note for note in staged["assumptions"])
