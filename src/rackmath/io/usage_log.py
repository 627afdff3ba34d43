"""The room that reads logs of usage: JSON lines in OpenAI's or Anthropic's words, into tokens by model."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from pydantic_core import from_json

from rackmath.errors import InputError
from rackmath.io.paths import bounded_file
from rackmath.prices.lists import Tokens

_ENVELOPES = ("message", "response", "body")
"""Where SDKs, batch files and coding tools put the answer that holds ``usage``."""
_LARGEST = 2**40
"""Of a log, which is read line by line. [B]"""
_MOST = 10**9
"""Tokens of one request that are still believed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UsageLog:
    """Requests of a log."""

    tokens: Mapping[tuple[str, bool], Tokens]
    """By model, and whether the request was in a batch tier."""
    without_usage: int
    """Lines that hold no usage: questions, tool results, errors."""


def read_usage(path: Path) -> UsageLog:
    """Read a log, line by line; memory grows by 40 bytes per request.

    Understood are ``usage`` records of OpenAI (``prompt_tokens``, or ``input_tokens`` with
    ``input_tokens_details``: cached tokens are part of the input) and of Anthropic
    (``cache_read_input_tokens``, ``cache_creation_input_tokens``: beside it), at the top of a line
    or in its message, response or body.

    Errors: :class:`InputError` for a line that is no JSON object, counts that are no whole
    numbers from 0, cached tokens above the prompt, and a log without any usage.
    """
    entries: dict[tuple[str, bool], array[float]] = {}
    without = 0
    line = 0
    try:
        with bounded_file(path, "--log", _LARGEST, "a log").open("rb") as file:
            for line, raw in enumerate(file, start=1):
                if raw.isspace():
                    continue
                record = from_json(raw)
                if not isinstance(record, dict):
                    raise InputError(f"{path.name} line {line}", raw[:40], "write one JSON object per line")
                usage, holder = _usage(cast(dict[str, Any], record))
                if usage is None:
                    without += 1
                    continue
                model = holder.get("model") or record.get("model")
                if not isinstance(model, str):
                    raise InputError(f"{path.name} line {line} model", model, "name the model beside its usage")
                batch = usage.get("service_tier") == "batch"
                counts = _counts(usage, f"{path.name} line {line}")
                entries.setdefault((model, batch), array("d")).extend(counts)
    except OSError as error:
        raise InputError("--log", str(path), f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path.name} line {line}", str(error), "is no JSON: write one JSON object per line"
        ) from error
    if not entries:
        raise InputError("--log", str(path), "holds no usage record")
    return UsageLog(tokens={key: _tokens(values) for key, values in entries.items()}, without_usage=without)


def _usage(record: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """The usage record of a line, and the object that holds it."""
    holder: Any = record
    while isinstance(holder, dict):
        inside = cast(dict[str, Any], holder)
        usage = inside.get("usage")
        if isinstance(usage, dict):
            return cast(dict[str, Any], usage), inside
        holder = next((inside[name] for name in _ENVELOPES if isinstance(inside.get(name), dict)), None)
    return None, record


def _counts(usage: dict[str, Any], field: str) -> tuple[float, float, float, float, float]:
    """Input, cached, written for minutes, written for an hour, output."""
    if "prompt_tokens" in usage:
        prompt, completion = _count(usage, "prompt_tokens", field), _count(usage, "completion_tokens", field)
        details = usage.get("prompt_tokens_details")
    else:
        prompt, completion = _count(usage, "input_tokens", field), _count(usage, "output_tokens", field)
        details = usage.get("input_tokens_details")
    if isinstance(details, dict):
        cached_tokens = _count(cast(dict[str, Any], details), "cached_tokens", field)
        if cached_tokens > prompt:
            raise InputError(f"{field} cached_tokens", cached_tokens, f"is more than the prompt of {prompt:,.0f}")
        return prompt - cached_tokens, cached_tokens, 0.0, 0.0, completion
    write_tokens = _count(usage, "cache_creation_input_tokens", field)
    kinds = usage.get("cache_creation")
    hour = _count(cast(dict[str, Any], kinds), "ephemeral_1h_input_tokens", field) if isinstance(kinds, dict) else 0.0
    if hour > write_tokens:
        raise InputError(f"{field} ephemeral_1h_input_tokens", hour, f"is more than all {write_tokens:,.0f} written")
    return prompt, _count(usage, "cache_read_input_tokens", field), write_tokens - hour, hour, completion


def _count(usage: dict[str, Any], name: str, field: str) -> float:
    """Tokens of a kind; a kind that is not named, or null, was not used."""
    value = usage.get(name)
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
        raise InputError(f"{field} {name}", value, "write a whole number of tokens from 0")
    return float(value)


def _tokens(values: array[float]) -> Tokens:
    columns = np.frombuffer(values, dtype=np.float64).reshape(-1, 5).T
    return Tokens(input=columns[0], cached_input=columns[1], write=columns[2], write_hour=columns[3], output=columns[4])
