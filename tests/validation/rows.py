"""Rows for the tests of this room."""

from __future__ import annotations

USUAL = {
    "id": "a-1",
    "source": "test",
    "date": "2026-03",
    "model": "Llama-3.1-8B",
    "hardware": "H100-SXM-80GB",
    "n_gpus": "1",
    "engine": "vllm",
    "topology": "aggregated",
    "tp": "1",
    "weights": "fp8",
    "arrivals": "closed",
    "concurrency": "16",
    "input_mean": "1000",
    "output_mean": "500",
    "phase": "serving",
    "metric": "tpot",
    "statistic": "p50",
    "per": "request",
    "value": "0.008",
    "confidence": "high",
    "flags": "",
}


def cells(**changes: str) -> dict[str, str]:
    return {**USUAL, **changes}
