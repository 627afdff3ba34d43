"""Timings of ggml's products -> ``data/kernels-ggml.toml``.

    python tools/ggml.py tests/data/ggml_timings.csv src/rackmath/data/kernels-ggml.toml

Rows of the table are one product of ``test-backend-ops`` (4,096 x 14,336, as its authors and users print it) or all
products of a pass of a 7B or 8B model, at so many rows. Those that a chip's last cache holds are left out of the table.
One pair of curves for all chips, of formats that scale their weights and of those that look them up: what separates
chips is in their peaks. Needs SciPy, a dependency of this tool alone.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import least_squares

from rackmath.engine.kernel_curves import KernelCurve, KernelLoad
from rackmath.io import catalogue

Array = NDArray[np.float64]

FREE = ("part", "stream", "floor", "rows", "by_row", "expansion")
Curves = Mapping[str, KernelCurve]
FLOOR = 3e-6
"""Of one product: what 16 and 8 bit leave beyond their bytes on an RTX 4070, 4 to 5 us, less what a graph saves. [s]"""
STARTS = (5.0, 30.0, 60.0)
"""Rows to start from: the fit has more than one valley."""


def main() -> None:
    """Fit, write, print each timing beside its prediction."""
    source, target = (Path(a) for a in sys.argv[1:])
    table = pl.read_csv(source)
    curves = fit(table)
    lines = [
        f'"{kind}" = {{ {", ".join(f"{name} = {getattr(curve, name):.4g}" for name in FREE)} }}'
        for kind, curve in curves.items()
    ]
    target.write_text(
        "# ggml's products of weights that are narrower than the multiplication, on all chips: constants of\n"
        "# engine/kernel_curves.py, by_row over the FP32 rate without matrix units. Generated; do not edit. Command:\n"
        "#   python tools/ggml.py tests/data/ggml_timings.csv src/rackmath/data/kernels-ggml.toml\n"
        'source = "ggml-timings"\n\n' + "\n".join(lines) + "\n",
        encoding="utf-8",
    )
    ratio = predicted(table, curves) / measured(table)
    for row, r in zip(table.iter_rows(named=True), ratio, strict=True):
        print(f"{row['system']:12} {row['format']:5} {row['rows']:4} rows: {r:.2f} of measured")


def predicted(table: pl.DataFrame, curves: Curves) -> Array:
    """Seconds of each row; ``by_row`` of a curve is over FP32."""
    chips = [catalogue.system(name).chip for name in table["system"]]
    vector = np.array([(c.vector_rate or 0.0) / c.rate("fp16") for c in chips])
    compute = column(table, "gigaflop") * 1e9 / np.array([c.rate("fp16") for c in chips])
    memory = column(table, "megabytes") * 1e6 / np.array([c.memory_bandwidth for c in chips])
    rows, products = column(table, "rows"), column(table, "products")
    looked_up = table["format"].str.contains("iq[123]").to_list()
    seconds: list[float] = []
    for i, codebook in enumerate(looked_up):
        curve = curves["product.codebook" if codebook else "product.expanded"]
        load = KernelLoad(
            compute=compute[i],
            memory=memory[i],
            rows=rows[i],
            narrowness=0.0,
            launches=products[i],
            depth=0.0,
            matrices=0.0,
        )
        seconds.append(float(replace(curve, by_row=curve.by_row * vector[i]).seconds(load).total))
    return np.array(seconds)


def fit(table: pl.DataFrame) -> Curves:
    """The curves with the least error of logarithms, each chip counted alike."""
    weights = 1 / np.sqrt(table.select(pl.len().over("system")).to_series().to_numpy())
    target = np.log(measured(table))

    def residual(x: Array) -> Array:
        return weights * (np.log(predicted(table, curves_of(x))) - target)

    fits = [
        least_squares(
            residual, [0.0, 2.0, np.log(3e-6), np.log(rows), -1.0, 0.0, -1.0, 2.0], loss="soft_l1", f_scale=0.1
        )
        for rows in STARTS
    ]
    return curves_of(min(fits, key=lambda f: f.cost).x)


def curves_of(x: Array) -> Curves:
    """Curves of unbounded numbers: parts by the logistic function, the others by the exponential one.

    Both share what the memory and tiles do; tables cost kernels by row alone.
    """
    part, stream, scaled, looked_up = (float(1 / (1 + np.exp(-x[i]))) for i in (0, 1, 3, 5))
    rows, expansion, lookup = (float(np.exp(x[i])) for i in (2, 4, 6))
    common = KernelCurve(part=part, stream=stream, floor=FLOOR, rows=rows)
    return {
        "product.expanded": replace(common, by_row=scaled, expansion=expansion),
        "product.codebook": replace(common, by_row=looked_up, expansion=lookup),
    }


def measured(table: pl.DataFrame) -> Array:
    """Seconds as published."""
    return column(table, "microseconds") * 1e-6


def column(table: pl.DataFrame, name: str) -> Array:
    """Numbers of a column."""
    return table[name].to_numpy().astype(float)


if __name__ == "__main__":
    main()
