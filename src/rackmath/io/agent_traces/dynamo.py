"""Request traces of Dynamo (``dynamo.request.trace.v1``): calls with times, sessions and their parents, tools."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from rackmath.errors import InputError
from rackmath.io.agent_traces.calls import Call, names_of_blocks, seconds, text, whole
from rackmath.io.agent_traces.mooncake import Rows
from rackmath.io.agent_traces.recorded import Recorded, calls_of, in_order, joined, spawned

SCHEMA = "dynamo.request.trace.v1"
_MS = 1e-3


def of_request_trace(rows: Rows) -> tuple[list[Call], int]:
    """Calls of a trace, and the tokens of a block.

    Within a session a call waits for those that ended before it was sent; a session of a parent begins with the
    parent's latest call before it and is waited for by the parent's first call after its end, unless a tool's record
    says which calls these are (https://docs.nvidia.com/dynamo/agents/agent-tracing).
    """
    records: list[Recorded] = []
    parents: dict[str, str] = {}
    links: list[tuple[str, Mapping[str, Any]]] = []
    blocks: set[int] = set()
    for place, row in rows:
        event = event_of(row)
        kind = event.get("event_type")
        if kind == "request_end":
            record, block = _record(event, place)
            records.append(record)
            blocks.add(block)
            parent = (event.get("agent_context") or {}).get("parent_session_id")
            if parent:
                parents[record.call.session] = str(parent)
        elif kind in ("tool_end", "tool_error"):
            link = (event.get("tool") or {}).get("claude")
            if link:
                links.append((place, link))
    if len(blocks) > 1:
        raise InputError("trace_block_size", sorted(blocks), "one trace has one")
    if not records:
        raise InputError("--trace", SCHEMA, "holds no request_end")
    origin = min(record.start for record in records)
    sessions: defaultdict[str, list[int]] = defaultdict(list)
    for k, record in enumerate(records):
        record.start, record.end = record.start - origin, record.end - origin
        record.call.begins = record.start
        sessions[record.call.session].append(k)
    for members in sessions.values():
        in_order(records, members)
    _connect(records, sessions, parents, links)
    return calls_of(records), blocks.pop()


def event_of(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A record, which sinks may have wrapped."""
    event = row.get("event")
    return event if isinstance(event, Mapping) else row  # pyright: ignore[reportUnknownVariableType]


def _record(event: Mapping[str, Any], place: str) -> tuple[Recorded, int]:
    request = event.get("request") or {}
    replay = request.get("replay")
    if not replay:
        raise InputError(f"{place}: request.replay", replay, "record with DYN_REQUEST_TRACE=1, which writes it")
    context = event.get("agent_context") or {}
    name = text(request, "request_id", place)
    ended = seconds(event, ("event_time_unix_ms",), place, _MS)
    took = seconds(request, ("total_time_ms",), place, _MS)
    start = seconds(request, ("request_received_ms",), place, _MS)
    if start is None and (ended is None or took is None):
        raise InputError(f"{place}: request.request_received_ms", start, "say when the request came")
    if start is None:
        start = (ended or 0.0) - (took or 0.0)
    end = start + took if took is not None else max(ended or start, start)
    call = Call(
        name=name,
        place=place,
        prompt=whole(replay, ("input_length",), place),
        output=max(whole(request, ("output_tokens",), place, least=0), 1),
        session=str(context.get("session_id") or name),
        blocks=names_of_blocks(replay, "input_sequence_hashes", place),
        model=str(request.get("model") or ""),
    )
    return Recorded(call, start, end), whole(replay, ("trace_block_size",), place)


def _connect(
    records: list[Recorded],
    sessions: Mapping[str, list[int]],
    parents: Mapping[str, str],
    links: list[tuple[str, Mapping[str, Any]]],
) -> None:
    """Begin and end the sessions of parents."""
    number = {record.call.name: k for k, record in enumerate(records)}
    told: dict[str, Mapping[str, Any]] = {}
    for place, link in links:
        for key in ("source_request_id", "consumer_request_id"):
            if link.get(key) is not None and link[key] not in number:
                raise InputError(f"{place}: {key}", link[key], "is no request of this trace")
        if link.get("child_session_id") in sessions and link.get("source_request_id") is not None:
            told[str(link["child_session_id"])] = link
    for session, parent in parents.items():
        if parent not in sessions or parent == session:
            continue
        children, others = sessions[session], sessions[parent]
        link = told.get(session)
        if link is None:
            spawned(records, others, children)
            joined(records, others, children, max(records[k].end for k in children))
            continue
        spawned(records, [number[link["source_request_id"]]], children)
        if link.get("consumer_request_id") is not None:
            joined(records, [number[link["consumer_request_id"]]], children, -1.0)
