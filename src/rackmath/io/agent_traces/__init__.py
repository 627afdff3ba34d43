"""Traces of agents -> tasks whose requests wait for each other: Dynamo's, Weka's, Mooncake's and Applied Compute's."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from rackmath.errors import InputError
from rackmath.io.agent_traces import dynamo, mooncake
from rackmath.io.agent_traces.calls import workload_of
from rackmath.io.agent_traces.dynamo import event_of, of_request_trace
from rackmath.io.agent_traces.mooncake import of_first_version, of_second_version, of_sessions
from rackmath.io.agent_traces.turns import of_turns
from rackmath.io.agent_traces.weka import of_weka
from rackmath.io.paths import bounded_file, is_folder
from rackmath.serving.simulator.workload import Arrivals

_LARGEST = 1 << 30
_LOOKED_AT = 64
"""Lines by which a format is known."""
_BEGINNING = 1 << 16
"""Characters of one object by which Weka's is known: it says the scope of its blocks before its requests."""


def is_agent_trace(path: Path) -> bool:
    """Whether a file, or a folder of files, names requests that wait for each other."""
    if is_folder(path):
        return True
    if not path.name.removesuffix(".gz").endswith((".jsonl", ".ndjson", ".json")):
        return False
    try:
        bounded_file(path, "--trace", _LARGEST, "a trace of agents")
        if path.name.removesuffix(".gz").endswith(".json"):
            with _opened(path) as file:
                return '"hash_id_scope"' in file.read(_BEGINNING)
        return _format([row for _, row in islice(_objects(path), _LOOKED_AT)]) is not None
    except (InputError, OSError, UnicodeDecodeError, EOFError):
        # Who reads it next says what is wrong with it.
        return False


def read_agents(path: Path, *, block: int) -> Arrivals:
    """Read a trace of agents.

    Parameters
    ----------
    path : Path
        A file of JSON or of lines of JSON, packed by gzip or not; for Weka's also a folder of one file for each task.
    block : int
        Tokens of a named block, for formats that do not say. [tokens]

    Errors: :class:`InputError` with the line.
    """
    files = sorted(entry for entry in path.rglob("*.json")) if is_folder(path) else [path]
    rows = [entry for file in files for entry in _objects(file)]
    kind = _format([row for _, row in rows[:_LOOKED_AT]])
    if kind is None:
        way_out = "holds no trace of Dynamo, Weka, Mooncake with sessions, or Applied Compute"
        raise InputError("--trace", str(path), way_out)
    if kind == "weka":
        return workload_of(*of_weka(rows))
    if kind == "request trace":
        return workload_of(*of_request_trace(rows))
    if kind == "second version":
        return workload_of(*of_second_version(rows))
    if kind == "first version":
        return workload_of(of_first_version(rows), block)
    if kind == "turns":
        return workload_of(of_turns(rows, block), block)
    return workload_of(of_sessions(rows), block)


def _format(rows: list[dict[str, Any]]) -> str | None:
    """Which format objects have; None for none of these."""
    if not rows:
        return None
    first = rows[0]
    if first.get("schema") == mooncake.SCHEMA:
        return "second version"
    if any(event_of(row).get("schema") == dynamo.SCHEMA for row in rows):
        return "request trace"
    if {"requests", "block_size", "hash_id_scope"} <= set(first):
        return "weka"
    if {"num_turns", "tool_call_latency"} <= set(first):
        return "turns"
    if any("wait_for" in row for row in rows) and "request_id" in first:
        return "first version"
    return "sessions" if all("session_id" in row and "hash_ids" in row for row in rows) else None


def _objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Objects of a file, and where they stand.

    Errors: :class:`InputError` for what is no JSON.
    """
    bounded_file(path, "--trace", _LARGEST, "a trace of agents")
    try:
        with _opened(path) as file:
            if path.name.removesuffix(".gz").endswith(".json"):
                yield from _of_file(file.read(_LARGEST + 1), path.name)
                return
            size = 0
            for number, line in enumerate(file, start=1):
                size += len(line)
                _bounded(size, path.name)
                if line.strip():
                    place = f"{path.name}, line {number}"
                    yield place, _object(_loaded(line, place), place)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError("--trace", str(path), f"cannot be read: {error}") from error


def _opened(path: Path) -> IO[str]:
    """A text file, unpacked where it is packed."""
    if path.suffix == ".gz":
        return cast(IO[str], gzip.open(path, "rt", encoding="utf-8"))
    return path.open(encoding="utf-8")


def _of_file(data: str, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The object of a file, or those of its list."""
    _bounded(len(data), name)
    content = _loaded(data, name)
    if not isinstance(content, list):
        yield name, _object(content, name)
        return
    for number, entry in enumerate(cast(list[Any], content), start=1):
        place = f"{name}, object {number}"
        yield place, _object(entry, place)


def _bounded(size: int, name: str) -> None:
    if size > _LARGEST:
        raise InputError("--trace", name, f"unpacks to more than {_LARGEST >> 20} MiB: cut it")


def _object(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(place, type(value).__name__, "write an object")
    return cast(dict[str, Any], value)


def _loaded(data: str, place: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(place, data[:40], f"is no JSON: {error}") from error
