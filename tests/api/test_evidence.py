"""Measurements behind answers: their list, what they do to an answer, and a user's own."""

from __future__ import annotations

import json
from math import exp, log
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import rackmath as rm
from rackmath.api import near
from rackmath.cli.app import cli
from rackmath.errors import InputError
from rackmath.evidence.posterior import FAR
from rackmath.io import evidence_files, paths
from rackmath.serving.launch_boxes import FRONT
from rackmath.validation.bench_json import rows_of
from rackmath.validation.questions import question
from rackmath.validation.rows import read_row

KNOWN = ["llama-3.1-70b", "--on", "h100-sxm", "--layout", "tp4", "--batch", "32", "--context", "2000"]
NOVEL = ["gpt-oss-20b", "--on", "trainium2", "--batch", "4", "--context", "500", "--engine", "sglang"]
OWN = (
    "hardware,model,n_gpus,engine,tp,weights,arrivals,concurrency,input_mean,output_mean,phase,metric,statistic,per,value,date\n"
    "H100-SXM-80GB,llama-3.1-70b,4,vllm,4,fp8,closed,32,2000,200,serving,tpot,mean,request,{value},2026-08-01\n"
)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(paths.FOLDER, str(tmp_path / "data"))
    return tmp_path


def said(*words: str) -> Any:
    result = CliRunner().invoke(cli, [*words, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_an_answer_near_measurements_is_corrected_and_both_numbers_are_there() -> None:
    asked = [*KNOWN[:-1], "1000"]
    near_it, alone = said("estimate", *asked), said("estimate", *asked, "--no-evidence")
    evidence = near_it["evidence"]
    assert alone["evidence"] is None
    assert near_it["computed"] == alone["computed"]
    assert alone["time"] == alone["computed"]["time"]
    assert evidence["distance"] != FAR
    assert evidence["rows"] > 5
    assert near_it["time"] == pytest.approx(alone["time"] * evidence["factor"], rel=1e-9)
    assert near_it["time"] >= near_it["time_ideal"]
    assert near_it["time_low"] <= near_it["time"] <= near_it["time_high"]
    parts = sum(near_it["terms"].values()) + sum(near_it["lost"].values())
    assert parts == pytest.approx(near_it["time"], rel=1e-9)
    assert all(row["chip"] if "chip" in row else row["hardware"] for row in evidence["nearest"])


def test_an_answer_that_nothing_is_near_is_physics_and_says_so() -> None:
    facts = said("estimate", *NOVEL)
    assert facts["evidence"]["distance"] == FAR
    assert facts["time"] == facts["computed"]["time"]
    assert (facts["time_low"], facts["time_high"]) == (facts["computed"]["time_low"], facts["computed"]["time_high"])
    assert any("sglang with gpt-oss-20b" in note and "physics alone" in note for note in facts["assumptions"])


def test_no_measurement_is_read_for_an_answer_without_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near, "_evidence", lambda: pytest.fail("measurements were read"))
    for more in ({"no_evidence": True}, {"ideal": True}, {"enforce_eager": True}):
        assert rm.estimate("llama-3.1-8b", "h100-sxm", batch=8, context=4000, gpus=1, **more).near is None


def test_dollars_follow_from_the_corrected_time() -> None:
    facts, alone = said("estimate", *KNOWN), said("estimate", *KNOWN, "--no-evidence")
    ratio = facts["usd_per_million_tokens"] / alone["usd_per_million_tokens"]
    assert ratio == pytest.approx(facts["time"] / alone["time"], rel=1e-9)


def test_the_list_is_filtered_and_ordered() -> None:
    rows = said("evidence", "list", "--model", "llama-3.1-70b", "--on", "h100-sxm", "--engine", "vllm", "--limit", "7")
    assert len(rows) == 7
    assert {row["model"] for row in rows} <= {"llama-3.1-70b", "meta-llama-3.1-70b-instruct"}
    assert [row["date"] for row in rows] == sorted((row["date"] for row in rows), reverse=True)
    assert {"source", "date", "measured", "predicted"} <= set(rows[0])
    slow = rows[0]["metric"] in ("tpot", "ttft", "itl", "e2e")
    over = rows[0]["measured"] / rows[0]["predicted"]
    assert exp(rows[0]["measured_over_computed_time"]) == pytest.approx(over if slow else 1 / over, rel=1e-9)


def test_the_list_by_nearness_is_ordered_by_what_rows_tell() -> None:
    rows = said("evidence", "list", "--near", "--model", "llama-3.1-70b", "--on", "h100-sxm", "--gpus", "4")
    told = [row["correlation"] for row in rows]
    assert told == sorted(told, reverse=True)
    assert 0 < told[-1] <= told[0] <= 1


def test_own_measurements_are_kept_and_move_answers_near_them(own: Path) -> None:
    base = said("estimate", *KNOWN, "--weights", "fp8")
    assert not evidence_files.own_path().exists()
    path = own / "mine.csv"
    path.write_text(OWN.format(value=f"{base['time']:.6g}"))
    facts = said("evidence", "add", str(path))
    assert (facts["added"], facts["kept"]) == (1, 1)
    (row,) = facts["rows"]
    for value, inside in ((row["predicted"], True), (row["low"] / 1.2, False), (row["high"] * 1.2, False)):
        evidence_files.own_path().unlink()
        path.write_text(OWN.format(value=f"{value:.6g}"))
        assert said("evidence", "add", str(path))["rows"][0]["inside"] is inside
    moved = said("estimate", *KNOWN, "--weights", "fp8")
    assert log(moved["time"] / base["time"]) > 0.05
    again = said("evidence", "add", str(path))
    assert (again["added"], again["replaced"], again["kept"]) == (0, 1, 1)
    listed = said("evidence", "list", "--model", "llama-3.1-70b", "--source", "your own") or said(
        "evidence", "list", "--model", "llama-3.1-70b", "--limit", "3"
    )
    assert any(row["id"].startswith("own-") for row in listed)


def test_what_cannot_be_used_is_refused_and_nothing_is_kept(own: Path) -> None:
    path = own / "bad.csv"
    path.write_text(OWN.format(value="0.02").replace("H100-SXM-80GB", "abacus"))
    result = CliRunner().invoke(cli, ["evidence", "add", str(path)])
    assert isinstance(result.exception, InputError)
    assert "abacus" in str(result.exception)
    assert not evidence_files.own_path().exists()


def test_a_folder_that_cannot_be_written_is_one_line(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = own / "file"
    blocked.write_text("")
    monkeypatch.setenv(paths.FOLDER, str(blocked / "below"))
    path = own / "mine.csv"
    path.write_text(OWN.format(value="0.02"))
    result = CliRunner().invoke(cli, ["evidence", "add", str(path)])
    assert isinstance(result.exception, InputError)
    assert paths.FOLDER in str(result.exception)


@pytest.mark.long
def test_a_plan_and_a_simulation_say_how_near_rows_are() -> None:
    plan = rm.plan("llama-3.1-70b", rm.load_system("h100-sxm", gpus=8), rm.Workload(input=2000, output=200))
    assert plan.to_dict()["evidence"]["decode"]["rows"] > 0
    assert any("within reach" in note for note in plan.assumptions)
    alone = rm.plan(
        "llama-3.1-70b", rm.load_system("h100-sxm", gpus=8), rm.Workload(input=2000, output=200), no_evidence=True
    )
    assert alone.to_dict()["evidence"] is None
    assert plan.best is not None
    run = rm.simulate(plan.best, rm.Poisson(rate=1, requests=200))
    assert any("time per token:" in note for note in run.to_dict()["assumptions"])


def test_rows_are_corrected_but_not_by_themselves(tmp_path: Path) -> None:
    """A row of the table whose value is absurd stays absurd: its own run is not looked at."""
    frame = evidence_files.published()
    like = (frame["at_model"] == "llama-3.1-70b") & (frame["at_engine"] == "vllm") & (frame["hardware"] == "h100-sxm")
    row = frame.filter(like & (frame["at_question"] == "time per token")).row(0, named=True)
    cells = {
        name: str(row[name])
        for name in evidence_files.FACTS
        if name in ("id", "run_id", "source", "date", "model", "hardware", "n_gpus", "engine") and row[name] is not None
    }
    rest = {
        "phase": "serving", "metric": "tpot", "statistic": "mean", "per": "request", "arrivals": "closed", "concurrency": "8", "tp": str(row["n_gpus"]),
        "input_mean": "1000", "output_mean": "200", "weights": "fp8", "value": "1000",
    }  # fmt: skip
    result = rm.predict([cells | rest])
    (prediction,) = result.predictions
    assert prediction.predicted is not None
    assert prediction.predicted < 10
    assert result.to_dict()["computed"]["rows"] == 1


METRICS = Path(__file__).parents[1] / "data/metrics.txt"
SERVER = ["--prometheus", "--set", "hardware=h100-sxm", "--set", "n_gpus=4", "--set", "tp=4", "--set", "weights=fp8"]


def test_metrics_of_a_server_are_measurements(own: Path) -> None:
    """What vLLM 0.11's own logger writes after 200 requests of 2,000 and 200 tokens, a quarter of the prompts cached.

    It was given 260 ms to the first token and 22 ms per token in the mean, of which it reports two histograms: one of
    requests, one of steps. Only the first is a measurement of its own.
    """
    facts = said("evidence", "add", str(METRICS), *SERVER)
    assert {row["metric"]: row["measured"] for row in facts["rows"]} == pytest.approx(
        {"ttft": 0.2580521, "tpot": 0.02199603, "e2e": 4.635263}, rel=1e-6
    )
    kept = {row["metric"]: row for row in evidence_files.own_rows()}
    assert (kept["tpot"]["input_mean"], kept["tpot"]["output_mean"]) == ("2000", "200")
    assert kept["tpot"]["concurrency"] == "32"
    assert kept["tpot"]["shared_prefix_tokens"] == "500"
    assert kept["tpot"]["model"] == "Llama-3.1-70B-Instruct"


REPORT = Path(__file__).parents[1] / "data/guidellm.json"


def test_a_report_of_guidellm_is_measurements(own: Path) -> None:
    """What guidellm 0.7.4 writes of 24 requests in 4 streams before its mock server: 32 tokens each."""
    words = ["--set", "hardware=h100-sxm", "--set", "weights=bf16", "--set", "input_mean=100"]
    facts = said("evidence", "add", str(REPORT), *words)
    kept = {(row["metric"], row["statistic"]): row for row in evidence_files.own_rows()}
    assert {key: float(row["value"]) for key, row in kept.items()} == pytest.approx(
        {
            ("ttft", "p50"): 0.0757396, ("ttft", "mean"): 0.1022254, ("tpot", "p50"): 0.0135018,
            ("tpot", "mean"): 0.0142344, ("e2e", "p50"): 0.4965858, ("e2e", "mean"): 0.5442521,
        },
        rel=1e-5,
    )  # fmt: skip
    assert {(row["arrivals"], row["concurrency"], row["num_requests"]) for row in kept.values()} == {
        ("closed", "4", "24")
    }
    assert {row["output_mean"] for row in kept.values()} == {"32"}
    outside = [row for row in facts["rows"] if row["inside"] is False]
    assert outside
    for row in outside:
        parts = [cause["part"] for cause in row["explained_by"]]
        assert parts == sorted(parts, reverse=True)
        assert 0 < sum(parts) <= 1 + 1e-9


@pytest.mark.parametrize(
    ("words", "change", "message"),
    [
        ([], {}, "does not say it"),
        (["--set", "hardware=h100-sxm"], {"metrics": {}}, "is not as guidellm 0.7 writes it"),
        (["--set", "hardware=h100-sxm"], {"config": {"strategy": {"type_": "tides"}}}, "strategy tides"),
    ],
)
def test_reports_that_say_too_little_are_refused(
    own: Path, words: list[str], change: dict[str, Any], message: str
) -> None:
    report = json.loads(REPORT.read_text())
    report["benchmarks"][0] |= change
    path = own / "report.json"
    path.write_text(json.dumps(report))
    result = CliRunner().invoke(cli, ["evidence", "add", str(path), *words])
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("_count{", "_other{", "fewer than 50"),
        ('running{engine="0",model_name="meta-llama/Llama-3.1-70B-Instruct"} 32.0', "running 0", "no request runs"),
        ("vllm:", "abacus:", "needs metrics of one vLLM"),
        ("} 32.0", "} many", "no text of Prometheus metrics"),
    ],
)
def test_metrics_that_say_too_little_are_refused(own: Path, old: str, new: str, message: str) -> None:
    path = own / "metrics.txt"
    path.write_text(METRICS.read_text().replace(old, new))
    result = CliRunner().invoke(cli, ["evidence", "add", str(path), *SERVER])
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
    assert not evidence_files.own_path().exists()


def test_a_plan_says_how_to_check_it(own: Path) -> None:
    """The benchmark's JSON, with the values that the plan expects, lies inside what `evidence add` expects."""
    words = [
        "plan",
        "llama-3.1-8b",
        "--on",
        "h100-sxm",
        "--gpus",
        "1",
        "--input",
        "1000",
        "--output",
        "200",
        "--verify",
    ]
    facts = said(*words, "--cached-prefix", "0.25", "--weights", "bf16", "--kv", "bf16", "--tpot", "0.03")
    verify, best = facts["verify"], facts["best"]
    users = round(best["concurrency"])
    for part in (
        "--random-input-len 750 --random-output-len 200", "--random-prefix-len 250", f"--max-concurrency {users}",
        f"--num-prompts {10 * users}", "--model meta-llama/Llama-3.1-8B-Instruct",
    ):  # fmt: skip
        assert part in verify["vllm"].replace(" \\\n  ", " ")
    expected = {row["metric"].split(" [")[0]: row for row in verify["expected"]}
    step, first = expected["mean time per output token"], expected["mean time to first token"]
    assert step["low"] < step["value"] < step["high"]
    # Simulated: users of equal requests stay together, so that each waits for the prompts of several before his own is
    # read rather than beside his answer. From a request to the next it is the same time.
    assert first["value"] > 1.5 * best["time_to_first_token"]
    whole = best["time_to_first_token"] + 200 * best["time_per_output_token"]
    assert first["value"] + 200 * step["value"] == pytest.approx(whole, rel=0.05)
    assert (
        verify["expected_of"]
        == f"the benchmark, simulated: {10 * users:,} requests of {users:,} users who begin together"
    )
    run = {
        "backend": "vllm", "model_id": "meta-llama/Llama-3.1-8B-Instruct", "max_concurrency": users,
        "completed": 10 * users, "total_input_tokens": 10_000 * users, "total_output_tokens": 2_000 * users,
        "mean_tpot_ms": 1e3 * step["value"], "date": "20261101",
    }  # fmt: skip
    path = own / "result.json"
    path.write_text(json.dumps(run))
    kept = said(*[word for word in verify["keep"].replace("result.json", str(path)).split()[1:]])
    assert [(row["metric"], row["inside"]) for row in kept["rows"]] == [("tpot", True)]
    assert verify["again"].split()[1:] == [
        *words[:2],
        *(f"{a}={b}" for a, b in zip(words[2:-1:2], words[3::2], strict=True)),
        "--tpot=0.03",
        "--cached-prefix=0.25",
        "--weights=bf16",
        "--kv=bf16",
    ]
    streams = verify["guidellm"].replace(" \\\n  ", " ")
    assert f"streams={users}," in streams
    assert (
        '"prompt_tokens": 750, "output_tokens": 200, "prefix_buckets": [{"prefix_count": 1, "prefix_tokens": 250}]'
        in streams
    )


def test_what_the_bound_expects_has_no_range() -> None:
    words = ["plan", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "1", "--input", "1000", "--output", "200"]
    rows = said(*words, "--tpot", "0.03", "--ideal", "--verify")["verify"]["expected"]
    assert len(rows) == 3
    for row in rows:
        assert [row["low"], row["high"]] == pytest.approx([row["value"]] * 2, rel=1e-12)


@pytest.mark.parametrize("engine", ["trtllm", "sglang", "vllm", "llama.cpp"])
@pytest.mark.parametrize(
    ("model", "system", "more"),
    [
        ("llama-3.3-70b", "h100-sxm", ["--tpot", "0.04"]),
        ("qwen3-30b-a3b", "rtx-4090", ["--tpot", "0.1"]),
        ("deepseek-v3", "h200-sxm", ["--tpot", "0.05", "--draft-tokens", "2"]),
    ],
)
def test_a_benchmark_of_any_engine_is_kept_as_what_was_planned(
    engine: str, model: str, system: str, more: list[str]
) -> None:
    words = ["plan", model, "--on", system, "--gpus", "8", "--input", "3000", "--output", "300", "--ttft", "2", *more]
    facts = said(*words, "--engine", engine, "--verify", "--no-evidence")
    verify, best = facts["verify"], facts["best"]
    assert f"--base-url http://127.0.0.1:{FRONT[engine if engine not in verify else 'vllm']} " in verify["vllm"]
    assert ("sglang" in verify) == (engine in ("vllm", "sglang"))
    kept = verify["keep"].split()
    columns = dict(pair.split("=", 1) for pair in kept[kept.index("--set") + 1 :: 2])
    users = round(best["concurrency"])
    run = {
        "backend": "sglang" if engine == "sglang" else "openai", "model_id": model, "max_concurrency": users,
        "completed": 10 * users, "total_input_tokens": 30_000 * users, "total_output_tokens": 3_000 * users,
        "mean_tpot_ms": 30.0, "date": "20261101",
    }  # fmt: skip
    (row,) = rows_of(run, columns)
    q = question(read_row(row, 2))
    pools = best["pools"]
    assert q.row.family == engine
    assert q.deployment.layout.text() == (pools["write"] if pools else best["layout"])
    assert q.draft_tokens == best["draft_tokens"]
    if pools:
        assert q.deployment.prefill is not None
        assert q.deployment.prefill.text() == pools["read"]
        assert q.deployment.prefill_workers * float(q.deployment.prefill.gpus) == pools["reading_gpus"]
        assert q.deployment.workers * float(q.deployment.layout.gpus) == best["gpus"] - pools["reading_gpus"]
    else:
        assert q.deployment.workers == best["units"]
        # Of all micro-batches and copies together, as the plan counts them, with places for arrivals at random.
        mean, copies = best["concurrency"], best["units"]
        assert mean <= q.max_num_seqs <= mean + 2 * (mean * copies) ** 0.5 + 8 * copies


def test_every_point_of_a_plan_has_a_correction_of_its_own() -> None:
    words = ["plan", "deepseek-r1", "--on", "h200", "--gpus", "8", "--input", "2000", "--output", "500"]
    facts = said(*words, "--engine", "sglang", "--tpot", "30ms")
    points = facts["frontier"]
    assert {p["evidence"] for p in points} <= {"near", "middling", FAR}
    spread = {round(p["time_per_output_token_high"] / p["time_per_output_token"], 4) for p in points}
    assert len(spread) > 1
    for p in points:
        assert p["time_per_output_token_low"] <= p["time_per_output_token"] <= p["time_per_output_token_high"]
        assert p["time_to_first_token_low"] <= p["time_to_first_token"] <= p["time_to_first_token_high"]
    best, decode = facts["best"], facts["evidence"]["decode"]
    # Where nothing is near the range is that of physics, here it is that of the evidence, above the ideal bound.
    assert decode["distance"] != FAR
    low, high = (best[f"time_per_output_token_{end}"] / best["time_per_output_token"] for end in ("low", "high"))
    assert high == pytest.approx(decode["factor_high"] / decode["factor"], rel=1e-6)
    assert low >= decode["factor_low"] / decode["factor"] * (1 - 1e-6)


def test_factors_of_many_points_are_those_of_each() -> None:
    from rackmath.api.plan import PlanRequest, run_plan

    answer = run_plan(PlanRequest(model="llama-3.1-70b", on="h100", gpus=8, input=2000.0, output=300.0))
    search, places = answer.plan.search, answer.plan.frontier
    near_points = answer.question.points_near
    assert near_points is not None
    assert search.corrections is not None
    for place in places[:: max(len(places) // 5, 1)]:
        (steps,) = near_points.configurations(search.points.taken(places[places == place]), search.layouts)
        assert search.corrections.decode[place] == pytest.approx(near.near(steps).factor, rel=0.05)


def test_what_is_said_of_a_point_does_not_depend_on_the_others_asked_with_it() -> None:
    from rackmath.api.plan import PlanRequest, run_plan

    answer = run_plan(PlanRequest(model="deepseek-v3", on="h200", gpus=16, input=2000.0, output=500.0, engine="sglang"))
    search, places = answer.plan.search, answer.plan.frontier
    near_points = answer.question.points_near
    assert near_points is not None
    points = near_points.configurations(search.points.taken(places), search.layouts)
    together = near.factors_of(points)
    for i in range(0, len(points), max(len(points) // 6, 1)):
        alone = near.factors_of(points[i : i + 1])
        for whole, part in zip(together[:3], alone[:3], strict=True):
            assert part[0] == pytest.approx(whole[i], rel=1e-9)
        assert alone[3][0] == together[3][i]


def test_measured_runs_stand_beside_the_frontier_as_they_were_measured(own: Path) -> None:
    """Output tokens and speed of one run, from rows that state time per token and all tokens per second."""
    words = ["plan", "deepseek-r1", "--on", "h200", "--gpus", "64", "--input", "1000", "--output", "1000"]
    facts = said(*words, "--engine", "sglang")
    run = next(m for m in facts["measured"] if m["id"] == "ix-0932")
    table = near.all_measurements().to_dicts()
    number = next(r["run_id"] for r in table if r["id"] == "ix-0932")
    rows = {r["metric"]: r for r in table if r["run_id"] == number}
    assert run["tokens_per_second_per_user"] == pytest.approx(1 / rows["tpot"]["value"])
    total = rows["total_throughput"]["value"]
    part = rows["tpot"]["output_mean"] / (rows["tpot"]["input_mean"] + rows["tpot"]["output_mean"])
    assert run["tokens_per_second_per_gpu"] == pytest.approx(total * part)
    assert {"measured"} <= {s.name for s in _panels(facts)[0].series}
    assert said(*words, "--engine", "sglang", "--no-evidence")["measured"] == []
    # The same architecture under another name has been measured as well.
    assert said("plan", "deepseek-v3", *words[2:])["measured"]


def _panels(facts: dict[str, Any]) -> Any:
    from rackmath.figures.pictures import frontier_figure

    return frontier_figure(facts).panels


def test_measured_times_stand_beside_the_curve_of_a_pass() -> None:
    result = rm.EstimateRequest(model="deepseek-r1", on="h200", layout="tp8", batch=64.0, context=4000.0)
    from rackmath.api.estimate import run_estimate

    panel = run_estimate(result).picture().panels[0]
    (points,) = [s for s in panel.series if s.name == "measured"]
    rows = {
        (r["at_load"] * r["at_gpus"], r["value"] * 1e3)
        for r in near.all_measurements().to_dicts()
        if r["at_gpus"] == 8 and r["at_chip"] == "H200 SXM 141GB"
    }
    assert len(points.x) > 5
    assert set(zip(points.x, points.y, strict=True)) <= rows
