"""The command: its JSON, its files, its range, and one line for what cannot be meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from rackmath.cli import render
from rackmath.cli.app import cli
from rackmath.errors import InputError, RackmathError
from rackmath.io import snapshots
from rackmath.serving.simulator import events
from rackmath.sweeps import workers

BASE = ["simulate", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "2"]
SOME = ["--poisson", "20", "--input", "800", "--output", "100", "--spread", "0.3", "--requests", "400"]


def run(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(cli, [*BASE, *arguments, "--json"])
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


def test_the_json_that_users_rely_on() -> None:
    found = run(*SOME)
    for field in (
        "requests", "time_to_first_token", "time_per_output_token", "latency", "throughput", "goodput", "hit_rate",
        "utilisation", "usd_per_million_tokens", "seconds",
    ):  # fmt: skip
        assert field in found
    for field in ("time_to_first_token", "time_per_output_token", "latency"):
        one = found[field]
        assert one["p50"] <= one["p90"] <= one["p99"]
        assert one["confidence"]["p90"][0] <= one["p90"] <= one["confidence"]["p90"][1]
    assert found["requests"] == 400
    assert 0 < found["utilisation"] <= 1
    low, high = (found["range"][end]["latency"]["p50"] for end in ("low", "high"))
    assert low < found["latency"]["p50"] < high
    assert found["throughput"] == pytest.approx(100 * 400 / found["span"], rel=0.05)
    again = run(*SOME)
    assert {k: v for k, v in again.items() if k != "seconds"} == {k: v for k, v in found.items() if k != "seconds"}


def test_engines_that_schedule_ahead_keep_first_tokens_a_step_longer() -> None:
    usual, told, early = (
        run(*SOME, "--engine", "vllm", "--no-evidence", *more)
        for more in (("--year", "2026.5"), ("--year", "2026.5", "--no-async-scheduling"), ("--year", "2025.5"))
    )
    step = usual["time_per_output_token"]["mean"]
    waits = usual["time_to_first_token"]["mean"] - told["time_to_first_token"]["mean"]
    assert 0.8 * step < waits < 1.2 * step
    note = "a step is scheduled when the one before begins; --no-async-scheduling waits for its end"
    assert note in usual["assumptions"]
    assert note not in told["assumptions"] + early["assumptions"]
    both = CliRunner().invoke(cli, [*BASE, *SOME, "--async-scheduling", "--no-async-scheduling"])
    assert isinstance(both.exception, InputError)
    assert both.exception.field == "--async-scheduling"


def test_first_tokens_wait_for_half_of_the_interval_of_looking() -> None:
    usual, seldom = (run(*SOME, "--engine", "sglang", "--scheduler-recv-interval", n) for n in ("1", "30"))
    step = usual["time_per_output_token"]["mean"]
    waits = seldom["time_to_first_token"]["mean"] - usual["time_to_first_token"]["mean"]
    # Half of the interval, and the prompts of all who came in it: what is looked at together is read together.
    assert 10 * step < waits < 20 * step


def test_limits_set_goodput() -> None:
    loose, tight = run(*SOME, "--ttft", "100", "--tpot", "100"), run(*SOME, "--ttft", "0.02")
    assert loose["good_share"] == 1.0
    assert 0 <= tight["good_share"] < 1
    assert loose["goodput"] == pytest.approx(loose["requests_per_second"])


def test_the_bound_is_faster_than_the_engine() -> None:
    real, ideal = run(*SOME), run(*SOME, "--ideal")
    assert ideal["latency"]["p50"] < real["latency"]["p50"]
    assert ideal["range"] is None


def test_two_pools_keep_prompts_out_of_answers() -> None:
    asked = ["--poisson", "40", "--input", "4000", "--output", "100", "--requests", "600"]
    one = run(*asked, "--gpus", "4")
    two = run(*asked, "--gpus", "4", "--prefill-gpus", "2")
    assert two["replicas"] == [2, 2]
    assert two["time_per_output_token"]["p90"] < one["time_per_output_token"]["p90"]
    assert two["requests"] == one["requests"]


def test_stages_take_a_pass_per_step_and_hold_twice_the_model(tmp_path: Path) -> None:
    """Two stages: two micro-batches go round; one user alone waits as long as on one accelerator, and a hop.

    Of many users each waits for the prompts of both micro-batches, which come one by one.
    """
    alone = ["--users", "1", "--input", "500", "--output", "50", "--requests", "40"]
    one, two = run(*alone, "--gpus", "1", "--layout", "tp1"), run(*alone, "--layout", "tp1,pp2")
    assert two["replicas"] == [2]
    ratio = two["time_per_output_token"]["p50"] / one["time_per_output_token"]["p50"]
    assert 0.95 < ratio < 1.2
    many = ["--users", "128", "--input", "500", "--output", "50", "--requests", "1000"]
    staged, wide = run(*many, "--layout", "tp1,pp2"), run(*many, "--gpus", "1", "--layout", "tp1")
    assert 1.15 < staged["throughput"] / wide["throughput"] < 1.7
    # What prompts take next to nothing of, two accelerators do twice.
    long = ["--users", "8", "--input", "20", "--output", "2000", "--requests", "32"]
    staged, wide = run(*long, "--layout", "tp1,pp2"), run(*long, "--gpus", "1", "--layout", "tp1")
    assert 0.9 < staged["time_per_output_token"]["p50"] / wide["time_per_output_token"]["p50"] < 1.15
    staged = run(*many, "--layout", "tp1,pp2")
    assert any("passes all stages" in note for note in staged["assumptions"])
    # Of 16 sequences that vLLM runs at once each micro-batch has eight.
    shared = run(*many, "--layout", "tp1,pp2", "--seats", "16")
    assert any("a step takes at most 8 sequences" in note for note in shared["assumptions"])
    assert shared["mean_batch"] <= 8


def test_a_fast_pool_beside_a_standard_one() -> None:
    asked = [*SOME, "--seats", "64", "--beside", "gpus=2 layout=tp2 seats=4 share=0.25"]
    found = run(*asked)
    standard, fast = found["services"]
    assert standard["requests"] + fast["requests"] == 400
    assert fast["requests"] == pytest.approx(100, abs=30)
    assert fast["time_per_output_token"]["p50"] < standard["time_per_output_token"]["p50"]
    assert fast["usd_per_million_tokens"] > standard["usd_per_million_tokens"]
    assert found["replicas"] == [2, 1]
    text = CliRunner().invoke(cli, [*BASE, *asked]).output
    assert "tp2" in text
    assert "by what they ask for" in text


def test_models_that_a_trace_names(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = "".join(f"{i / 10},500,50,{'GPT-4' if i % 4 == 0 else 'ChatGPT'}\n" for i in range(200))
    path.write_text("Timestamp,Request tokens,Response tokens,Model\n" + rows, encoding="utf-8")
    found = run("--trace", str(path), "--beside", "model=llama-3.1-70b gpus=4 for=GPT-4")
    assert [one["requests"] for one in found["services"]] == [150, 50]
    assert "llama-3.1-70b" in found["services"][1]["replicas"][0]
    assert run("--trace", str(path))["services"] == []


def test_replicas_of_another_chip_take_their_part() -> None:
    found = run(*SOME, "--beside", "on=h200-sxm gpus=1")
    assert len(found["services"]) == 1
    assert found["services"][0]["requests"] == 400


def test_readers_on_another_chip() -> None:
    """Prompts read on faster multipliers come sooner; caches take the slower network, and each pool has its price."""
    asked = [
        "--poisson",
        "10",
        "--input",
        "4000",
        "--output",
        "100",
        "--requests",
        "300",
        "--gpus",
        "4",
        "--prefill-gpus",
        "2",
    ]
    same, other = run(*asked), run(*asked, "--prefill-on", "b200-sxm")
    assert other["time_to_first_token"]["p50"] < same["time_to_first_token"]["p50"]
    assert other["usd_per_million_tokens"] > same["usd_per_million_tokens"]
    slow = run(*asked, "--prefill-on", "h20")
    assert slow["time_to_first_token"]["p50"] > same["time_to_first_token"]["p50"]


def test_a_prefix_cache_makes_first_tokens_quicker() -> None:
    asked = [
        "--poisson",
        "2",
        "--turns",
        "6",
        "--grows",
        "500",
        "--input",
        "4000",
        "--output",
        "200",
        "--requests",
        "600",
    ]
    without, held = (
        run(*asked, "--tiers", "none"),
        run(*asked, "--tiers", "hbm=10GB,dram=200GB@50GB/s+10us", "--router", "prefix-aware"),
    )
    assert held["hit_tokens"] > 0.5
    assert held["time_to_first_token"]["p50"] < without["time_to_first_token"]["p50"]
    assert set(held["hit_rate"]) == {"hbm", "dram"}


def test_prefixes_are_kept_unless_somebody_says_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    rows = [
        {"timestamp": 1000 * i, "input_length": 1500, "output_length": 20, "hash_ids": [0, 1, 2 + i]} for i in range(50)
    ]
    path.write_text("\n".join(json.dumps(one) for one in rows), encoding="utf-8")
    usual, none, all_of_it = (
        run("--trace", str(path), *more) for more in ([], ["--tiers", "none"], ["--tiers", "hbm=inf"])
    )
    assert usual["hit_rate"]["hbm"] > 0.5
    assert none["hit_rate"] == {}
    # The first prompt misses three blocks on each of two replicas at most; the others one each.
    assert all_of_it["hit_rate"]["hbm"] >= (150 - 50 - 4) / 150 - 1e-9
    assert any("prefixes stay" in one for one in usual["assumptions"])


def test_policies_trade_one_wait_for_another() -> None:
    asked = ["--poisson", "8", "--input", "3000", "--output", "200", "--requests", "800", "--spread", "0.3"]
    found = {policy: run(*asked, "--policy", policy) for policy in ("chunked", "prefill-first", "decode-first")}
    first = {policy: one["time_to_first_token"]["mean"] for policy, one in found.items()}
    assert max(first["prefill-first"], first["chunked"]) < first["decode-first"]


def test_an_engine_mixes_prompts_and_answers_as_it_does() -> None:
    """SGLang reads waiting prompts first, vLLM and TensorRT-LLM beside answers; what is asked for goes before."""
    asked = ("--poisson", "30", "--input", "800", "--output", "100", "--requests", "400", "--no-evidence")
    users = "time_per_output_token"
    for engine, own, other in (
        ("vllm", "chunked", "prefill-first"),
        ("sglang", "prefill-first", "chunked"),
        ("trtllm", "chunked", "prefill-first"),
    ):
        default, same, changed = (
            run(*asked, "--engine", engine, *more) for more in ((), ("--policy", own), ("--policy", other))
        )
        assert default[users] == same[users]
        assert default[users] != changed[users]


@pytest.mark.parametrize("piece", [150, 1000])
def test_files_hold_every_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr("rackmath.api.simulation.result._ROWS", piece)
    rows, picture, trace, over = (tmp_path / name for name in ("r.parquet", "r.svg", "r.json", "r.csv"))
    found = run(
        *SOME, "--out", str(rows), "--plot", str(picture), "--timeline", str(trace), "--series", str(over)
    )  # fmt: skip
    assert set(pl.read_csv(over).columns) == {
        "time",
        "arrivals",
        "waiting",
        "decoding",
        "tokens_per_second",
        "cached_share",
        "first_p50",
        "first_p99",
    }
    table = pl.read_parquet(rows)
    assert len(table) == 400
    assert table["latency"].quantile(0.5) == pytest.approx(found["latency"]["p50"], rel=0.02)
    assert table["arrival"].is_sorted()
    assert table["output"].sum() / found["span"] == pytest.approx(found["throughput"], rel=0.1)
    assert picture.stat().st_size > 10_000
    events = json.loads(trace.read_text())["traceEvents"]
    assert {e["ph"] for e in events} == {"X"}
    assert np.isfinite([e["ts"] for e in events]).all()
    text = CliRunner().invoke(cli, [*BASE, *SOME]).output
    assert "time to first token" in text
    assert "per million tokens" in text


def test_a_trace_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("arrival,input,output\n" + "".join(f"{i / 10},500,50\n" for i in range(100)))
    assert run("--trace", str(path))["requests"] == 100
    assert run("--trace", str(path), "--first", "10")["requests"] == 10
    slow, fast = run("--trace", str(path)), run("--trace", str(path), "--scale", "5")
    assert fast["span"] < slow["span"]


def test_two_pools_go_on_from_their_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped while reading, stopped while writing: the same end."""
    monkeypatch.setattr(snapshots, "_INTERVAL", 0.0)
    monkeypatch.setattr(events, "SLICE", 100)
    pools = [*SOME, "--prefill-gpus", "1"]
    whole = run(*pools)
    show = render.show_progress
    for stop in (3, 7):
        path, said = tmp_path / f"run{stop}.npz", [0]

        def stopped(text: str, said: list[int] = said, stop: int = stop) -> None:
            said[0] += 1
            if said[0] == stop:
                raise KeyboardInterrupt

        monkeypatch.setattr(render, "show_progress", stopped)
        result = CliRunner().invoke(cli, [*BASE, *pools, "--checkpoint", str(path), "--json"])
        assert result.exit_code != 0
        assert path.exists(), stop
        monkeypatch.setattr(render, "show_progress", show)
        again = run(*pools, "--checkpoint", str(path))
        assert {k: v for k, v in again.items() if k != "seconds"} == {k: v for k, v in whole.items() if k != "seconds"}
        assert not path.exists()


def test_an_interrupted_run_goes_on_from_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "_INTERVAL", 0.0)
    monkeypatch.setattr(events, "SLICE", 100)
    path = tmp_path / "run.npz"
    whole = run(*SOME)
    told: list[str] = []

    def stop(text: str) -> None:
        told.append(text)
        if len(told) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(render, "show_progress", stop)
    with pytest.raises(click.Abort):
        CliRunner().invoke(
            cli, [*BASE, *SOME, "--checkpoint", str(path)], catch_exceptions=False, standalone_mode=False
        )
    monkeypatch.setattr(render, "show_progress", lambda text: None)
    assert path.exists()
    other = CliRunner().invoke(cli, [*BASE, *SOME, "--seed", "9", "--checkpoint", str(path)])
    assert "another run" in str(other.exception)
    resumed = run(*SOME, "--checkpoint", str(path))
    assert not path.exists()
    assert {k: v for k, v in resumed.items() if k != "seconds"} == {k: v for k, v in whole.items() if k != "seconds"}
    path.write_text("no checkpoint")
    assert "is no checkpoint" in str(CliRunner().invoke(cli, [*BASE, *SOME, "--checkpoint", str(path)]).exception)


def test_what_if_compares_values_on_the_same_traffic(tmp_path: Path) -> None:
    picture = tmp_path / "w.svg"
    found = run(*SOME, "--what-if", "budget=512,4096", "--workers", "1", "--plot", str(picture))
    assert [one["value"] for one in found["runs"]] == ["512", "4096"]
    alone = run(*SOME, "--budget", "512")
    latency = {key: value for key, value in alone["latency"].items() if not key.endswith("_range")}
    assert found["runs"][0]["latency"] == latency
    assert picture.stat().st_size > 5000
    first, second = (one["time_to_first_token"] for one in found["runs"])
    for p, change in found["runs"][1]["difference"]["time_to_first_token"].items():
        assert change["value"] == pytest.approx(second[p] - first[p])
        assert change["half_width"] > 0
    other = run(*SOME, "--what-if", "requests=400,500", "--workers", "1")
    assert other["runs"][1]["difference"] is None
    tiers = run(*SOME, "--what-if", "tiers=hbm=1GB|hbm=1GB,dram=2GB@10GB/s", "--workers", "1")
    assert len(tiers["runs"]) == 2
    failing = run(*SOME, "--what-if", "gpus=1,3", "--layout", "tp2", "--workers", "1")
    assert all("do not divide" in one["error"] for one in failing["runs"])


def test_the_highest_rate_of_the_bound_has_no_range() -> None:
    words = [*BASE, *SOME, "--ttft", "0.5", "--capacity", "p90", "--ideal"]
    printed = " ".join(CliRunner().invoke(cli, words).stdout.split())
    assert "that keeps its limits at p90" in printed
    assert "requests/s, where every step" not in printed


def test_the_highest_rate_keeps_its_limits_and_a_higher_one_does_not() -> None:
    found = run(*SOME, "--ttft", "0.5", "--tpot", "0.06", "--capacity", "p90")
    assert found["low"] < found["high"] <= 1.011 * found["low"]
    slow, fast = found["rate_range"]
    assert slow < found["rate"] < fast
    # Where steps are far from their limit, those that take f times as long keep limits up to a lower rate by about f.
    assert slow == pytest.approx(found["rate"] / run(*SOME)["range"]["steps"][1], rel=0.5)
    below, above = (run(*SOME, "--scale", str(found["scale"] * f)) for f in (1.0, 1.05))
    for facts, keeps in ((below, True), (above, False)):
        within = facts["time_to_first_token"]["p90"] <= 0.5 and facts["time_per_output_token"]["p90"] <= 0.06
        assert within is keeps
    for wrong in ([], ["--users", "4"]):
        base = SOME if not wrong else ["--input", "10", "--output", "10"]
        result = CliRunner().invoke(cli, [*BASE, *base, *wrong, "--capacity", "p99"])
        assert isinstance(result.exception, RackmathError)


def test_a_stopped_search_goes_on_from_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "runs"
    asked = [*SOME, "--what-if", "budget=512,1024,4096", "--workers", "1"]
    whole = run(*asked)
    run(*SOME, "--what-if", "budget=512,1024", "--workers", "1", "--checkpoint", str(folder))
    assert len(list(folder.glob("part-*"))) == 2
    computed: list[str] = []
    real = workers.computed
    monkeypatch.setattr(workers, "computed", lambda chunk: computed.append(chunk.text) or real(chunk))
    assert run(*asked, "--checkpoint", str(folder)) == whole
    assert len(computed) == 1


def test_a_plan_is_ranked_by_its_slowest_users() -> None:
    asked = ["plan", "llama-3.1-70b", "--on", "h200-sxm", "--gpus", "8", "--input", "2000", "--output", "300"]
    result = CliRunner().invoke(cli, [*asked, "--ttft", "0.6", "--tpot", "0.015", "--simulate", "4", "--json"])
    found = json.loads(result.stdout)
    rows = found["simulated"]
    assert len(rows) > 1
    assert rows[0]["keeps_limits"]
    for one in rows:
        slowest = one["time_to_first_token"]["p99"] <= 0.6 and one["time_per_output_token"]["p99"] <= 0.015
        assert one["keeps_limits"] is slowest
    ranks = [one["keeps_limits"] for one in rows]
    assert ranks == sorted(ranks, reverse=True), "what keeps its limits stands before what does not"
    assert not all(ranks), "limits on the mean do not hold the slowest"
    kept = [one["usd_per_million_tokens"] for one in rows if one.get("keeps_limits")]
    assert kept == sorted(kept)
    assert found["best"]["layout"] in {one["layout"] for one in rows}
    assert any("read" in one["layout"] for one in rows), "two pools are simulated as well"
    assert not [one["error"] for one in rows if "error" in one]


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        ["--poisson", "1", "--users", "2", "--input", "5", "--output", "5"],
        ["--poisson", "-1", "--input", "5", "--output", "5"],
        ["--poisson", "1", "--input", "nan", "--output", "5"],
        ["--poisson", "1", "--input", "5", "--output", "1e12"],
        [*SOME, "--tiers", "hbm"],
        [*SOME, "--tiers", "hbm=10furlongs"],
        [*SOME, "--acceptance", "0.5"],
        [*SOME, "--draft-tokens", "2"],
        [*SOME, "--layout", "tp3"],
        [*SOME, "--beside", "gpus=2 colour=red"],
        [*SOME, "--beside", "seats=2"],
        [*SOME, "--beside", "gpus=2 share=1.5"],
        [*SOME, "--beside", "gpus=2 model=llama-3.1-70b"],
        [*SOME, "--beside", "gpus=1 for=GPT-4"],
        [*SOME, "--beside", "gpus=two"],
        [*SOME, "--beside", "gpus=1", "--prefill-gpus", "1"],
        [*SOME, "--beside", "gpus=1 share=0.6", "--beside", "gpus=1 share=0.5"],
        [*SOME, "--prefill-layout", "tp1"],
        [*SOME, "--prefill-on", "b200-sxm"],
        [*SOME, "--prefill-gpus", "1", "--prefill-on", "m1-max"],
        [*SOME, "--prefill-gpus", "2"],
        [*SOME, "--out", "rows.csv"],
        [*SOME, "--policy", "static", "--preemption", "recompute"],
        [*SOME, "--policy", "chunked", "--preemption", "retract"],
        [*SOME, "--budget", "10", "--seats", "20"],
        [*SOME, "--classes", "a,b"],
        [*SOME, "--mtbf", "-5"],
        [*SOME, "--what-if", "colour=red"],
        [*SOME, "--what-if", "budget=many"],
        [*SOME, "--checkpoint", "run.txt"],
        ["--trace", "nowhere.csv"],
        ["--users", "3", "--input", "100", "--output", "10", "--prefill-gpus", "1"],
        ["--poisson", "1", "--input", "2000000", "--output", "10", "--requests", "5"],
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_one_line(wrong: list[str]) -> None:
    result = CliRunner().invoke(cli, [*BASE, *wrong])
    assert isinstance(result.exception, RackmathError), (result.output, result.exception)
    assert "\n" not in str(result.exception)


def test_the_unknown_is_refused() -> None:
    result = CliRunner().invoke(cli, ["simulate", "lama", "--on", "h100-sxm", "--gpus", "1", *SOME])
    assert isinstance(result.exception, InputError)
