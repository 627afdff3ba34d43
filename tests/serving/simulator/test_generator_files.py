"""Requests that load generators say they sent become a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rackmath.errors import InputError
from rackmath.io.traces import read_trace

# Sent in this order: the second at 0.5 s; the last one failed.
STARTS, PROMPTS, ANSWERS = [100.0, 101.5, 100.5, 103.0], [128, 512, 256, 64], [10, 30, 20, 0]

VLLM = {
    "date": "20261101-120000", "backend": "vllm", "completed": 3, "start_times": STARTS, "input_lens": PROMPTS,
    "output_lens": ANSWERS, "ttfts": [0.1] * 4,
}  # fmt: skip
INFERENCE_PERF = [
    {"scheduled_time": s, "start_time": s, "end_time": s + 1, "request_data": "", "error": None if a else {"error_type": "x"},
     "info": {"request_metrics": {"text": {"input_tokens": p}}, "response_metrics": {"output_tokens": a}}}
    for s, p, a in zip(STARTS, PROMPTS, ANSWERS, strict=True)
]  # fmt: skip
OLD_INFERENCE_PERF = [
    {"start_time": s, "end_time": s + 1, "error": None, "info": {"input_tokens": p, "output_tokens": a}}
    for s, p, a in zip(STARTS, PROMPTS, ANSWERS, strict=True)
]
GUIDELLM = {
    "metadata": {"guidellm_version": "0.7.0"},
    "benchmarks": [
        {
            "requests": {
                "successful": [
                    {"request_start_time": s, "prompt_tokens": p, "output_tokens": a or None}
                    for s, p, a in zip(STARTS, PROMPTS, ANSWERS, strict=True)
                ]
            }
        }
    ],
}
AIPERF = [
    {
        "metadata": {"request_start_ns": int(s * 1e9), "benchmark_phase": "profiling"},
        "metrics": {"input_sequence_length": {"value": p, "unit": "tokens"}}
        | ({"output_sequence_length": {"value": a, "unit": "tokens"}} if a else {}),
    }
    for s, p, a in zip(STARTS, PROMPTS, ANSWERS, strict=True)
]


def written(folder: Path, name: str, data: Any) -> Path:
    path = folder / name
    lines = name.endswith(".jsonl")
    path.write_text("\n".join(map(json.dumps, data)) if lines else json.dumps(data), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("vllm.json", VLLM),
        ("per_request_lifecycle_metrics.json", INFERENCE_PERF),
        ("old.json", OLD_INFERENCE_PERF),
        ("benchmarks.json", GUIDELLM),
        ("profile_export.jsonl", AIPERF),
    ],
)
def test_every_generator_s_requests_are_the_same_trace(name: str, data: Any, tmp_path: Path) -> None:
    work, notes = read_trace(written(tmp_path, name, data))
    assert work.arrival == pytest.approx(np.array([0.0, 0.5, 1.5]), abs=1e-6)
    assert (list(work.prompt), list(work.output)) == ([128, 256, 512], [10, 20, 30])
    assert notes == ["1 requests without an answer are left out"]


@pytest.mark.parametrize(
    ("data", "word"),
    [
        ({"input_lens": [1], "output_lens": [1]}, "start_times"),
        ({**VLLM, "output_lens": [1]}, "vllm.json"),
        ({**VLLM, "input_lens": ["many"] * 4}, "vllm.json"),
        ({**VLLM, "input_lens": [10**400] * 4}, "vllm.json"),
        ({"benchmarks": [{}]}, "requests"),
        ([{"info": {}}], "lacks 'text'"),
        ([], "load"),
        (7, "load"),
    ],
)
def test_other_json_is_refused_with_what_it_lacks(data: Any, word: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=word):
        read_trace(written(tmp_path, "vllm.json", data))


def test_a_result_without_any_answer_holds_no_requests(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no requests"):
        read_trace(written(tmp_path, "vllm.json", {**VLLM, "output_lens": [0] * 4}))
