"""Weka's traces of coding agents: one object for each task, with calls, their times, and subagents within."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rackmath.errors import InputError
from rackmath.io.agent_traces.calls import Call, names_of_blocks, seconds, text, whole
from rackmath.io.agent_traces.mooncake import Rows
from rackmath.io.agent_traces.recorded import Recorded, calls_of, in_order, joined, spawned

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
        blocks.add(whole(task, ("block_size",), place))
        if task.get("hash_id_scope") not in ("local", "global"):
            raise InputError(f"{place}: hash_id_scope", task.get("hash_id_scope"), "local or global is understood")
        scope = "" if task["hash_id_scope"] == "global" else f"{name} "
        calls += calls_of(_task(_entries(task, place), name, place, scope, blocks))
    if len(blocks) > 1:
        raise InputError("block_size", sorted(blocks), "all tasks have one: split the file")
    return calls, blocks.pop()


def _entries(holder: Mapping[str, Any], place: str) -> Sequence[Mapping[str, Any]]:
    entries = holder.get("requests")
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):  # pyright: ignore[reportUnknownVariableType]
        raise InputError(f"{place}: requests", type(entries).__name__, "write a list of objects")
    return entries  # pyright: ignore[reportUnknownVariableType]


def _task(entries: Sequence[Mapping[str, Any]], name: str, place: str, scope: str, blocks: set[int]) -> list[Recorded]:
    records: list[Recorded] = []
    own: list[int] = []
    agents: list[tuple[int, list[int], float]] = []
    block = max(blocks)
    for n, entry in enumerate(entries):
        where = f"{place}, request {n + 1}"
        if entry.get("type") in _CALLS:
            own.append(len(records))
            records.append(_record(entry, f"{name} {n}", where, name, scope, block, 0.0))
        elif entry.get("type") == _SUBAGENT:
            start = seconds(entry, ("t",), where) or 0.0
            members: list[int] = []
            session = f"{name} {n} {entry.get('agent_id') or ''}"
            for k, inner in enumerate(_entries(entry, where)):
                members.append(len(records))
                inside = f"{where}, request {k + 1}"
                records.append(_record(inner, f"{name} {n} {k}", inside, session, scope, block, start))
            if members:
                took = seconds(entry, ("duration_ms",), where, 1e-3)
                end = max(records[k].end for k in members) if took is None else start + took
                agents.append((len(own), members, end))
        else:
            raise InputError(f"{where}: type", entry.get("type"), f"write {', '.join(_CALLS)} or {_SUBAGENT}")
    in_order(records, own)
    for before, members, end in agents:
        in_order(records, members)
        # As the recording lists them: calls before the subagent began it, later ones may wait for it.
        spawned(records, own[:before], members)
        joined(records, own[before:], members, end)
    for record in records:
        record.call.task = name
    return records


def _record(
    entry: Mapping[str, Any], name: str, place: str, session: str, scope: str, block: int, start: float
) -> Recorded:
    sent = seconds(entry, ("t",), place)
    if sent is None:
        raise InputError(f"{place}: t", None, "say when the request was sent, in s from the task's beginning")
    # Within a subagent times may count from its beginning.
    sent = sent + start if sent + 1e-6 < start else sent
    prompt = whole(entry, ("in",), place)
    call = Call(
        name=name,
        place=place,
        prompt=prompt,
        # A call that wrote nothing was still read: its step yields a token.
        output=max(whole(entry, ("out",), place, least=0), 1),
        session=session,
        blocks=[f"{scope}{b}" for b in names_of_blocks(entry, "hash_ids", place)[: prompt // block]],
        model=text(entry, "model", place),
    )
    return Recorded(call, sent, sent + (seconds(entry, ("api_time",), place) or 0.0))
