"""Report of guidellm -> rows: each of its benchmarks, with the load that its strategy states.

Form 2 of the report, which guidellm 0.7 writes: distributions over the successful requests, latencies in milliseconds.
Its time per output token counts the first token in; a row's does not, and is what it calls inter-token latency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from rackmath.errors import InputError
from rackmath.validation.rows import checked_columns

_METRICS = (
    ("time_to_first_token_ms", "ttft", 1e-3),
    ("inter_token_latency_ms", "tpot", 1e-3),
    ("request_latency", "e2e", 1.0),
)
_STATISTICS = (("median", "p50"), ("mean", "mean"))
_RATES = {"constant": "constant", "async": "constant", "poisson": "poisson"}
"""Strategies that state a rate, and what a row calls their arrivals."""
_STREAMS = {"synchronous": ("", 1.0), "concurrent": ("streams", 0.0), "throughput": ("max_concurrency", 0.0)}
"""Strategies that state requests in flight: their entry, or how many there always are."""


def is_report(data: Mapping[str, Any]) -> bool:
    """Whether JSON is a report of guidellm."""
    return isinstance(data.get("benchmarks"), list) and "guidellm_version" in (data.get("metadata") or {})


def rows_of(data: Mapping[str, Any], columns: Mapping[str, str]) -> list[dict[str, str]]:
    """Rows of all benchmarks of a report, one for each number that can be predicted.

    Parameters
    ----------
    data : mapping
        The report.
    columns : mapping
        Columns that it leaves out; ``hardware`` is always needed.

    Errors: :class:`InputError` for unknown columns, and for a report of another form.
    """
    checked_columns(columns, "a report of guidellm")
    rows: list[dict[str, str]] = []
    for place, benchmark in enumerate(data["benchmarks"]):
        try:
            rows += _rows(benchmark, columns)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError("FILE", f"benchmarks[{place}]", f"is not as guidellm 0.7 writes it: {error}") from error
    if not rows:
        raise InputError("FILE", len(data["benchmarks"]), "no benchmark of the report has a successful request")
    return rows


def _rows(benchmark: Mapping[str, Any], columns: Mapping[str, str]) -> Sequence[dict[str, str]]:
    strategy, metrics = benchmark["config"]["strategy"], benchmark["metrics"]
    kind = strategy["type_"]
    if kind in _RATES:
        load = {"arrivals": _RATES[kind], "request_rate": f"{float(strategy['rate']):.10g}"}
    elif kind in _STREAMS:
        entry, always = _STREAMS[kind]
        users = strategy.get(entry) or always or metrics["request_concurrency"]["successful"]["mean"]
        load = {"arrivals": "closed", "concurrency": f"{float(users):.10g}"}
    else:
        raise KeyError(f"strategy {kind}")
    common = {
        "model": str(benchmark["config"]["backend"].get("model") or "").rsplit("/", maxsplit=1)[-1],
        "n_gpus": "1",
        "engine": "vllm",
        "phase": "serving",
        **load,
        "num_requests": f"{metrics['request_totals']['successful']}",
        "input_mean": f"{metrics['prompt_token_count']['successful']['mean']:.10g}",
        "output_mean": f"{metrics['output_token_count']['successful']['mean']:.10g}",
        "date": datetime.fromtimestamp(float(benchmark["start_time"]), UTC).date().isoformat(),
        "confidence": "high",
        "source": "benchmark of the user's own",
        **columns,
    }
    values = [
        (metric, name, metrics[key]["successful"][statistic] * scale)
        for key, metric, scale in _METRICS
        for statistic, name in _STATISTICS
    ]
    return [
        {**common, "metric": metric, "statistic": name, "per": "request", "value": repr(value)}
        for metric, name, value in values
        if isfinite(value) and value > 0
    ]
