"""Hold answers for llama.cpp's files against timings of our own: writes docs/accuracy-of-own-files.md.

    python tools/device_files.py prepare FILES.json                # here
    python tools/device_files.py run FILES.json BENCH OUT.csv      # on the accelerator
    python tools/own_files.py

Each line of the data is one test of llama-bench, its seconds the median of three repeats. It is asked as a row of
``rackmath predict``, by physics alone. No constant has seen these timings.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rackmath.api.predict import PredictRequest, run_prediction
from rackmath.io import catalogue
from rackmath.models.counts import weight_bytes
from rackmath.models.gguf import in_file

TIMINGS, PAGE = Path("tests/data/h200_files.csv"), Path("docs/accuracy-of-own-files.md")
SYSTEM, DATE = "h200-sxm", "2026-11-27"
FEW = 256
"""Tokens of a prompt below which a test says what a few sequences at once cost, rather than what a prompt does."""

Row = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One test of llama-bench, timed and predicted."""

    model: str
    type: str
    prompt: int
    depth: int
    seconds: float
    predicted: float
    inside: bool

    @property
    def ratio(self) -> float:
        """Predicted over measured time."""
        return self.predicted / self.seconds


def main() -> None:
    """Compare, write."""
    with TIMINGS.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    PAGE.write_text("\n".join(page(rows, list(tests_of(rows)))) + "\n", encoding="utf-8")


def tests_of(rows: Sequence[Row]) -> Iterator[Timing]:
    """Each row with what ``predict`` says of it."""
    answers = run_prediction(PredictRequest(rows=[asked(i, row) for i, row in enumerate(rows)], no_evidence=True))
    for row, answer in zip(rows, answers.predictions, strict=True):
        assert answer.predicted, answer.reason
        assert answer.low
        assert answer.high
        count, seconds = int(row["prompt"]) or int(row["tokens"]), float(row["median"])
        yield Timing(
            model=row["model"],
            type=row["type"],
            prompt=int(row["prompt"]),
            depth=int(row["depth"]),
            seconds=seconds,
            predicted=count / answer.predicted,
            inside=answer.low <= count / seconds <= answer.high,
        )


def asked(place: int, row: Row) -> dict[str, str]:
    """A test as a row of measurements."""
    prompt, tokens, depth = (int(row[name]) for name in ("prompt", "tokens", "depth"))
    common = {
        "id": str(place),
        "source": "own",
        "date": DATE,
        "model": row["model"],
        "hardware": SYSTEM,
        "n_gpus": "1",
        "engine": "llama.cpp",
        "topology": "aggregated",
        "tp": "1",
        "replicas": "1",
        "weights": row["type"],
        "kv": "fp16",
        "arrivals": "single",
        "batch": "1",
        "confidence": "high",
        "benchmark": "llama-bench",
        "context": str(depth + (prompt or tokens) / 2),
        "value": str((prompt or tokens) / float(row["median"])),
    }
    if prompt:
        return common | {
            "phase": "prefill",
            "metric": "prefill_speed",
            "per": "system",
            "input_mean": str(prompt),
            "output_mean": "0",
        }
    return common | {
        "phase": "decode",
        "metric": "decode_speed",
        "per": "user",
        "input_mean": str(depth),
        "output_mean": str(tokens),
    }


def page(rows: Sequence[Row], tests: Sequence[Timing]) -> Iterator[str]:
    """Lines of the page."""
    files = {(row["model"], row["type"]): int(row["bytes"]) for row in rows}
    equal = sum(sum(weight_bytes(in_file(catalogue.model(m), t)).values()) == size for (m, t), size in files.items())
    yield from (
        "# Answers against llama.cpp files of our own",
        "",
        f"{len(tests)} tests of llama-bench (sources in llama-cpp-python 0.3.36, CUDA 13) on one {rows[0]['chip']} of",
        f"27 November 2026: {len(files)} files of Llama 3.1 8B and Qwen3-30B-A3B, with random blocks in the types that",
        "llama.cpp's rules give each tensor (`models/gguf.py`); FlashAttention on, caches in 16 bits, all layers on",
        "the accelerator. Of three repeats the median counts. Nothing is fitted to these; published rows of llama.cpp",
        f"are of other chips. llama-bench states the bytes of each file's tensors: in {equal} of {len(files)} files",
        "they are rackmath's to the byte.",
        "Written by `python tools/own_files.py` from tests/data/h200_files.csv (`tools/device_files.py`).",
        "",
        "| tests | number | median error | 90th percentile | predicted over measured | inside the range |",
        "|---|---|---|---|---|---|",
    )
    for model in dict.fromkeys(t.model for t in tests):
        own = [t for t in tests if t.model == model]
        yield line(f"{model}, tokens one by one", [t for t in own if not t.prompt])
        yield line(f"{model}, prompts of {FEW} and more", [t for t in own if t.prompt >= FEW])
        yield line(f"{model}, 1 to {FEW - 1} tokens at once", [t for t in own if 0 < t.prompt < FEW])
    yield from (
        "",
        "## File by file: predicted over measured",
        "",
        "| file | token | token behind 8,192 | prompt of 512 | 512 behind 8,192 |",
        "|---|---|---|---|---|",
    )
    for model, type_ in files:
        own = {(t.prompt, t.depth): t for t in tests if (t.model, t.type) == (model, type_)}
        cells = [own[key] for key in ((0, 0), (0, 8192), (512, 0), (512, 8192))]
        shown = " | ".join(f"{t.ratio:.2f}" for t in cells)
        yield f"| {model} {type_} | {shown} |"


def line(name: str, tests: Sequence[Timing]) -> str:
    """Score of a group."""
    ratios = np.array([t.ratio for t in tests])
    errors = np.abs(ratios - 1)
    return (
        f"| {name} | {len(tests)} | {np.median(errors):.1%} | {np.quantile(errors, 0.9):.0%} "
        f"| {np.median(ratios):.2f} | {np.mean([t.inside for t in tests]):.0%} |"
    )


if __name__ == "__main__":
    main()
