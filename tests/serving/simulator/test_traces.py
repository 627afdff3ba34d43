"""Readers of traces: facts of known files, every format, every way to be wrong with its line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.api.simulation.traffic import TrafficRequest, traffic
from rackmath.errors import InputError
from rackmath.io import trace_files
from rackmath.io.traces import read_trace
from rackmath.serving.simulator import workload
from rackmath.serving.simulator.sessions import agents
from tests.conftest import SHARED

MOONCAKE, AZURE = SHARED / "traces/mooncake_conversation.jsonl", SHARED / "traces/azure_llm_2023_code.csv"


def test_mooncake_s_facts() -> None:
    if not MOONCAKE.exists():
        pytest.skip("../shared/traces is not here")
    work, _ = read_trace(MOONCAKE)
    assert len(work) == 12_031
    assert work.span == pytest.approx(3537, abs=1)
    assert round(float(work.prompt.mean()), 2) == 12_035.06
    assert round(float(work.output.mean()), 2) == 342.62
    assert len(work.blocks) == work.start[-1] == 288_500
    assert len(np.unique(work.blocks)) == 182_790


def test_azure_s_facts() -> None:
    if not AZURE.exists():
        pytest.skip("../shared/traces is not here")
    work, _ = read_trace(AZURE)
    assert len(work) == 8_819
    assert 3300 < work.span < 3700
    assert work.arrival[0] == 0
    assert work.arrival[1] == pytest.approx(0.052, abs=1e-6)
    assert (int(work.prompt[0]), int(work.output[0])) == (4808, 10)
    assert not len(work.start)


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


BURST = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,230,1317,Conversation log
118,GPT-4,417,276,693,API log
"""


def test_burstgpt_counts_seconds(tmp_path: Path) -> None:
    work, _ = read_trace(written(tmp_path / "b.csv", BURST))
    assert list(work.arrival) == [0, 40, 113]
    assert list(work.prompt) == [472, 1087, 417]
    assert list(work.output) == [18, 230, 276]


def test_plain_tables_in_three_forms(tmp_path: Path) -> None:
    rows = {"arrival": [0.5, 1.0, 2.5], "input": [10, 20, 30], "output": [1, 2, 3], "priority": [5, 1, 5]}
    table = pl.DataFrame(rows)
    table.write_csv(tmp_path / "t.csv")
    table.write_parquet(tmp_path / "t.parquet")
    table.write_ndjson(tmp_path / "t.jsonl")
    for name in ("t.csv", "t.parquet", "t.jsonl"):
        work, notes = read_trace(tmp_path / name)
        assert list(work.arrival) == [0, 0.5, 2.0]
        assert list(work.prompt) == [10, 20, 30]
        assert list(work.rank) == [1, 0, 1], "the smallest number is the most urgent"
        assert not notes


@pytest.mark.parametrize(
    ("rows", "where", "repaired"),
    [
        ("0,5,5\n1,-3,5\n2,5,5\n", "line 3: prompt", 2),
        ("0,5,5\n1,5,0\n", "line 3: output", 1),
        ("0,5,5\n1,1000000000,5\n", "line 3: prompt", 1),
        ("0,5,5\nnan,5,5\n", "line 3: arrival", 1),
        ("0,5,5\n1,,5\n", "line 3: prompt", 1),
        ("0,5,5\n7,5,5\n3,5,5\n8,5,5\n", "line 4: arrival", 4),
    ],
)
def test_the_line_that_is_wrong_is_named_and_can_be_mended(
    tmp_path: Path, rows: str, where: str, repaired: int
) -> None:
    path = written(tmp_path / "t.csv", "arrival,input,output\n" + rows)
    with pytest.raises(InputError, match=where):
        read_trace(path)
    work, notes = read_trace(path, repair=True)
    assert len(work) == repaired
    assert len(notes) == 1
    assert (np.diff(work.arrival) >= 0).all()


def test_equal_ids_are_refused_or_kept_once(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "id,arrival,input,output\na,0,5,5\nb,1,5,5\na,2,9,9\n")
    with pytest.raises(InputError, match="line 4: id"):
        read_trace(path)
    work, notes = read_trace(path, repair=True)
    assert list(work.prompt) == [5, 5]
    assert "id is there already" in notes[0]


DATED = """TIMESTAMP,ContextTokens,GeneratedTokens,id,model,priority
2023-11-16 18:15:46.6805900,10,1,a,small,3
2023-11-16 18:15:47.6805900,20,2,b,large,1
2023-11-16 18:15:49.6805900,30,3,c,small,3
2023-11-16 18:15:50.6805900,40,4,d,,2
2023-11-16 18:15:51.6805900,50,5,e,small,1
"""


@pytest.mark.parametrize("rows", [1, 2, 3, 1000])
def test_pieces_of_a_file_make_one_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(trace_files, "_ROWS", rows)
    work, _ = read_trace(written(tmp_path / "t.csv", DATED))
    assert work.arrival == pytest.approx([0, 1, 3, 4, 5], abs=1e-9)
    assert list(work.prompt) == [10, 20, 30, 40, 50]
    assert list(work.output) == [1, 2, 3, 4, 5]
    assert list(work.rank) == [2, 0, 2, 1, 0]
    assert work.names == ("", "large", "small")
    assert work.service is not None
    assert list(work.service) == [2, 1, 2, 0, 2]
    lines = [{"timestamp": 10 * k, "input_length": 512 * k, "output_length": 1, "hash_ids": list(range(k))}
             for k in range(1, 6)]  # fmt: skip
    work, _ = read_trace(written(tmp_path / "t.jsonl", "\n".join(json.dumps(line) for line in lines)))
    assert list(work.start) == [0, 1, 3, 6, 10, 15]
    assert list(work.blocks) == [0, 0, 1, 0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 3, 4]
    for text, said in (
        (DATED.replace(",40,4", ",-4,4"), "line 5: prompt = -4"),
        (DATED.replace(",e,", ",a,"), "line 6: id = 'a'"),
        (DATED.replace("18:15:50", "18:15:48"), "line 5: arrival"),
    ):
        path = written(tmp_path / "w.csv", text)
        with pytest.raises(InputError, match=said):
            read_trace(path)
        work, notes = read_trace(path, repair=True)
        assert len(notes) == 1
        assert len(work) + ("dropped" in notes[0]) == 5


def test_files_that_are_no_traces(tmp_path: Path) -> None:
    lines = [json.dumps({"timestamp": 0, "input_length": 5, "output_length": 5}), '{"timestamp": 1, "input_']
    for name, text, said in (
        ("c.csv", "when,input,output\n0,1,1\n", "arrival"),
        ("d.csv", "arrival,output\n0,1\n", "prompt"),
        ("e.csv", "arrival,input,output\n", "holds no requests"),
        ("f.jsonl", "\n".join(lines), "line 2 is no JSON"),
        ("g.csv", "arrival,input,output\nsoon,1,1\n", "arrival"),
        ("h.jsonl", '{"arrival": 1, "input": [1], "output": 2}', "cannot cast List"),
        ("i.jsonl", "[]", "expected to contain JSON object"),
        ("j.csv", "", "empty CSV"),
    ):
        with pytest.raises(InputError, match=said):
            read_trace(written(tmp_path / name, text))
    with pytest.raises(InputError, match="is no file"):
        read_trace(tmp_path / "none.csv")


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=200))
def test_no_text_brings_the_reader_down(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("t") / "t.csv"
    path.write_text(text, encoding="utf-8")
    for repair in (False, True):
        try:
            read_trace(path, repair=repair)
        except InputError as error:
            assert str(error)


def test_traffic_is_one_of_three_and_repeats_by_its_seed() -> None:
    for wrong in ({}, {"rate": 1.0, "users": 2}, {"rate": 1.0}, {"rate": 1.0, "input": 5.0}):
        with pytest.raises(InputError):
            traffic(TrafficRequest(**wrong))
    asked = TrafficRequest(rate=5.0, input=100.0, output=20.0, length_cv=0.5, requests=500, classes=(0.2, 0.8), seed=4)
    one, _ = traffic(asked)
    two, _ = traffic(asked)
    assert (one.arrival == two.arrival).all()
    assert (one.prompt == two.prompt).all()
    assert 0.1 < (one.rank == 0).mean() < 0.3
    assert len(one) / one.span == pytest.approx(5.0, rel=0.2)
    assert one.prompt.mean() == pytest.approx(100, rel=0.1)
    sessions, _ = traffic(
        TrafficRequest(rate=1.0, turns=4, turn_tokens=50, input=100.0, output=20.0, requests=40, block=16)
    )
    assert len(sessions) == 40
    assert list(sessions.prompt[:4]) == [100, 170, 240, 310]
    faster, _ = traffic(TrafficRequest(rate=5.0, input=100.0, output=20.0, requests=500, seed=4, scale=10.0))
    assert faster.span == pytest.approx(
        traffic(TrafficRequest(rate=5.0, input=100.0, output=20.0, requests=500, seed=4))[0].span / 10
    )


@settings(max_examples=40, deadline=None)
@given(factor=st.floats(0.2, 5.0), seed=st.integers(0, 100))
def test_copies_keep_the_shape_of_the_traffic(factor: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    work = agents(
        np.sort(random.uniform(0, 1000, 300)),
        1,
        first=100,
        turn_tokens=0,
        output=5,
        think_time=0.0,
        block=16,
        random=random,
    )
    work = replace(work, graph=None, task=None)
    more = workload.checked(workload.copied(work, factor, random))
    assert len(more) == pytest.approx(300 * factor, abs=4 * np.sqrt(300 * 0.25) + 1)
    assert more.arrival[0] >= work.arrival[0]
    assert more.arrival[-1] <= work.arrival[-1]
    assert len(more.blocks) == more.start[-1] == 6 * len(more)
    if factor >= 1:
        assert len(np.unique(more.blocks)) == len(more.blocks), "copies share nothing that their originals did not"
        # Copies stay between their original and the next request: counts over time are those of the original.
        for moment in (250.0, 500.0, 750.0):
            share, was = (more.arrival < moment).mean(), (work.arrival < moment).mean()
            # A request gets one copy more or not, with a deviation of at most a half: four deviations of the share.
            assert share == pytest.approx(was, abs=4 * 0.5 * np.sqrt(0.25 / 300))
    with pytest.raises(InputError, match="open arrivals only"):
        workload.copied(workload.users(2, 4, np.full(4, 9), np.full(4, 9)), factor, random)


@pytest.mark.parametrize("times", [(0.0, 1.7e9), (0.0, 1e308), (1.7e9, 1.7e9 + 1)])
def test_times_beyond_thirty_years_are_refused(times: tuple[float, float]) -> None:
    """Seconds since 1970, or a slip: events every few seconds would never come to an end."""
    with pytest.raises(InputError, match="thirty years"):
        workload.plain(np.array(times), np.full(2, 10, np.int32), np.full(2, 5, np.int32))


def test_a_trace_with_a_gap_of_decades_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("arrival,prompt,output\n0,10,5\n1700000000,10,5\n", encoding="utf-8")
    with pytest.raises(InputError, match="thirty years"):
        read_trace(path)
    # Seconds since 1970 are only a beginning.
    path.write_text("arrival,prompt,output\n1700000000,10,5\n1700000009,10,5\n", encoding="utf-8")
    assert read_trace(path)[0].arrival.tolist() == [0.0, 9.0]
