"""Results of load generators -> the requests that they sent: a trace of what a server was given.

``vllm bench serve`` with ``--save-detailed`` and SGLang's bench_serving with ``--output-details`` write one object with
a list for each quantity; inference-perf writes a list of requests, AIPerf a line for each, guidellm a list in each of
its benchmarks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from rackmath.errors import InputError
from rackmath.io.paths import bounded_file

_LARGEST = 1 << 30
_LISTS = ("start_times", "input_lens", "output_lens")
_NANOSECONDS = 1e-9

Sent = tuple[float, float, float]
"""When a request was sent, tokens of its prompt, tokens of its answer. [s], [tokens], [tokens]"""


def read_sent(path: Path) -> tuple[pl.DataFrame, int]:
    """Requests of a file that a load generator wrote, in the order in which they were sent.

    Returns
    -------
    DataFrame
        ``arrival``, ``input`` and ``output``.
    int
        Requests that failed, or whose tokens are not told: they are left out.

    Errors: :class:`InputError` for what no generator wrote.
    """
    bounded_file(path, "--trace", _LARGEST, "a result of a load generator")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise InputError("--trace", str(path), f"is no JSON: {error}") from error
    try:
        return _table(_sent(data, path))
    except KeyError as error:
        raise InputError(
            "--trace", path.name, f"is not as a load generator writes it: a request lacks {error}"
        ) from error
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError("--trace", path.name, f"is not as a load generator writes it: {error}") from error


def of_aiperf(rows: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Requests of a table of AIPerf's records (``profile_export.jsonl``), as of :func:`read_sent`."""

    def value(name: str) -> pl.Expr:
        return pl.col("metrics").struct.field(name).struct.field("value")

    table = rows.select(
        arrival=pl.col("metadata").struct.field("request_start_ns").cast(pl.Float64) * _NANOSECONDS,
        input=value("input_sequence_length").cast(pl.Float64),
        output=value("output_sequence_length").cast(pl.Float64),
    )
    return _usable(table)


def _sent(data: Any, path: Path) -> Iterable[Sent | None]:
    """Every request; None for those that failed."""
    if isinstance(data, dict) and all(name in data for name in _LISTS):
        lists: list[list[float]] = [data[name] for name in _LISTS]
        return list(zip(*lists, strict=True))
    if isinstance(data, dict) and isinstance(data.get("benchmarks"), list):
        return [
            _of_guidellm(request) for benchmark in data["benchmarks"] for request in benchmark["requests"]["successful"]
        ]
    if isinstance(data, list) and data and isinstance(data[0], dict) and "info" in data[0]:
        return [_of_inference_perf(request) for request in data]
    missing = "lists of start_times, input_lens and output_lens (--save-detailed, --output-details)"
    raise InputError(
        "--trace", path.name, f"has no {missing}, no benchmarks of guidellm and no requests of inference-perf"
    )


def _of_guidellm(request: Mapping[str, Any]) -> Sent | None:
    start = request.get("request_start_time", request.get("start_time"))
    tokens = request.get("prompt_tokens"), request.get("output_tokens")
    if start is None or None in tokens:
        return None
    return float(start), float(tokens[0] or 0), float(tokens[1] or 0)


def _of_inference_perf(request: Mapping[str, Any]) -> Sent | None:
    if request.get("error"):
        return None
    info: Mapping[str, Any] = request["info"]
    # Where its reports from before multimodal requests have them, and where later ones do.
    request_facts, response_facts = info.get("request_metrics") or {}, info.get("response_metrics") or {}
    prompt = info["input_tokens"] if "input_tokens" in info else request_facts["text"]["input_tokens"]
    answer = info["output_tokens"] if "output_tokens" in info else response_facts.get("output_tokens", 0)
    return float(request["start_time"]), float(prompt), float(answer)


def _table(requests: Iterable[Sent | None]) -> tuple[pl.DataFrame, int]:
    every = list(requests)
    whole = [request for request in every if request is not None]
    table = pl.DataFrame(
        {name: [float(request[k]) for request in whole] for k, name in enumerate(("arrival", "input", "output"))},
        schema={"arrival": pl.Float64, "input": pl.Float64, "output": pl.Float64},
    )
    usable, failures = _usable(table)
    return usable, failures + len(every) - len(whole)


def _usable(table: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Requests with an answer, by the time at which they were sent, and how many are left out."""
    whole = table.filter(pl.col("arrival").is_finite() & (pl.col("input") >= 1) & (pl.col("output") >= 1)).sort(
        "arrival", maintain_order=True
    )
    return whole, len(table) - len(whole)
