"""Metrics of a running server in Prometheus' text format -> rows: vLLM's and SGLang's names.

What a server has seen since its start: means of its histograms, tokens per request from its counters, and the
requests that run at the moment as its load. Names are those of vLLM's V1 metrics and of SGLang's production metrics.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from rackmath.errors import InputError
from rackmath.validation.rows import checked_columns

_HISTOGRAMS = (
    (("time_to_first_token_seconds", "ttft"),),
    # Of requests where there is one: with drafts a step makes several tokens, and others are times of steps.
    (
        ("request_time_per_output_token_seconds", "tpot"),
        ("inter_token_latency_seconds", "itl"),
        ("time_per_output_token_seconds", "tpot"),
    ),
    (("e2e_request_latency_seconds", "e2e"),),
)
"""Histograms of both engines and what a row calls their mean; of several that tell the same, the first there is."""
_RUNNING = {"vllm": "num_requests_running", "sglang": "num_running_reqs"}
_FEWEST = 50
"""Requests below which a mean is chance."""


def rows_of(text: str, columns: Mapping[str, str]) -> list[dict[str, str]]:
    """Rows of one server, one for each mean that it tells.

    Parameters
    ----------
    text : str
        What its ``/metrics`` answers.
    columns : mapping
        Columns that it leaves out; ``hardware`` is always needed.

    Errors: :class:`InputError` for unknown columns, for what is no such text, and for a server that has answered fewer
    than 50 requests.
    """
    checked_columns(columns, "a server")
    values, model, engine = _read(text)
    count = values["e2e_request_latency_seconds_count"] or values["time_to_first_token_seconds_count"]
    if count < _FEWEST:
        raise InputError("FILE", count, f"the server has answered fewer than {_FEWEST} requests: wait for more")
    running = values[_RUNNING[engine]]
    if not running:
        raise InputError("FILE", 0, "no request runs at the moment: read the metrics under load")
    prompt, output = values["prompt_tokens_total"] / count, values["generation_tokens_total"] / count
    hits = values["prefix_cache_hits_total"] / max(values["prefix_cache_queries_total"], 1.0)
    common = {
        "model": model.rsplit("/", maxsplit=1)[-1],
        "n_gpus": "1",
        "engine": engine,
        "phase": "serving",
        "arrivals": "closed",
        "concurrency": f"{running:.10g}",
        "input_mean": f"{prompt:.10g}",
        "output_mean": f"{output:.10g}",
        "shared_prefix_tokens": f"{hits * prompt:.10g}" if hits else "",
        "length_cv": "1",
        "confidence": "medium",
        "source": "a server of the user's own",
        **columns,
    }
    rows: list[dict[str, str]] = []
    for alike in _HISTOGRAMS:
        name, metric = next(((n, m) for n, m in alike if values[f"{n}_count"]), alike[0])
        if values[f"{name}_count"]:
            mean = values[f"{name}_sum"] / values[f"{name}_count"]
            rows.append({**common, "metric": metric, "statistic": "mean", "per": "request", "value": repr(mean)})
    return rows


def _read(text: str) -> tuple[defaultdict[str, float], str, str]:
    """Sums of samples over all labels by their name without the engine's prefix, the model's name, and the engine."""
    values: defaultdict[str, float] = defaultdict(float)
    models: set[str] = set()
    engines: set[str] = set()
    try:
        families: list[Any] = list(text_string_to_metric_families(text))
    except ValueError as error:
        raise InputError("FILE", text[:40], f"is no text of Prometheus metrics: {error}") from error
    for family in families:
        for sample in family.samples:
            engine, _, name = sample.name.partition(":")
            if engine in _RUNNING and "le" not in sample.labels:
                values[name] += sample.value
                engines.add(engine)
                models.add(sample.labels.get("model_name", ""))
    models.discard("")
    if len(engines) != 1:
        raise InputError("FILE", ", ".join(sorted(engines)) or "no engine", "needs metrics of one vLLM or one SGLang")
    if len(models) != 1:
        raise InputError("FILE", ", ".join(sorted(models)) or "no model", "needs metrics of one model")
    return values, models.pop(), engines.pop()
