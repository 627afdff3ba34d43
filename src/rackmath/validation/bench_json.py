"""JSON of serving benchmarks -> rows: ``vllm bench serve``, SGLang's bench_serving, InferenceX.

They write latencies in milliseconds and rates in tokens per second under nearly the same
names. What they leave out (hardware, accelerators, parallelism, precision) is given beside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackmath.errors import InputError
from rackmath.validation.rows import COLUMNS

_METRICS = (
    ("median_tpot_ms", "decode", "tpot_median", "ms", "user"),
    ("mean_tpot_ms", "decode", "tpot_mean", "ms", "user"),
    ("median_ttft_ms", "prefill", "ttft_median", "ms", "user"),
    ("total_token_throughput", "mixed", "total_throughput (input+output)", "tok/s", "system"),
    ("total_throughput", "mixed", "total_throughput (input+output)", "tok/s", "system"),
)
_GIVEN = ("hardware",)


def rows_of(data: Mapping[str, Any], said: Mapping[str, str]) -> list[dict[str, str]]:
    """Rows of one benchmark run, one for each number that can be predicted.

    Parameters
    ----------
    data : mapping
        The JSON object.
    said : mapping
        Columns that it leaves out; ``hardware`` is always needed.

    Errors: :class:`InputError` for unknown columns, and for a file without known numbers.
    """
    for name in said:
        if name not in COLUMNS:
            raise InputError("--set", name, f"is no column; use one of {', '.join(COLUMNS)}")
    for name in _GIVEN:
        if name not in said:
            raise InputError("--set", name, f"the JSON of a benchmark does not say it: add --set {name}=...")
    model = said.get("model") or str(data.get("model_id") or data.get("model") or "")
    if not model:
        raise InputError("--set", "model", "the file names no model: add --set model=...")
    common = {
        "model": model.rsplit("/", maxsplit=1)[-1],
        "n_gpus": "1",
        "engine": str(data.get("backend") or data.get("framework") or "vllm"),
        "batch_or_concurrency": _text(data.get("max_concurrency") or data.get("conc")),
        "input_len": _text(_mean(data, "total_input_tokens", "random_input_len", "isl")),
        "output_len": _text(_mean(data, "total_output_tokens", "random_output_len", "osl")),
        "year": _text(str(data.get("date", ""))[:4]),
        "confidence": "high",
        "source": "benchmark of the user's own",
        **said,
    }
    found: list[dict[str, str]] = []
    for key, phase, metric, unit, per in _METRICS:
        value = data.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
            found.append(
                {**common, "phase": phase, "metric": metric, "value": repr(float(value)), "unit": unit, "per": per}
            )
    if not found:
        known = ", ".join(dict.fromkeys(m[0] for m in _METRICS))
        raise InputError("--add", sorted(data)[:5], f"holds none of {known}")
    return found


def _mean(data: Mapping[str, Any], total: str, *nominal: str) -> float | None:
    """Mean tokens of a request: measured where the file has them, else nominal."""
    done = data.get("completed")
    if isinstance(data.get(total), (int, float)) and isinstance(done, (int, float)) and done > 0:
        return float(data[total]) / float(done)
    return next((float(data[n]) for n in nominal if isinstance(data.get(n), (int, float))), None)


def _text(value: object) -> str:
    return "" if value is None else str(value)
