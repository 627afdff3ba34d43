"""Rows for the tests of this room."""

from __future__ import annotations

USUAL = {
    "id": "a-1",
    "phase": "decode",
    "model": "Llama-3.1-8B",
    "total_params_b": "8.03",
    "active_params_b": "8.03",
    "hardware": "H100-SXM-80GB",
    "n_gpus": "1",
    "parallelism": "tp=1",
    "precision_weights": "fp8",
    "precision_kv": "",
    "batch_or_concurrency": "16",
    "input_len": "1000",
    "output_len": "500",
    "context_len": "",
    "metric": "tpot_median",
    "value": "8.0",
    "unit": "ms",
    "per": "user",
    "engine": "vllm 0.10",
    "year": "2025",
    "source": "test",
    "confidence": "high",
    "notes": "",
}


def cells(**changes: str) -> dict[str, str]:
    return {**USUAL, **changes}
