"""Mooncake's rows with sessions, and Dynamo's rows with requests to wait for, of both versions."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from rackmath.errors import InputError
from rackmath.io.agent_traces.calls import Call, Wait
from rackmath.io.agent_traces.fields import MS, Object, Rows, blocks_of, names_of, seconds, tables, text, whole

SCHEMA, VERSION = "dynamo.agentic_mooncake", 2
"""Of the first line of a file of the second version."""
_PROMPT, _OUTPUT = ("input_length", "input_tokens"), ("output_length", "output_tokens")
_BEGINS, _DELAY = ("timestamp", "created_time"), ("delay", "delay_ms")


def of_sessions(rows: Rows) -> list[Call]:
    """Rows of which those with one ``session_id`` follow each other.

    A later row of a session begins its ``delay`` after the end of the one before; where it has only a ``timestamp``,
    so much later as that is after the other's, which a recording's own answers would shorten.
    """
    calls: list[Call] = []
    sessions: defaultdict[str, list[Call]] = defaultdict(list)
    times: dict[str, float | None] = {}
    delays: dict[str, float | None] = {}
    for k, (place, row) in enumerate(rows):
        call = _call(row, place, f"request {k + 1}", text(row, "session_id", place))
        calls.append(call)
        sessions[call.session].append(call)
        times[call.name], delays[call.name] = call.begins, seconds(row, _DELAY, place, MS)
    for session in sessions.values():
        for before, call in pairwise(session):
            delay, began, now = delays[call.name], times[before.name], times[call.name]
            if delay is None and began is not None and now is not None:
                delay = max(now - began, 0.0)
            call.begins, call.waits = None, [Wait(before.name, delay or 0.0)]
    return calls


def of_first_version(rows: Rows) -> list[Call]:
    """Rows that name the requests whose ends they wait for (``wait_for``), then a delay and a tool's time."""
    calls: list[Call] = []
    for place, row in rows:
        name = text(row, "request_id", place)
        call = _call(row, place, name, row.get("session_id") or name)
        delay = (seconds(row, _DELAY, place, MS) or 0.0) + (seconds(row, ("tool_wait_ms",), place, MS) or 0.0)
        call.waits = [Wait(parent, delay) for parent in names_of(row, "wait_for", place)]
        if not call.waits:
            call.begins = call.begins or 0.0
        calls.append(call)
    return calls


def of_second_version(rows: Rows) -> tuple[list[Call], int]:
    """Rows with typed dependencies, after a line that says the version and the tokens of a block.

    A row is not sent before its ``not_before_ms``, counted from its task's first request, as the replay has it.
    """
    place, header = rows[0]
    if header.get("version") != VERSION:
        raise InputError(f"{place}: version", header.get("version"), f"{VERSION} is understood")
    block = whole(header, ("block_size",), place)
    calls: list[Call] = []
    earliest: dict[str, float] = {}
    for place, row in rows[1:]:
        task = text(row, "play_id", place)
        call = _call(row, place, text(row, "request_id", place), text(row, "session_id", place))
        call.task, call.model = task, str(row.get("model") or "")
        call.blocks = [f"{task} {b}" for b in call.blocks]
        call.begins = seconds(row, ("not_before_ms",), place, MS) or 0.0
        call.waits = [_wait(dependency, place) for dependency in tables(row, "dependencies", place)]
        calls.append(call)
        if not call.waits:
            earliest[task] = min(earliest.get(task, call.begins), call.begins)
    first = {call.task: call for call in reversed(calls) if not call.waits and call.begins == earliest[str(call.task)]}
    for call in calls:
        task, begins = str(call.task), call.begins or 0.0
        if call.waits and task in earliest:
            if begins > earliest[task]:
                call.waits.append(Wait(first[task].name, begins - earliest[task], dispatch=True))
            call.begins = None
    return calls, block


def _wait(dependency: Object, place: str) -> Wait:
    trigger = dependency.get("trigger")
    if trigger not in ("dispatch", "completion"):
        raise InputError(f"{place}: trigger", trigger, "write dispatch or completion")
    delay = seconds(dependency, ("delay_ms",), place, MS) or 0.0
    return Wait(text(dependency, "request_id", place), delay, dispatch=trigger == "dispatch")


def _call(row: Object, place: str, name: str, session: str) -> Call:
    return Call(
        name=name,
        place=place,
        prompt=whole(row, _PROMPT, place),
        output=whole(row, _OUTPUT, place),
        session=str(session),
        blocks=blocks_of(row, "hash_ids", place),
        begins=seconds(row, _BEGINS, place, MS),
    )
