"""Refit the compute-optimal law on Hoffmann's runs, and on resamples of them.

python tools/laws.py ../shared    # seconds, needs scipy

Writes src/rackmath/data/law_bootstrap.csv: coefficients of 200 resamples, which ``rackmath train budget`` takes as
the law's uncertainty. The runs themselves carry no licence and stay where they are. Prints the refit of Clark's routed
laws on DeepMind's released runs, which training/routed.py holds.
"""

from __future__ import annotations

import csv
import gzip
import sys
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares, minimize

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
    for router, (point, off) in routed(Path(sys.argv[1]) / "training/routed_lm_curves.csv.gz").items():
        print(router, [float(f"{value:.6g}") for value in point], f"root mean square {off:.4f}")


def routed(path: Path) -> dict[str, tuple[list[float], float]]:
    """Coefficients a, b, c, d, start and most of each router, and the error in log10 of the loss.

    Last step of each run; every second block routed, one expert per token, seed 42; dense runs have one expert.
    """
    last: dict[str, dict[str, str]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["hyper_id"] not in last or int(row["step"]) >= int(last[row["hyper_id"]]["step"]):
                last[row["hyper_id"]] = row
    runs = [
        row
        for row in last.values()
        if float(row["routing_frequency"]) == 0.5 and float(row["k"]) == 1 and row["seed"] == "42"
    ]
    found = {}
    for router in ("S-Base", "RL-R", "Hash"):
        rows = [row for row in runs if row["router_type"] in (router, "Dense")]
        fields = ("dense_parameter_count", "num_experts", "loss_validation")
        size, experts, loss = (np.array([float(row[name]) for row in rows]) for name in fields)

        def off(point: np.ndarray, size=size, experts=experts, loss=loss) -> np.ndarray:
            a, b, c, d, start, most = *point[:4], *np.exp(point[4:])
            many = np.log10(1 / (1 / (experts - 1 + 1 / (1 / start - 1 / most)) + 1 / most))
            return a * np.log10(size) + b * many + c * np.log10(size) * many + d - np.log10(loss)

        starts = [[-0.083, -0.12, 0.011, 1.1, np.log(start), np.log(400)] for start in (1.5, 2.0, 4.0)]
        fits = [least_squares(off, start, xtol=1e-14, ftol=1e-14, gtol=1e-14, max_nfev=20_000) for start in starts]
        best = min(fits, key=lambda fit: fit.cost)
        found[router] = [*best.x[:4], *np.exp(best.x[4:])], float(np.sqrt(np.mean(best.fun**2)))
    return found


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
