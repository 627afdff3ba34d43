"""Hold the kernel curves against timings of our own: writes docs/accuracy-of-own-timings.md.

    python tools/device_timings.py tests/data/h100_timings.csv      # on the accelerator
    python tools/own_timings.py

The chip, the library and the machine are others than those of the tables that the curves are fitted to.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernel_timings import attention_load, product_load
from rackmath.engine.kernel_curves import KernelLoad
from rackmath.hardware import Chip
from rackmath.io import catalogue, kernel_files

TIMINGS, PAGE = Path("tests/data/h100_timings.csv"), Path("docs/accuracy-of-own-timings.md")
SYSTEM = "h100-sxm"
KINDS = {
    "product.wide": "16-bit products",
    "product.byte": "8-bit products",
    "attention.prompt": "attention of prompts",
}
ROWS = (1, 16, 128, 1024, 100_000)
"""Bounds of the groups of rows, or of tokens of a prompt."""

Array = NDArray[np.float64]
Row = Mapping[str, str]


def main() -> None:
    """Compare, write."""
    with TIMINGS.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    PAGE.write_text("\n".join(page(rows)) + "\n", encoding="utf-8")


def page(rows: Sequence[Row]) -> Iterator[str]:
    """Lines of the page."""
    chip = catalogue.system(SYSTEM).chip
    yield from (
        "# Kernel curves against timings of our own",
        "",
        f"{len(rows)} timings on an {rows[0]['chip']} of 26 November 2026, with PyTorch 2.11 (cuBLAS and cuDNN of",
        "CUDA 13), as CUDA graphs over more matrices than the second-level cache holds. Neither this machine nor this",
        "library stands in the tables that the curves are fitted to, and nothing is fitted to these timings. 8-bit",
        "products have a scale per row and column here; those of the curves are of several kinds, blocks among them.",
        "Written by `python tools/own_timings.py` from tests/data/h100_timings.csv (`tools/device_timings.py`).",
        "",
        "| kernels | rows | timings | median error | 90th percentile | curve over timing |",
        "|---|---|---|---|---|---|",
    )
    for kind, name in KINDS.items():
        chosen = [row for row in rows if row["kind"] == kind]
        counts, ratios = number(chosen, "m"), ratio(kind, chosen, chip)
        yield line(name, "all", ratios)
        for low, high in pairwise(ROWS):
            inside = (counts >= low) & (counts < high)
            if inside.any():
                yield line(name, f"{low:,} to {int(counts[inside].max()):,}", ratios[inside])
    yield from ("", *said(rows, chip))


def line(name: str, rows: str, ratios: Array) -> str:
    """Score of a group."""
    error = np.abs(ratios - 1)
    return (
        f"| {name} | {rows} | {len(ratios)} | {np.median(error):.1%} | {np.quantile(error, 0.9):.0%} "
        f"| {np.median(ratios):.2f} |"
    )


def said(rows: Sequence[Row], chip: Chip) -> Iterator[str]:
    """What else they say, in sentences."""
    norms = [row for row in rows if row["kind"] == "other" and float(row["m"]) >= 8192]
    reached = 4 * number(norms, "m") * number(norms, "n") / chip.memory_bandwidth / number(norms, "seconds")
    stream = kernel_files.kernels(chip, "").curve("other").stream
    yield f"Norms of 8,192 tokens and more reach {reached.min():.2f} to {reached.max():.2f} of the bandwidth; the"
    yield f"curves take {stream:g} for all work of this kind."
    start = {row["kind"]: float(row["seconds"]) * 1e6 for row in rows if row["kind"].startswith("start")}
    yield ""
    yield f"A kernel that does nothing takes {start['start in a graph']:.1f} microseconds in a graph; Python starts an"
    yield f"operation in {start['start of an operation']:.1f}, a product in {start['start of a product']:.1f}"
    yield "microseconds, before anything of an engine is around it."
    lasting = [row for row in rows if row["kind"].startswith("second ")]
    size = number(lasting, "m")[:1]
    rates = 2 * number(lasting, "m") ** 3 / number(lasting, "seconds") / chip.rate("bf16")
    load = product_load(size, size, size, 2.0, 2.0, chip.rate("bf16"), chip)
    seconds = kernel_files.kernels(chip, "").curve("product.wide").seconds(load).total
    curve = float(np.asarray(load.compute / seconds)[0])
    yield ""
    yield f"Products of {size[0]:,.0f} cubed without a pause run at {rates[0]:.2f} of the peak in their first second"
    yield f"and at {rates[-1]:.2f} in their last of {len(lasting)}; the curve, of short timings, says {curve:.2f}. So"
    yield f"lasting load takes {curve / rates[-1]:.2f} times as long, from its first second on: the power limit, not"
    yield "heat."


def ratio(kind: str, rows: Sequence[Row], chip: Chip) -> Array:
    """Seconds of the curve over those that were timed."""
    m, n, k = (number(rows, name) for name in "mnk")
    load: KernelLoad
    if kind == "attention.prompt":
        load = attention_load(1.0, n, k, number(rows, "width"), m, m, m * (m + 1) / 2, 2.0, chip)
    else:
        size = 2.0 if kind.endswith("wide") else 1.0
        load = product_load(m, n, k, size, (size + 2.0) / 2, chip.rate("bf16" if size == 2.0 else "fp8"), chip)
    seconds = kernel_files.kernels(chip, "").curve(kind).seconds(load).total
    return np.asarray(seconds) / number(rows, "seconds")


def number(rows: Sequence[Row], name: str) -> Array:
    """One column."""
    return np.array([float(row[name]) for row in rows])


if __name__ == "__main__":
    main()
