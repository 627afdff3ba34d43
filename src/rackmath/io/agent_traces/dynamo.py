"""Request traces of Dynamo (``dynamo.request.trace.v1``): calls with times, sessions and their parents, tools."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import cast

from rackmath.errors import InputError
from rackmath.io.agent_traces.calls import Call
from rackmath.io.agent_traces.fields import MS, Object, Rows, blocks_of, seconds, table, text, whole
from rackmath.io.agent_traces.records import Record, calls_of, in_order, join, spawn

SCHEMA = "dynamo.request.trace.v1"


def of_request_trace(rows: Rows) -> tuple[list[Call], int]:
    """Calls of a trace, and the tokens of a block.

    Within a session a call waits for those that ended before it was sent; a session of a parent begins with the
    parent's latest call before it and is waited for by the parent's first call after its end, unless a tool's record
    says which calls these are (https://docs.nvidia.com/dynamo/agents/agent-tracing).
    """
    records: list[Record] = []
    parents: dict[str, str] = {}
    links: list[tuple[str, Object]] = []
    blocks: set[int] = set()
    for place, row in rows:
        event = event_of(row)
        kind = event.get("event_type")
        if kind == "request_end":
            record, block = _record(event, place)
            records.append(record)
            blocks.add(block)
            parent = table(event, "agent_context", place).get("parent_session_id")
            if parent:
                parents[record.call.session] = str(parent)
        elif kind in ("tool_end", "tool_error"):
            link = table(table(event, "tool", place), "claude", place)
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


def event_of(row: Object) -> Object:
    """A record, which sinks may have wrapped."""
    event = row.get("event")
    return cast(Object, event) if isinstance(event, Mapping) else row


def _record(event: Object, place: str) -> tuple[Record, int]:
    request = table(event, "request", place)
    replay = table(request, "replay", place)
    if not replay:
        raise InputError(f"{place}: request.replay", None, "record with DYN_REQUEST_TRACE=1, which writes it")
    context = table(event, "agent_context", place)
    name = text(request, "request_id", place)
    finish = seconds(event, ("event_time_unix_ms",), place, MS)
    took = seconds(request, ("total_time_ms",), place, MS)
    start = seconds(request, ("request_received_ms",), place, MS)
    if start is None and (finish is None or took is None):
        raise InputError(f"{place}: request.request_received_ms", start, "say when the request came")
    if start is None:
        start = (finish or 0.0) - (took or 0.0)
    end = start + took if took is not None else max(finish or start, start)
    call = Call(
        name=name,
        place=place,
        prompt=whole(replay, ("input_length",), place),
        output=max(whole(request, ("output_tokens",), place, least=0), 1),
        session=str(context.get("session_id") or name),
        blocks=blocks_of(replay, "input_sequence_hashes", place),
        model=str(request.get("model") or ""),
    )
    return Record(call, start, end), whole(replay, ("trace_block_size",), place)


def _connect(
    records: list[Record],
    sessions: Mapping[str, list[int]],
    parents: Mapping[str, str],
    links: Sequence[tuple[str, Object]],
) -> None:
    """Begin and end the sessions of parents."""
    number = {record.call.name: k for k, record in enumerate(records)}
    sources: dict[str, Object] = {}
    for place, link in links:
        for key in ("source_request_id", "consumer_request_id"):
            if link.get(key) is not None and text(link, key, place) not in number:
                raise InputError(f"{place}: {key}", link[key], "is no request of this trace")
        if link.get("child_session_id") is not None and link.get("source_request_id") is not None:
            sources[text(link, "child_session_id", place)] = link
    for session, parent in parents.items():
        if parent not in sessions or parent == session:
            continue
        children, parent_calls = sessions[session], sessions[parent]
        link = sources.get(session)
        if link is None:
            spawn(records, parent_calls, children)
            join(records, parent_calls, children, max(records[k].end for k in children))
            continue
        spawn(records, [number[link["source_request_id"]]], children)
        if link.get("consumer_request_id") is not None:
            join(records, [number[link["consumer_request_id"]]], children, 0.0)
