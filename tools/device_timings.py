"""Time kernels on an accelerator with PyTorch: rows to hold the curves against that are in no table of theirs.

    python tools/device_timings.py OUT.csv        # on the accelerator; three minutes on an H100

Needs PyTorch with CUDA and nothing else. Everything runs as a CUDA graph, over more matrices than the second-level
cache holds, on random numbers; a row is the median of its repeats. ``tools/own_timings.py`` compares with the curves.
"""

from __future__ import annotations

import csv
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

Row = dict[str, object]

SIDES = ((4096, 4096), (6144, 4096), (28_672, 4096), (4096, 14_336), (8192, 8192), (1280, 8192), (7168, 2048))
"""Output and input widths of matrices: those of Llama 3.1 8B and 70B, of slices of them, and of DeepSeek-V3."""

TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
PROMPTS = (512, 1024, 2048, 4096, 8192, 16_384)
CACHED = 256e6
"""Bytes of matrices that one measurement goes round, several times the second-level cache."""
REPEATS = 15
SUSTAINED = 20.0
"""Seconds of products without a pause."""


def main() -> None:
    """Time, print, write."""
    rows: list[Row] = []
    parts = (products, bytes_products, attention, norms, starts, sustained)
    for part in parts:
        for row in part():
            rows.append({"chip": torch.cuda.get_device_name(), **row})
            print(rows[-1], flush=True)
    names = list(dict.fromkeys(name for row in rows for name in row))
    with Path(sys.argv[1]).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)


def graph_seconds(calls: list[Callable[[], object]]) -> float:
    """Seconds of one of the calls, in a graph of all of them: the median over replays."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in calls:
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    times: list[float] = []
    for _ in range(REPEATS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times) / len(calls)


def products() -> Iterator[Row]:
    """Products of 16 bit."""
    for n, k in SIDES:
        copies = max(4, int(CACHED / (2 * n * k)))
        weights = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16) for _ in range(copies)]
        for m in TOKENS:
            x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
            seconds = graph_seconds([partial(functional.linear, x, w) for w in weights])
            yield {"kind": "product.wide", "m": m, "n": n, "k": k, "seconds": seconds}


def bytes_products() -> Iterator[Row]:
    """Products of 8 bit with one scale per row and per column."""
    for n, k in SIDES:
        copies = max(4, int(CACHED / (n * k)))
        weights = [torch.randn(n, k, device="cuda").to(torch.float8_e4m3fn) for _ in range(copies)]
        column = torch.ones(1, n, device="cuda")
        for m in (t for t in TOKENS if t >= 16):
            x = torch.randn(m, k, device="cuda").to(torch.float8_e4m3fn)
            row = torch.ones(m, 1, device="cuda")
            multiply = torch._scaled_mm  # pyright: ignore[reportPrivateImportUsage]
            calls = [partial(multiply, x, w.t(), row, column, out_dtype=torch.bfloat16) for w in weights]
            yield {"kind": "product.byte", "m": m, "n": n, "k": k, "seconds": graph_seconds(calls)}


def attention() -> Iterator[Row]:
    """Causal attention over prompts, by cuDNN's kernels."""
    for heads, groups, width in ((32, 8, 128), (64, 8, 128), (16, 2, 128)):
        for length in PROMPTS:
            q = torch.randn(1, heads, length, width, device="cuda", dtype=torch.bfloat16)
            k, v = (torch.randn(1, groups, length, width, device="cuda", dtype=torch.bfloat16) for _ in range(2))
            seconds = graph_seconds([partial(attended, q, k, v)] * 4)
            yield {"kind": "attention.prompt", "m": length, "n": heads, "k": groups, "width": width, "seconds": seconds}


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """One pass of attention over a prompt."""
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]):
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def norms() -> Iterator[Row]:
    """Normalisation of tokens: bytes read and written, which is all it does."""
    for width in (4096, 8192):
        gain = torch.ones(width, device="cuda", dtype=torch.bfloat16)
        for m in (1, 64, 1024, 8192, 65_536):
            copies = max(2, min(64, int(CACHED / (4 * m * width))))
            inputs = [torch.randn(m, width, device="cuda", dtype=torch.bfloat16) for _ in range(copies)]
            seconds = graph_seconds([partial(functional.rms_norm, x, (width,), gain) for x in inputs])
            yield {"kind": "other", "m": m, "n": width, "k": 1, "seconds": seconds}


def starts() -> Iterator[Row]:
    """Kernels that do next to nothing: one after another in a graph, and started one by one by Python."""
    x = torch.zeros(64, device="cuda")
    w = torch.zeros(64, 64, device="cuda")
    add, multiply = partial(x.add_, 1.0), partial(functional.linear, x, w)
    yield {"kind": "start in a graph", "seconds": graph_seconds([add] * 2000)}
    for name, call in (("start of an operation", add), ("start of a product", multiply)):
        times: list[float] = []
        for _ in range(REPEATS):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(500):
                call()
            times.append((time.perf_counter() - begin) / 500)
        yield {"kind": name, "seconds": statistics.median(times)}


def sustained() -> Iterator[Row]:
    """Large products of 16 bit without a pause: the time of one in the first second, and in the last of twenty."""
    size = 8192
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    torch.cuda.synchronize()
    time.sleep(5.0)
    start = last = time.perf_counter()
    done, total = 0, 0
    while last - start < SUSTAINED:
        for _ in range(20):
            functional.linear(a, b)
        torch.cuda.synchronize()
        done += 20
        now = time.perf_counter()
        if now - last > 1.0:
            total += 1
            yield {"kind": f"second {total}", "m": size, "n": size, "k": size, "seconds": (now - last) / done}
            last, done = now, 0


if __name__ == "__main__":
    main()
