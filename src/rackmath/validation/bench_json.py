"""JSON of serving benchmarks -> rows: ``vllm bench serve``, SGLang's bench_serving, InferenceX.

They write latencies in milliseconds and rates in tokens per second under nearly the same
names. What they leave out (hardware, accelerators, parallelism, precision) is given beside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackmath.errors import InputError
from rackmath.validation.rows import checked_columns

_LARGEST = 1e300
"""From which a number of a file is none."""
_MANY = 10
"""Requests from which equal lengths are known by their sums."""
_PROTOCOLS = {"openai": "vllm", "vllm": "vllm", "sglang": "sglang", "trt": "trtllm", "tensorrt": "trtllm"}
"""Engines behind what a benchmark calls its backend, up to the first hyphen. ``vllm bench serve`` asks by OpenAI's
protocol by default, in front of its own engine."""
_METRICS = (
    ("median_tpot_ms", "tpot", "p50", "request", 1e-3),
    ("mean_tpot_ms", "tpot", "mean", "request", 1e-3),
    ("median_ttft_ms", "ttft", "p50", "request", 1e-3),
    ("mean_ttft_ms", "ttft", "mean", "request", 1e-3),
    ("mean_e2el_ms", "e2e", "mean", "request", 1e-3),
    ("mean_e2e_latency_ms", "e2e", "mean", "request", 1e-3),
    ("total_token_throughput", "total_throughput", "", "system", 1.0),
    ("total_throughput", "total_throughput", "", "system", 1.0),
)


def rows_of(data: Mapping[str, Any], columns: Mapping[str, str]) -> list[dict[str, str]]:
    """Rows of one benchmark run, one for each number that can be predicted.

    Parameters
    ----------
    data : mapping
        The JSON object.
    columns : mapping
        Columns that it leaves out; ``hardware`` is always needed, ``engine`` where ``vllm bench serve`` asked another
        engine than vLLM.

    Errors: :class:`InputError` for unknown columns, and for a file without known numbers.
    """
    checked_columns(columns, "the JSON of a benchmark")
    model = columns.get("model") or str(data.get("model_id") or data.get("model") or "")
    if not model:
        raise InputError("--set", "model", "the file names no model: add --set model=...")
    users, rate = _number(data, "max_concurrency", "conc"), _number(data, "request_rate")
    common = {
        "model": model.rsplit("/", maxsplit=1)[-1],
        "n_gpus": "1",
        "engine": _engine(str(data["backend"])) if data.get("backend") else str(data.get("framework") or "vllm"),
        "phase": "serving",
        "arrivals": "closed" if users else "poisson" if rate else "all_at_once",
        "concurrency": _text(users),
        "request_rate": _text(rate),
        "num_requests": _text(_number(data, "num_prompts", "completed")),
        "input_mean": _text(_mean(data, "total_input_tokens", "random_input_len", "isl")),
        "output_mean": _text(_mean(data, "total_output_tokens", "random_output_len", "osl")),
        "length_cv": "0" if _equal(data) else "",
        "date": _date(str(data.get("date", ""))),
        "confidence": "high",
        "source": "benchmark of the user's own",
        **columns,
    }
    rows: list[dict[str, str]] = []
    for key, metric, statistic, per, scale in _METRICS:
        value = _number(data, key)
        if value:
            cells = {"metric": metric, "statistic": statistic, "per": per, "value": repr(value * scale)}
            rows.append({**common, **cells})
    if not rows:
        names = ", ".join(dict.fromkeys(m[0] for m in _METRICS))
        raise InputError("--add", sorted(data)[:5], f"holds none of {names}")
    return rows


def _equal(data: Mapping[str, Any]) -> bool:
    """Whether all requests are as long: of lengths that differ, sums over many are hardly whole multiples."""
    completion_count = _number(data, "completed")
    totals = (_number(data, "total_input_tokens"), _number(data, "total_output_tokens"))
    return (
        completion_count is not None
        and completion_count >= _MANY
        and all(total is not None and total % completion_count == 0 for total in totals)
    )


def _engine(backend: str) -> str:
    """Family of the engine that answered: ``openai-chat`` is vLLM's, ``sglang-oai`` SGLang's; others as they are."""
    return _PROTOCOLS.get(backend.partition("-")[0], backend)


def _mean(data: Mapping[str, Any], total: str, *nominal: str) -> float | None:
    """Mean tokens of a request: measured where the file has them, else nominal."""
    tokens, completion_count = _number(data, total), _number(data, "completed")
    return tokens / completion_count if tokens and completion_count else _number(data, *nominal)


def _number(data: Mapping[str, Any], *names: str) -> float | None:
    """First of several entries that is a finite, positive number; ``inf`` as a rate means at once."""
    for name in names:
        value = data.get(name)
        # Comparisons hold for whole numbers that no float can hold; what is not a number keeps none.
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < _LARGEST:
            return float(value)
    return None


def _date(text: str) -> str:
    """Day of ``20260522-101500`` or ``2026-05-22 10:15``."""
    digits = "".join(c for c in text if c.isdigit())[:8]
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:]}" if len(digits) == 8 else digits[:4]


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.10g}"
