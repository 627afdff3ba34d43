"""Sweeps: rows are plans, chunks are pure, and folders resume without losing or repeating."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rackmath.cli.app import main
from rackmath.engine import Layout, estimate
from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.sweeps import grids, plans
from rackmath.sweeps.chunks import Chunk, Folder, chunk_of, computed, grid_chunks, plan_chunks
from rackmath.sweeps.grid_request import SweepRequest, run_sweep
from rackmath.sweeps.workers import on_this_machine

CASE = {
    "model": "llama-3.1-8b",
    "on": "h100-sxm",
    "gpus": None,
    "layout": "tp1",
    "phase": "decode",
    "weights": None,
    "kv": None,
    "engine": "vllm",
    "year": 2026.5,
    "ideal": True,
}
AXES = {"batch": [1.0, 8.0, 64.0], "context": [100.0, 1000.0], "cached_tokens": [0.0], "draft_tokens": [0.0]}
ASKED = {"gpus": 2, "input": 1000.0, "output": 200.0}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    out = capsys.readouterr()
    return int(ended.value.code or 0), out.out, out.err


def test_a_grid_is_the_engine_point_by_point() -> None:
    table = grids.evaluated(CASE, AXES, 0, 6)
    model, system = catalogue.model("llama-3.1-8b"), catalogue.system("h100-sxm")
    for r in table.iter_rows(named=True):
        one = estimate(model, system, Layout(), batch=r["batch"], context=r["context"])
        assert r["time"] == pytest.approx(float(one.time))
        assert r["bound_by"] == str(one.bound_by)
        assert r["fits"] == bool(one.memory.fits)
        assert r["usd_per_million_tokens"] == pytest.approx(system.price * float(one.time) / r["batch"] * 1e6)
    assert table["batch"].to_list() == [1, 1, 8, 8, 64, 64]


def test_slices_of_a_grid_are_the_grid() -> None:
    whole = grids.evaluated(CASE, AXES, 0, 6)
    assert pl.concat([grids.evaluated(CASE, AXES, i, i + 2) for i in (0, 2, 4)]).equals(whole)


def test_axes_are_lists_or_even_ratios() -> None:
    assert grids.axis("1,2,4", "--batch") == [1, 2, 4]
    assert grids.axis("1:1000:4", "--batch") == pytest.approx([1, 10, 100, 1000])
    for wrong in ("1:2", "x", "4:1:3", "1:2:0", "0:4:2", "1:2:3:4", ""):
        with pytest.raises(InputError, match="--batch"):
            grids.axis(wrong, "--batch")


def test_rows_of_a_comparison_are_what_plan_says(capsys) -> None:
    case = next(
        plans.cases({**ASKED, "weights": "fp8", "speed": 40.0}, {"model": ["llama-3.1-8b"], "on": ["h100-sxm"]})
    )
    row = plans.row(case)
    status, out, _ = run(
        capsys,
        *("plan", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "2", "--input", "1000", "--output", "200"),
        *("--weights", "fp8", "--tpot", str(1 / 40.0), "--json"),
    )
    best = json.loads(out)["best"]
    assert status == 0
    assert row["usd_per_million_at_speed"] == pytest.approx(best["usd_per_million_output_tokens"])
    assert row["low_at_speed"] == pytest.approx(best["usd_per_million_output_tokens_low"])
    assert row["best_layout"] == best["layout"]


def test_speed_at_a_cost_and_cost_at_a_speed_are_inverse() -> None:
    keys = {"model": ["llama-3.1-8b"], "on": ["h100-sxm"]}
    first = plans.row(next(plans.cases({**ASKED, "weights": "fp8", "speed": 60.0}, keys)))
    cost = first["usd_per_million_at_speed"]
    again = plans.row(next(plans.cases({**ASKED, "weights": "fp8", "cost": cost * (1 + 1e-9)}, keys)))
    assert again["speed_at_cost"] >= 60.0
    less = plans.row(next(plans.cases({**ASKED, "weights": "fp8", "cost": cost * 0.999}, keys)))
    assert less["speed_at_cost"] < again["speed_at_cost"]


def test_what_does_not_fit_is_a_row_with_the_reason() -> None:
    keys = {"model": ["deepseek-v3"], "on": ["h100-sxm"]}
    row = plans.row(next(plans.cases({**ASKED, "weights": "fp8"}, keys)))
    assert "no deployment" in row["reason"]
    assert row["usd_per_million_at_speed"] is None
    slow = plans.row(
        next(plans.cases({**ASKED, "weights": "fp8", "speed": 1e5}, {"model": ["llama-3.1-8b"], "on": ["h100-sxm"]}))
    )
    assert "no deployment writes" in slow["reason"]


def test_a_sweep_is_every_combination_in_order() -> None:
    sweeps = {"model": ["llama-3.1-8b"], "on": ["a100-sxm", "b200-sxm"], "input": [100.0, 200.0]}
    found = [(c["on"], c["input"], c["weights"]) for c in plans.cases(ASKED, sweeps)]
    assert found == [
        ("a100-sxm", 100.0, "bf16"),
        ("a100-sxm", 200.0, "bf16"),
        *(("b200-sxm", x, w) for x in (100.0, 200.0) for w in ("bf16", "fp8", "nvfp4")),
    ]
    # The weights of a mixture are mostly its experts'.
    gpt = next(plans.cases(ASKED, {"model": ["gpt-oss-120b"], "on": ["h100-sxm"]}))
    assert gpt["weights"] == "mxfp4"


@pytest.mark.parametrize("text", ["colour=red", "input", "input=", "input=a,b", "=1"])
def test_keys_that_no_input_has_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--sweep"):
        plans.swept(text)
    assert plans.swept("cached-prefix=0,0.5") == ("cached-prefix", [0.0, 0.5])


def test_a_chunk_is_named_by_what_it_says() -> None:
    a, b = (
        chunk_of("grid", case=CASE, axes=AXES, start=0, stop=6),
        chunk_of("grid", case=CASE, axes=AXES, start=0, stop=5),
    )
    assert a.name == Chunk(a.text).name != b.name
    assert computed(a).equals(computed(a))


def test_a_folder_keeps_whole_results_of_one_sweep(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "out", {"grid": 1})
    chunk = chunk_of("grid", case=CASE, axes=AXES, start=0, stop=6)
    folder.keep(chunk, computed(chunk))
    (folder.path / ".part-half.123").write_text("cut off")
    again = Folder(tmp_path / "out", {"grid": 1})
    assert again.done() == {chunk.name}
    assert not list(folder.path.glob(".part-*"))
    assert again.read().collect().equals(computed(chunk))
    with pytest.raises(InputError, match="holds another sweep"):
        Folder(tmp_path / "out", {"grid": 2})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("x")
    with pytest.raises(InputError, match="holds other files"):
        Folder(tmp_path / "mine", {"grid": 1})


@pytest.mark.parametrize("points", [40_000, 120_000])
def test_a_killed_worker_loses_no_chunk(points: int) -> None:
    """Chunks of 0.8 and 2.3 MB, far longer than a pipe: some are being sent when nobody reads any more."""
    each = points // 20
    axes = {**AXES, "batch": list(np.geomspace(1, 500, points)), "context": [100.0]}
    chunks = [chunk_of("grid", case=CASE, axes=axes, start=i, stop=i + each) for i in range(0, points, each)]
    killed: list[int] = []

    def kill_one() -> None:
        for _ in range(200):
            time.sleep(0.02)
            found = children()
            if found:
                os.kill(found[0], signal.SIGKILL)
                killed.append(found[0])
                return

    thread = threading.Thread(target=kill_one)
    thread.start()
    found = [(chunk.name, len(frame)) for chunk, frame in on_this_machine(chunks, workers=2)]
    thread.join()
    assert killed
    assert sorted(found) == sorted((c.name, each) for c in chunks)


def children() -> list[int]:
    """Worker processes of this one."""
    found: list[int] = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
            command = status.with_name("cmdline").read_text()
        except OSError:
            continue
        if f"PPid:\t{os.getpid()}\n" in text and "spawn_main" in command:
            found.append(int(status.parent.name))
    return found


def test_the_command_resumes_where_it_stopped(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(grids, "SLICE", 16)
    out = tmp_path / "grid"
    call = (
        *(
            "sweep",
            "llama-3.1-8b",
            "--on",
            "h100-sxm",
            "--layout",
            "tp1",
            "--batch",
            "1:64:7",
            "--context",
            "100:900:7",
        ),
        *("--out", str(out), "--workers", "1", "--json"),
    )
    status, text, _ = run(capsys, *call)
    assert status == 0
    assert json.loads(text)["points"] == 49
    parts = sorted(out.glob("part-*.parquet"))
    assert len(parts) == 4
    parts[1].unlink()
    times = {p: p.stat().st_mtime_ns for p in parts if p.exists()}
    status, text, err = run(capsys, *call)
    assert json.loads(text)["points"] == 49
    assert "3 of 4 chunks are there already" in err
    assert {p: p.stat().st_mtime_ns for p in times} == times
    status, _, err = run(capsys, *call[:-1], "--year", "2025", "--json")
    assert status == 2
    assert "holds another sweep" in err


def test_an_interrupted_command_keeps_what_is_done(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(grids, "SLICE", 16)
    out = tmp_path / "grid"
    kept = Folder.keep

    def stop_at_second(self: Folder, chunk: Chunk, found: pl.DataFrame) -> None:
        if self.done():
            raise KeyboardInterrupt
        kept(self, chunk, found)

    call = (
        *(
            "sweep",
            "llama-3.1-8b",
            "--on",
            "h100-sxm",
            "--layout",
            "tp1",
            "--batch",
            "1:64:7",
            "--context",
            "100:900:7",
        ),
        *("--out", str(out), "--workers", "1"),
    )
    with monkeypatch.context() as patch:
        patch.setattr(Folder, "keep", stop_at_second)
        status, _, err = run(capsys, *call)
    assert status == 130
    assert "1 of 4 chunks" in err
    status, _, _ = run(capsys, *call)
    assert status == 0


def test_comparisons_land_in_files_of_either_kind(tmp_path: Path, capsys) -> None:
    call = (
        *("compare", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "1", "--input", "1000", "--output", "200"),
        *("--weights", "fp8", "--sweep", "input=500,1000", "--json"),
    )
    status, text, _ = run(capsys, *call, "--out", str(tmp_path / "rows.parquet"))
    rows = json.loads(text)
    assert status == 0
    assert [r["input"] for r in rows] == [500, 1000]
    assert rows[0]["usd_per_million_at_speed"] < rows[1]["usd_per_million_at_speed"]
    assert pl.read_parquet(tmp_path / "rows.parquet")["input"].to_list() == [500, 1000]
    run(capsys, *call, "--out", str(tmp_path / "rows.csv"))
    assert len(pl.read_csv(tmp_path / "rows.csv")) == 2
    run(capsys, *call, "--out", str(tmp_path / "folder"))
    assert len(list((tmp_path / "folder").glob("part-*.parquet"))) == 1
    status, _, err = run(capsys, *call, "--sweep", "colour=red")
    assert (status, err.count("\n")) == (2, 1)


def test_plans_are_dealt_into_chunks_without_loss() -> None:
    found = list(plans.cases(ASKED, {"model": ["llama-3.1-8b"], "on": ["a100-sxm"], "input": list(range(1, 11))}))
    cut = plan_chunks(found)
    assert [case for c in cut for case in json.loads(c.text)["cases"]] == found
    spans = [json.loads(c.text) for c in grid_chunks(CASE, {**AXES, "batch": list(range(1, 200_001))})]
    assert spans[0]["start"] == 0
    assert spans[-1]["stop"] == 400_000
    assert all(a["stop"] == b["start"] for a, b in pairwise(spans))


def test_a_grid_from_python_is_what_the_command_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid = SweepRequest(model="llama-3.1-8b", on="h100-sxm", layout="tp1", batch="1,8", context="100,1000", ideal=True)
    answered = run_sweep(grid)
    assert answered.details.height == answered.to_dict()["points"] == 4
    words = ["--on", "h100-sxm", "--layout", "tp1", "--batch", "1,8", "--context", "100,1000", "--ideal"]
    status, out, _ = run(
        capsys, "sweep", "llama-3.1-8b", *words, "--out", str(tmp_path / "grid"), "--workers", "1", "--json"
    )
    assert status == 0
    assert json.loads(out) == answered.to_dict()
    written = Folder(tmp_path / "grid", {"grid": grid.case, "axes": grid.axes}).read().collect()
    assert written.equals(answered.details)


def test_a_grid_that_memory_would_not_hold_is_refused() -> None:
    grid = SweepRequest(model="llama-3.1-8b", on="h100-sxm", layout="tp1", batch="1:9:10000", context="1:9:10000")
    with pytest.raises(InputError, match="100,000,000 points"):
        run_sweep(grid)
