"""Refit the compute-optimal law on Hoffmann's runs, and on resamples of them.

python tools/laws.py ../shared    # three minutes, needs scipy

Writes src/rackmath/data/law_bootstrap.csv: coefficients of 200 resamples, which ``rackmath train budget`` takes as
the law's uncertainty. The runs themselves carry no licence and stay where they are.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

ROOT = Path(__file__).parent.parent
DROPPED, DELTA, RESAMPLES = 5, 1e-3, 200
"""Highest losses that are left out, Huber's border in log loss: Besiroglu et al. 2024."""
START = np.array([np.log(482.01), np.log(2085.43), np.log(1.8172), 0.3478, 0.3658])


def main() -> None:
    """Fit, resample, write."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with (Path(sys.argv[1]) / "training/chinchilla_fig4_extracted.csv").open(encoding="utf-8") as file:
        rows = [[float(row[name]) for name in ("Model Size", "Training FLOP", "loss")] for row in csv.DictReader(file)]
    size, flops, loss = np.array(sorted(rows, key=lambda row: row[2])[:-DROPPED]).T
    runs = np.log(size), np.log(flops / 6 / size), np.log(loss)
    print("all runs:", shown(fit(*runs)))
    random = np.random.default_rng(1)
    found = []
    for _ in range(RESAMPLES):
        chosen = random.integers(0, len(size), len(size))
        found.append(shown(fit(*(side[chosen] for side in runs))))
    lines = ["size,data,floor,alpha,beta", *(",".join(f"{value:.6g}" for value in one) for one in found)]
    (ROOT / "src/rackmath/data/law_bootstrap.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("deviations:", np.std(found, axis=0))


def fit(size: np.ndarray, tokens: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """Least Huber error of the logarithm of the loss, summed; from the published coefficients and beside them."""

    def error(point: np.ndarray) -> tuple[float, np.ndarray]:
        a, b, e, alpha, beta = point
        terms = np.stack([a - alpha * size, b - beta * tokens, np.full_like(size, e)])
        top = terms.max(axis=0)
        parts = np.exp(terms - top)
        whole = parts.sum(axis=0)
        off = top + np.log(whole) - loss
        small = np.abs(off) <= DELTA
        value = np.where(small, off**2 / 2, DELTA * (np.abs(off) - DELTA / 2)).sum()
        slope = np.where(small, off, DELTA * np.sign(off)) * parts / whole
        return float(value), np.array(
            [slope[0].sum(), slope[1].sum(), slope[2].sum(), -(slope[0] @ size), -(slope[1] @ tokens)]
        )

    best = None
    for shift in (0.0, 0.3, -0.3):
        start = START + np.array([shift * 4, shift * 4, 0.0, shift / 5, shift / 5])
        found = minimize(
            error, start, jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-12}
        )
        if best is None or found.fun < best.fun:
            best = found
    return best.x


def shown(point: np.ndarray) -> list[float]:
    """Coefficients as they are printed: A, B, E, alpha, beta."""
    return [*np.exp(point[:3]).tolist(), *point[3:].tolist()]


if __name__ == "__main__":
    main()
