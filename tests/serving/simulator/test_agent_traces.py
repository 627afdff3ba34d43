"""Traces of agents in all their formats become tasks whose requests wait for what they waited for."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rackmath.errors import InputError
from rackmath.io import agent_traces
from rackmath.io.agent_traces import is_agent_trace
from rackmath.io.agent_traces.calls import Call
from rackmath.io.agent_traces.records import TOGETHER, Record, calls_of, in_order
from rackmath.serving.simulator import workload
from rackmath.serving.simulator.tasks import beginning_at
from rackmath.serving.simulator.workload import Arrivals


def written(tmp_path: Path, rows: list[dict[str, Any]], name: str = "t.jsonl") -> Path:
    path = tmp_path / name
    text = "\n".join(json.dumps(row) for row in rows)
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def read_agents(path: Path, block: int = 512) -> Arrivals:
    return agent_traces.read_agents(path, block=block)


def edges(work: Arrivals) -> set[tuple[int, int, float, bool]]:
    g = work.graph
    assert g is not None
    return {
        (int(i), int(j), round(float(delay), 6), bool(sent))
        for i, j, delay, sent in zip(g.source, g.to, g.delay, g.dispatch, strict=True)
    }


def named(work: Arrivals, i: int) -> int:
    """Blocks of a prompt, without those of its answer."""
    assert work.answer_blocks is not None
    return int(work.start[i + 1] - work.start[i] - work.answer_blocks[i])


def record(k: int, start: float, end: float) -> Record:
    return Record(Call(name=f"{k}", place=f"line {k}", prompt=1, output=1, session="s"), start, end)


@given(
    times=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8)), min_size=1, max_size=14),
)
def test_calls_wait_for_those_that_ended_last(times: list[tuple[int, int]]) -> None:
    records = [record(k, float(start), float(start + length)) for k, (start, length) in enumerate(times)]
    in_order(records, range(len(records)))

    def before(i: int, j: int) -> bool:
        return records[i].end <= records[j].start + TOGETHER and records[i].start < records[j].start

    everyone = range(len(records))
    for j in everyone:
        ended = {i for i in everyone if before(i, j)}
        # Nobody stands between a call and what it waited for.
        last = {i for i in ended if not any(before(i, k) for k in ended)}
        assert records[j].after == last
        if not ended:
            others = [i for i in everyone if i != j and (records[i].start, i) < (records[j].start, j)]
            assert bool(records[j].during) == bool(others)
            assert all(records[i].start <= records[j].start for i in records[j].during)
    for call, told in zip(calls_of(records), records, strict=True):
        ends = [records[k].end for k in told.after]
        for wait in call.waits:
            if not wait.dispatch:
                assert wait.delay == pytest.approx(max(told.start - max(ends), 0.0))


def test_dynamos_first_version(tmp_path: Path) -> None:
    """A fork, a join with a tool's time, prefixes, and an answer that the next prompt begins with."""
    rows = [
        {"request_id": "c", "session_id": "main", "input_length": 40, "output_length": 5, "wait_for": ["a", "b"],
         "delay": 100.0, "tool_wait_ms": 400.0, "hash_ids": [1, 2, 3, 4, 5]},
        {"request_id": "a", "session_id": "main", "input_length": 17, "output_length": 16, "timestamp": 2000.0,
         "hash_ids": [1, 2, 9]},
        {"request_id": "b", "session_id": "child", "input_tokens": 8, "output_tokens": 4, "wait_for": ["a"],
         "hash_ids": [7]},
        {"request_id": "z", "input_length": 8, "output_length": 4, "timestamp": 500.0, "hash_ids": [8]},
    ]  # fmt: skip
    path = written(tmp_path, rows)
    assert is_agent_trace(path)
    work = read_agents(path, block=8)
    # The task that begins first stands first; within a task those that are waited for.
    assert work.arrival[:2].tolist() == [0.5, 2.0]
    assert np.isnan(work.arrival[2:]).all()
    assert work.task is not None
    assert work.task.tolist() == [0, 1, 1, 1]
    assert work.prompt.tolist() == [8, 17, 8, 40]
    assert edges(work) == {(1, 2, 0.0, False), (1, 3, 0.5, False), (2, 3, 0.5, False)}
    # 17 + 16 - 1 tokens are four blocks, the prompt's own two whole ones among them.
    ids = work.blocks[work.start[1] : work.start[2]].tolist()
    after = work.blocks[work.start[3] : work.start[4]].tolist()
    assert work.answer_blocks is not None
    assert work.answer_blocks.tolist() == [0, 2, 0, 0]
    assert ids[:2] == after[:2]
    assert ids[3:] == after[2:4]


def test_dynamos_second_version(tmp_path: Path) -> None:
    header = {
        "schema": "dynamo.agentic_mooncake", "version": 2, "block_size": 4, "hash_id_scope": "local",
        "source": {"format": "test", "digest": ""},
    }  # fmt: skip

    def row(task: str, name: str, at: float, *waits: tuple[str, str, float]) -> dict[str, Any]:
        return {
            "request_id": f"{task}{name}", "play_id": task, "session_id": f"{task} {name}", "model": "m",
            "input_length": 8, "output_length": 2, "hash_ids": [1, 2], "not_before_ms": at,
            "dependencies": [
                {"request_id": f"{task}{other}", "trigger": trigger, "delay_ms": delay, "relation": "sequence"}
                for other, trigger, delay in waits
            ],
        }  # fmt: skip

    rows = [
        header,
        row("p", "0", 1000.0),
        row("p", "1", 1300.0, ("0", "dispatch", 200.0)),
        row("p", "2", 0.0, ("0", "completion", 50.0), ("1", "completion", 20.0)),
        row("q", "0", 0.0),
    ]
    path = written(tmp_path, rows, "t.jsonl.gz")
    assert is_agent_trace(path)
    work = read_agents(path)
    assert work.block == 4
    assert work.arrival[:2].tolist() == [0.0, 1.0]
    assert edges(work) == {
        (1, 2, 0.2, True), (1, 2, 0.3, True), (1, 3, 0.05, False), (2, 3, 0.02, False),
    }, "a row's own time counts from its task's first request"  # fmt: skip
    assert not set(work.blocks[:2].tolist()) & set(work.blocks[2:].tolist()), "names of blocks are a task's own"
    rows[0] = header | {"version": 3}
    with pytest.raises(InputError, match="version = 3"):
        read_agents(written(tmp_path, rows))


def of_dynamo(name: str, start: float, took: float, session: str, parent: str | None = None) -> dict[str, Any]:
    context = {"session_id": session} | ({"parent_session_id": parent} if parent else {})
    return {
        "event": {
            "schema": "dynamo.request.trace.v1", "event_type": "request_end", "event_time_unix_ms": start + took,
            "agent_context": context,
            "request": {
                "request_id": name, "output_tokens": 2, "request_received_ms": start, "total_time_ms": took,
                "replay": {"trace_block_size": 4, "input_length": 6, "input_sequence_hashes": [2**63 + 5]},
            },
        }
    }  # fmt: skip


def test_dynamos_request_trace(tmp_path: Path) -> None:
    rows = [
        of_dynamo("first", 1000, 100, "main"),
        of_dynamo("child", 1050, 200, "sub", "main"),
        of_dynamo("last", 1400, 10, "main"),
        {"schema": "dynamo.request.trace.v1", "event_type": "tool_start"},
    ]
    work = read_agents(written(tmp_path, rows))
    # Sent while the first was answered; the last waits for both, a tool's 150 ms after the later.
    assert edges(work) == {(0, 1, 0.05, True), (0, 2, 0.15, False), (1, 2, 0.15, False)}
    link = {
        "schema": "dynamo.request.trace.v1", "event_type": "tool_end", "agent_context": {"session_id": "main"},
        "tool": {"tool_call_id": "t", "tool_class": "agent", "claude": {
            "source_request_id": "first", "consumer_request_id": None, "child_session_id": "sub",
            "execution_mode": "background"}},
    }  # fmt: skip
    background = read_agents(written(tmp_path, [*rows, link]))
    assert edges(background) == {(0, 1, 0.05, True), (0, 2, 0.3, False)}, "nobody waits for what runs beside"
    alone = read_agents(written(tmp_path, [of_dynamo("a", 0, 5, "x"), of_dynamo("b", 90, 5, "y")]))
    assert alone.arrival.tolist() == [0.0, 0.09]
    rows[1]["event"]["request"]["replay"]["trace_block_size"] = 8
    with pytest.raises(InputError, match="trace_block_size"):
        read_agents(written(tmp_path, rows))


def of_weka(t: float, took: float, blocks: list[int], **more: Any) -> dict[str, Any]:
    return {"t": t, "type": "s", "model": "m", "in": 4 * len(blocks) + 1, "out": 1, "hash_ids": blocks,
            "api_time": took} | more  # fmt: skip


def test_wekas_tasks(tmp_path: Path) -> None:
    task = {
        "id": "play", "models": ["m"], "block_size": 4, "hash_id_scope": "local",
        "requests": [
            of_weka(0.0, 1.0, [1, 2]),
            {"t": 0.2, "type": "subagent", "agent_id": "a", "duration_ms": 400, "status": "completed",
             "requests": [of_weka(0.3, 0.2, [3])]},
            of_weka(1.5, 1.0, [1, 2, 5]),
            {"t": 2.6, "type": "subagent", "agent_id": "b", "status": "async_launched",
             "requests": [of_weka(2.7, 0.1, [9], out=0), of_weka(0.3, 0.1, [9, 10, 11, 12])]},
        ],
    }  # fmt: skip
    path = written(tmp_path, [task], "play.json")
    assert is_agent_trace(path)
    work = read_agents(path)
    at = {(int(p), int(o)): i for i, (p, o) in enumerate(zip(work.prompt, work.output, strict=True))}
    assert len(work) == 5
    first, consumer = at[9, 1], at[13, 1]
    told = edges(work)
    children = [i for i in range(5) if i not in (first, consumer)]
    spawned, begun = (next(i for i in children if (source, i, delay, sent) in told) for source, delay, sent in (
        (first, 0.3, True), (consumer, 0.2, False)))  # fmt: skip
    (after,) = set(children) - {spawned, begun}
    assert told == {
        # The first subagent is sent while its parent is answered, and the next call waits for both.
        (first, spawned, 0.3, True),
        (first, consumer, 0.5, False),
        (spawned, consumer, 0.5, False),
        # The other one begins after an answer, is waited for by nobody, and counts its second time from its beginning.
        (consumer, begun, 0.2, False),
        (begun, after, 0.1, False),
    }
    assert named(work, first) == 2
    assert np.isnan(work.arrival).all(), "the recording does not say when its tasks begin"
    folder = tmp_path / "plays"
    folder.mkdir()
    for n in range(2):
        written(folder, [task], f"{n}.json")
    both = read_agents(folder)
    assert both.tasks == 2
    assert not set(both.blocks[: both.start[5]].tolist()) & set(both.blocks[both.start[5] :].tolist())


def test_applied_computes_turns(tmp_path: Path) -> None:
    row = {
        "num_turns": 2, "input_prompt_length": 40, "assistant_response_length": [10, 20],
        "tool_call_output_length": [5, 7], "tool_call_latency": [1.4, 0.8], "final_assistant_response_length": 3,
    }  # fmt: skip
    work = read_agents(written(tmp_path, [row, row]), block=8)
    assert work.prompt.tolist() == [40, 55, 82] * 2
    assert work.output.tolist() == [10, 20, 3] * 2
    assert edges(work) == {(0, 1, 1.4, False), (1, 2, 0.8, False), (3, 4, 1.4, False), (4, 5, 0.8, False)}
    assert work.answer_blocks is not None
    assert work.answer_blocks.tolist() == [1, 3, 0] * 2
    with pytest.raises(InputError, match="tool_call_latency"):
        read_agents(written(tmp_path, [row | {"tool_call_latency": [1.4]}]))


def test_mooncakes_sessions(tmp_path: Path) -> None:
    def row(session: str, length: int, blocks: list[int], **times: float) -> dict[str, Any]:
        return {"session_id": session, "input_length": length, "output_length": 4, "hash_ids": blocks} | times

    rows = [
        row("a", 8, [1, 2], timestamp=1000),
        row("b", 8, [7, 8], timestamp=1500),
        row("a", 16, [1, 2, 3, 4], delay=300),
        row("b", 16, [7, 8, 9, 10], timestamp=4000),
    ]
    path = written(tmp_path, rows)
    assert is_agent_trace(path)
    work = read_agents(path, block=4)
    assert edges(work) == {(0, 1, 0.3, False), (2, 3, 2.5, False)}
    assert work.arrival[[0, 2]].tolist() == [1.0, 1.5]
    # Without sessions requests come by themselves.
    assert not is_agent_trace(written(tmp_path, [{k: v for k, v in r.items() if k != "session_id"} for r in rows]))


@pytest.mark.parametrize(
    ("row", "word"),
    [
        ({"input_length": 0}, "input_length = 0: write 1 to"),
        ({"output_length": "many"}, "output_length = 'many'"),
        ({"output_length": 1.5}, "output_length = 1.5"),
        ({"output_length": float("nan")}, "output_length = nan"),
        ({"timestamp": -1.0}, "timestamp = -1.0"),
        ({"delay": float("inf")}, "delay = inf"),
        ({"wait_for": "a"}, "wait_for = 'a'"),
        ({"wait_for": ["nobody"]}, "'nobody': is no request of this trace"),
        ({"wait_for": ["b"]}, "wait for each other"),
        ({"request_id": "b"}, "is there twice"),
        ({"hash_ids": [1, 2.5]}, "hash_ids"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_line(tmp_path: Path, row: dict[str, Any], word: str) -> None:
    good = {"request_id": "a", "session_id": "s", "input_length": 9, "output_length": 2, "hash_ids": [1]}
    rows = [good | row, good | {"request_id": "b", "wait_for": ["a"] if row.get("request_id") != "b" else []}]
    with pytest.raises(InputError, match=word) as error:
        read_agents(written(tmp_path, rows))
    assert "line" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", '{"a": 1}', "\x00", '{"requests": 3, "hash_id_scope": "local"}'])
@pytest.mark.parametrize("name", ["t.jsonl", "t.json", "t.jsonl.gz"])
def test_what_is_no_trace_of_agents_is_said_to_be_none(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    with pytest.raises(InputError):
        read_agents(path)
    path.write_bytes(b"\xff\xfe\x00")
    assert not is_agent_trace(path)
    with pytest.raises(InputError):
        read_agents(path)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=3,
)
FORMATS: list[list[dict[str, Any]]] = [
    [{"request_id": "a", "session_id": "s", "input_length": 9, "output_length": 2, "hash_ids": [1], "timestamp": 5.0},
     {"request_id": "b", "input_length": 9, "output_length": 2, "hash_ids": [1], "wait_for": ["a"], "delay": 3.0,
      "tool_wait_ms": 1.0}],
    [{"schema": "dynamo.agentic_mooncake", "version": 2, "block_size": 4, "hash_id_scope": "local"},
     {"request_id": "a", "play_id": "p", "session_id": "s", "model": "m", "input_length": 8, "output_length": 2,
      "hash_ids": [1, 2], "not_before_ms": 0.0, "dependencies": []},
     {"request_id": "b", "play_id": "p", "session_id": "s", "model": "n", "input_length": 8, "output_length": 2,
      "hash_ids": [1, 2], "not_before_ms": 9.0,
      "dependencies": [{"request_id": "a", "trigger": "completion", "delay_ms": 1.0}]}],
    [of_dynamo("a", 0, 100, "main"), of_dynamo("b", 50, 20, "sub", "main"), of_dynamo("c", 150, 20, "main"),
     {"schema": "dynamo.request.trace.v1", "event_type": "tool_end", "agent_context": {"session_id": "main"},
      "tool": {"claude": {"source_request_id": "a", "consumer_request_id": "c", "child_session_id": "sub"}}}],
    [{"id": "p", "block_size": 4, "hash_id_scope": "local", "requests": [
        of_weka(0.0, 1.0, [1, 2]),
        {"t": 0.2, "type": "subagent", "agent_id": "a", "duration_ms": 400, "requests": [of_weka(0.3, 0.2, [3])]},
        of_weka(1.5, 1.0, [1, 2, 5])]}],
    [{"num_turns": 1, "input_prompt_length": 40, "assistant_response_length": [10], "tool_call_output_length": [5],
      "tool_call_latency": [1.4], "final_assistant_response_length": 3}],
    [{"session_id": "a", "input_length": 8, "output_length": 4, "hash_ids": [1, 2], "timestamp": 3},
     {"session_id": "a", "input_length": 16, "output_length": 4, "hash_ids": [1, 2, 3, 4], "delay": 300}],
]  # fmt: skip


def spots(value: Any) -> list[tuple[Any, Any]]:
    """Every place of a nest of lists and objects, as the holder and the key."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return [(value, key) for key in keys] + [spot for key in keys for spot in spots(value[key])]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), which=st.integers(0, len(FORMATS) - 1), changes=st.integers(1, 3))
def test_a_broken_trace_is_read_or_refused(tmp_path: Path, data: st.DataObject, which: int, changes: int) -> None:
    rows = json.loads(json.dumps(FORMATS[which]))
    for _ in range(changes):
        holder, key = data.draw(st.sampled_from(spots(rows)))
        if data.draw(st.booleans()):
            holder[key] = data.draw(JUNK)
        elif isinstance(holder, dict):
            holder.pop(key)
    try:
        work = read_agents(written(tmp_path, rows), block=4)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert np.isfinite(work.prompt).all()
        assert workload.checked(beginning_at(work, np.arange(float(work.tasks)))).tasks == work.tasks
