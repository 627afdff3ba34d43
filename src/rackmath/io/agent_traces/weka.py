"""Weka's traces of coding agents: one object for each task, with calls, their times, and subagents within."""

from __future__ import annotations

from collections.abc import Sequence

from rackmath.errors import InputError
from rackmath.io.agent_traces.calls import Call
from rackmath.io.agent_traces.fields import MS, Object, Rows, blocks_of, seconds, tables, text, whole
from rackmath.io.agent_traces.records import Record, calls_of, in_order, join, spawn

_CALLS, _SUBAGENT = ("n", "s"), "subagent"
"""Types of entries: answered at once or as a stream, and an agent of its own."""


def of_weka(rows: Rows) -> tuple[list[Call], int]:
    """Calls of all tasks, and the tokens of a block.

    Times are those of the recording, of which the pauses between calls are kept and the answers' own times are not.
    A subagent begins with its task's latest call before it, and the first call after its end waits for it.
    """
    calls: list[Call] = []
    blocks: set[int] = set()
    for n, (place, task) in enumerate(rows):
        name = f"{n + 1} {task.get('id') or ''}".strip()
        block = whole(task, ("block_size",), place)
        blocks.add(block)
        if task.get("hash_id_scope") not in ("local", "global"):
            raise InputError(f"{place}: hash_id_scope", task.get("hash_id_scope"), "local or global is understood")
        scope = "" if task["hash_id_scope"] == "global" else f"{name} "
        calls += calls_of(_task(tables(task, "requests", place), name, place, scope, block))
    if len(blocks) > 1:
        raise InputError("block_size", sorted(blocks), "all tasks have one: split the file")
    return calls, blocks.pop()


def _task(entries: Sequence[Object], name: str, place: str, scope: str, block: int) -> list[Record]:
    records: list[Record] = []
    own_blocks: list[int] = []
    agents: list[tuple[int, list[int], float]] = []
    for n, entry in enumerate(entries):
        where = f"{place}, request {n + 1}"
        if entry.get("type") in _CALLS:
            own_blocks.append(len(records))
            records.append(_record(entry, f"{name} {n}", where, name, scope, block, 0.0))
        elif entry.get("type") == _SUBAGENT:
            start = seconds(entry, ("t",), where) or 0.0
            members: list[int] = []
            session = f"{name} {n} {entry.get('agent_id') or ''}"
            for k, inner in enumerate(tables(entry, "requests", where)):
                members.append(len(records))
                inside = f"{where}, request {k + 1}"
                records.append(_record(inner, f"{name} {n} {k}", inside, session, scope, block, start))
            if members:
                took = seconds(entry, ("duration_ms",), where, MS)
                end = max(records[k].end for k in members) if took is None else start + took
                agents.append((len(own_blocks), members, end))
        else:
            raise InputError(f"{where}: type", entry.get("type"), f"write {', '.join(_CALLS)} or {_SUBAGENT}")
    in_order(records, own_blocks)
    for before, members, end in agents:
        in_order(records, members)
        # As the recording lists them: calls before the subagent began it, later ones may wait for it.
        spawn(records, own_blocks[:before], members)
        join(records, own_blocks[before:], members, end)
    for record in records:
        record.call.task = name
    return records


def _record(entry: Object, name: str, place: str, session: str, scope: str, block: int, start: float) -> Record:
    send_time = seconds(entry, ("t",), place)
    if send_time is None:
        raise InputError(f"{place}: t", None, "say when the request was sent, in s from the task's beginning")
    # Within a subagent times may count from its beginning.
    send_time = send_time + start if send_time + 1e-6 < start else send_time
    prompt = whole(entry, ("in",), place)
    call = Call(
        name=name,
        place=place,
        prompt=prompt,
        # A call that wrote nothing was still read: its step yields a token.
        output=max(whole(entry, ("out",), place, least=0), 1),
        session=session,
        blocks=[f"{scope}{b}" for b in blocks_of(entry, "hash_ids", place)[: prompt // block]],
        model=text(entry, "model", place),
    )
    return Record(call, send_time, send_time + (seconds(entry, ("api_time",), place) or 0.0))
