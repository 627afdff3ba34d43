"""Results in Python are what the commands print, and a session goes from a model to a simulation."""

from __future__ import annotations

import json
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import rackmath as rm
from rackmath.api.result import Result
from rackmath.cli.app import cli


def said(*words: str) -> Any:
    result = CliRunner().invoke(cli, [*words, "--json"], catch_exceptions=False)
    return without_clocks(json.loads(result.stdout))


def without_clocks(facts: Any) -> Any:
    if isinstance(facts, list):
        return facts
    return {key: value for key, value in facts.items() if key != "seconds"}


@pytest.fixture(scope="module")
def plan() -> rm.PlanResult:
    work = rm.Workload(input=1000, output=200, ttft=1, tpot=0.03)
    return rm.plan("llama-3.1-8b", rm.load_system("h100-sxm", gpus=2), work, engine=rm.Engine("sglang", date=2026.0))


PLANNED = [
    "plan",
    "llama-3.1-8b",
    "--on",
    "h100-sxm",
    "--gpus",
    "2",
    "--input",
    "1000",
    "--output",
    "200",
    "--ttft",
    "1",
    "--tpot",
    "0.03",
]


def test_a_plan_is_the_command_s(plan: rm.PlanResult) -> None:
    assert without_clocks(plan.to_dict()) == said(*PLANNED, "--engine", "sglang", "--year", "2026")


def test_the_frontier_is_a_table_of_the_same_points(plan: rm.PlanResult) -> None:
    assert plan.frontier["tokens_per_second_per_gpu"].to_list() == [
        point["tokens_per_second_per_gpu"] for point in plan.to_dict()["frontier"]
    ]
    assert (plan.frontier["time_to_first_token"] <= 1).all()


def test_the_best_launches_and_simulates(plan: rm.PlanResult) -> None:
    best = plan.best
    assert best is not None
    assert best.launch("vllm") == plan.to_dict()["launch"]["vllm"]
    assert "trtllm-serve" in best.launch("trtllm")
    with pytest.raises(rm.InputError, match=r"engine = 'llama\.cpp': use one of vllm, sglang, trtllm"):
        best.launch("llama.cpp")
    run = rm.simulate(best, rm.Poisson(rate=3), requests=300)
    words = [
        *("simulate", "llama-3.1-8b", "--on", "h100-sxm", f"--gpus={best.gpus}", f"--layout={best.layout}"),
        *(f"--seats={best.max_num_seqs}", f"--budget={best.max_num_batched_tokens}", f"--weights={best.weights}"),
        *(f"--kv={best.kv}", "--engine=sglang", "--year=2026", "--poisson=3", "--input=1000", "--output=200"),
        *("--spread=0", "--requests=300", "--ttft=1", "--tpot=0.03"),
        f"--gpu-memory-utilization={best.gpu_memory_utilization}",
    ]
    pools = [
        f"--prefill-gpus={best.prefill_gpus}",
        f"--prefill-layout={best.prefill_layout}",
        f"--prefill-max-num-batched-tokens={best.prefill_max_num_batched_tokens}",
    ]
    assert without_clocks(run.to_dict()) == said(*words, *(pools if best.prefill_gpus else []))


def test_fields_of_a_simulation_are_taken_by_the_names_that_their_options_had_before(plan: rm.PlanResult) -> None:
    assert plan.best is not None
    older, newer = (
        without_clocks(rm.simulate(plan.best, rm.Poisson(rate=3), requests=200, **more).to_dict())
        for more in (
            {"burst": 2, "spread": 0.5, "seats": 7},
            {"interarrival_cv": 2, "length_cv": 0.5, "max_num_seqs": 7},
        )
    )
    assert older == newer
    assert older != without_clocks(rm.simulate(plan.best, rm.Poisson(rate=3), requests=200).to_dict())
    with pytest.raises(TypeError, match="nothing"):
        rm.simulate(plan.best, rm.Poisson(rate=3), nothing=1)


def test_percentiles_have_the_ranges_of_the_report(plan: rm.PlanResult) -> None:
    assert plan.best is not None
    run = rm.simulate(plan.best, rm.Poisson(rate=3), requests=200, seed=5)
    facts = run.to_dict()
    for name, key in (("ttft", "time_to_first_token"), ("tpot", "time_per_output_token"), ("latency", "latency")):
        values = getattr(run, name)
        assert values.p99 == pytest.approx(facts[key]["p99"])
        assert list(values.p99_range) == pytest.approx(facts[key]["p99_range"])
        assert values.p50_range[0] <= values.p50 <= values.p50_range[1]
    ideal = rm.simulate(plan.best, rm.Poisson(rate=3), requests=200, seed=5, ideal=True)
    assert ideal.ttft is not None
    assert ideal.ttft.p99_range is None
    assert ideal.ttft.mean < run.ttft.mean  # type: ignore[union-attr]


def test_a_trace_is_read_once_or_by_its_path(plan: rm.PlanResult, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("arrival,input,output\n" + "".join(f"{i},100,20\n" for i in range(50)))
    deployment = rm.Deployment(model="llama-3.1-8b", system="h100-sxm", gpus=1, layout="tp1")
    by_path, read = (rm.simulate(deployment, t).to_dict() for t in (path, rm.read_trace(path)))
    assert without_clocks(by_path) == without_clocks(read)
    assert by_path["requests"] == 50
    with pytest.raises(rm.InputError, match="--trace"):
        rm.simulate(deployment, 8)  # type: ignore[arg-type]


def test_training_prices_and_rows_are_the_commands() -> None:
    job = rm.train("llama-3.1-8b", rm.load_system("h100-sxm", gpus=64), tokens="1T", batch_tokens="4M")
    assert without_clocks(job.to_dict()) == said(
        *["train", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "64", "--tokens", "1T", "--batch-tokens", "4M"]
    )
    assert job.days_range is not None
    assert job.days_range[0] < job.days < job.days_range[1]  # type: ignore[operator]
    page = rm.decode_prices(input=0.6, output=2.5, date="2026-11-21")
    assert page.to_dict() == said(*["prices", "decode", "--input", "0.6", "--output", "2.5", "--date", "2026-11-21"])
    assert page.active_params.median == page.models[0].active_params.median
    rows = rm.predict("tests/data/rows.csv")
    assert rows.frame.height == rows.score.rows == len(rows.predictions)
    again = rm.predict(rows.frame.drop("predicted", "low", "high", "reason"))
    assert [p.predicted for p in again.predictions] == [p.predicted for p in rows.predictions]
    with pytest.raises(rm.InputError, match="--explain"):
        rows.explain("nobody")


@pytest.mark.parametrize(("model", "gpus"), [("llama-3.1-405b", 16_384), ("llama-3.1-8b", 8), ("deepseek-v3", 2048)])
def test_a_range_of_training_never_begins_under_the_bound(model: str, gpus: int) -> None:
    system = rm.load_system("h100-sxm", gpus=gpus)
    job = rm.train(model, system, tokens="1T", batch_tokens="16M")
    ideal = rm.train(
        model, system, tokens="1T", batch_tokens="16M", ideal=True, layout=job.facts["layout"],
        context_parallel=int(job.facts["context_parallel"]), microbatch=int(job.facts["microbatch"]),
        chunks=int(job.facts["chunks"]),
    )  # fmt: skip
    low = job.facts["range"][0] * job.facts["step_time"]
    assert ideal.facts["step_time"] * (1 - 1e-12) <= low < job.facts["step_time"]
    assert ideal.facts["range"] == [1.0, 1.0]


def test_a_prompt_shows_what_was_asked_for_in_a_screen(plan: rm.PlanResult) -> None:
    best = plan.best
    assert best is not None
    shown = repr(best).splitlines()
    assert shown[0] == "deployment"
    assert {f"model {best.model}", f"layout {best.layout}"} < {" ".join(line.split()) for line in shown}
    assert len(repr(best)) < 3000
    assert repr(rm.load_model("deepseek-v3")) == "<Architecture deepseek-v3: 61 layers, hidden 7168, vocabulary 129280>"
    system = rm.load_system("h200-sxm", gpus=32)
    assert repr(system) == "Cluster(system=<System h200-sxm: H200 SXM 141GB, domains of 8>, gpus=32)"
    run = rm.simulate(best, rm.Poisson(rate=1), requests=50)
    assert run.ttft is not None
    assert f"time_to_first_token p99 {run.ttft.p99:.5g}" in {" ".join(line.split()) for line in repr(run).splitlines()}


def test_a_planned_pipeline_serves_the_rate_that_it_was_planned_for() -> None:
    """Its stages' micro-batches together are the plan's batch: split twice, half of it would queue."""
    work = rm.Workload(input=1000, output=300, ttft=10, tpot=0.1)
    best = rm.plan("qwen3-30b-a3b", rm.load_system("rtx-4090", gpus=4), work, engine=rm.Engine("llama.cpp")).best
    assert best is not None
    assert "pp2" in str(best.layout)
    # Places for arrivals at random, as far as the cards' memory goes.
    mean = best.planned["concurrency"] / best.planned["units"]
    assert mean < best.max_num_seqs <= ceil(mean + 2 * mean**0.5)
    run = rm.simulate(best, rm.Poisson(rate=0.97 * best.planned["requests_per_second"]), requests=4000)
    assert run.tpot is not None
    assert run.to_dict()["steady"]
    assert run.tpot.p50 < best.planned["time_per_output_token"]


def test_many_answers_are_shown_in_part() -> None:
    result = Result(
        request=rm.DepthRequest(model="llama-3.1-70b"), facts=[{"model": f"m{i}", "speed": i / 3} for i in range(12)]
    )
    assert repr(result).endswith("model  m9\n  speed  3\nand 2 more in to_dict()")
    assert result._repr_html_().endswith("<p>and 2 more in to_dict()</p>")
    assert result._repr_html_().count("<table>") == 10


def test_every_result_draws_and_shows_itself(plan: rm.PlanResult) -> None:
    step = rm.estimate("llama-3.1-8b", "h100-sxm", "tp1", batch=8, context=4000)
    results: list[Any] = [
        plan,
        step,
        rm.train("llama-3.1-8b", rm.load_system("h100-sxm", gpus=64), tokens=1e12),
        rm.decode_prices(input=0.6, output=2.5),
        rm.predict("tests/data/rows.csv"),
    ]
    for result in results:
        assert result._repr_html_().startswith("<table>")
        assert repr(result).count("\n") == result._repr_html_().count("<tr>")
        assert len(repr(result)) < 3000
        assert len(result.figure().data) > 0
    assert {step.figure(kind).layout.title.text for kind in ("roofline", "batch", "memory")}
    assert sum(step.breakdown.values()) == pytest.approx(step.time)


@pytest.mark.parametrize(
    ("change", "value", "reads"),
    [
        ({"bandwidth": "2x"}, 2 * 4.8e12, lambda s: s.chip.memory_bandwidth),
        ({"bandwidth": "10TB/s"}, 10e12, lambda s: s.chip.memory_bandwidth),
        ({"memory": 200e9}, 200e9, lambda s: s.chip.memory_capacity),
        ({"flops": "0.5x"}, 989.5e12 / 2, lambda s: s.chip.rate("bf16")),
        ({"price": "3.6 $/h"}, 0.001, lambda s: s.price),
        ({"scale_up": "3x"}, 3 * 450e9, lambda s: s.scale_up.bandwidth),
        ({"scale_up_latency": "7us"}, 7e-6, lambda s: s.scale_up.latency),
        ({"domain": 16}, 16, lambda s: s.domain),
    ],
)
def test_a_system_is_changed_in_one_place(change: dict[str, Any], value: float, reads: Any) -> None:
    before = rm.load_system("h200-sxm", gpus=8)
    after = before.set(**change)
    assert reads(after.system) == pytest.approx(value, rel=1e-3)
    assert after.gpus == 8
    assert next(iter(change)) in after.system.name
    assert before == rm.load_system("h200-sxm", gpus=8)


@pytest.mark.parametrize(
    "change", [{"speed": 2}, {"bandwidth": "0x"}, {"flops": 1e15}, {"memory": "-80GB"}, {"price": "3 apples"}]
)
def test_changes_that_are_none_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(rm.InputError):
        rm.load_system("h200-sxm").set(**change)


def test_twice_the_bandwidth_makes_decoding_faster_and_never_twice() -> None:
    system = rm.load_system("h200-sxm", gpus=1)
    slow, fast = (
        rm.estimate("llama-3.1-8b", s, "tp1", batch=8, context=4000, engine=rm.Engine.ideal())
        for s in (system, system.set(bandwidth="2x"))
    )
    assert slow.time / 2 <= fast.time < slow.time


def test_models_are_named_read_and_passed() -> None:
    by_name, by_id = rm.load_model("llama-3.1-8b"), rm.load_model("meta-llama/Llama-3.1-8B-Instruct")
    assert by_name is rm.load_model(by_name)
    assert by_name == by_id
    config = {
        "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256, "torch_dtype": "bfloat16",
    }  # fmt: skip
    mine = rm.load_model(config)
    # Measurements of a model correct answers about it by its name; physics knows none.
    by_fields, by_entry = (
        rm.estimate(model, "h100-sxm", "tp1", batch=1, context=1000, no_evidence=True).time for model in (mine, by_name)
    )
    assert by_fields == pytest.approx(by_entry, rel=1e-6)
    for wrong in ("", 3, {"model_type": "llama"}):
        with pytest.raises(rm.InputError):
            rm.load_model(wrong)  # type: ignore[arg-type]


def test_an_engine_has_a_family_and_a_date() -> None:
    assert rm.Engine("vllm", date="2026-07-02").year == pytest.approx(2026.5, abs=0.01)
    assert rm.Engine("vllm", date="2025.5").year == 2025.5
    assert rm.Engine.ideal().options["ideal"] is True
    with pytest.raises(rm.InputError, match="engine"):
        rm.Engine("vlm")
    with pytest.raises(rm.InputError, match="gpus"):
        rm.plan("llama-3.1-8b", "h100-sxm", rm.Workload(1000, 100))
