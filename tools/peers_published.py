"""Predictions that others published for measurements that are rows here: their values beside the rows' ids.

    git clone https://github.com/inference-sim/sim-to-real-accuracy-validation SCRATCH
    python tools/peers_published.py ../shared/measured/rows.csv SCRATCH OUT.csv

The repository (commit dcec3fd, and results_iter36 of its history before 0205ebd) holds what seven simulators predicted
for experiments of vLLM 0.15, each beside what was measured. A prediction belongs to the row of the same model, metric
and statistic whose value is the one measured, to five digits.
"""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from pathlib import Path

SOURCE = "inference-sim/training"
FILES = (
    ("0205ebd^", "results_iter36/error_records.csv"),
    ("dcec3fd", "results_trainval/error_records.csv"),
    ("dcec3fd", "results/llmservingsim_error_records_matched.csv"),
)
NAMES = {
    "blis-roofline": "BLIS roofline",
    "blis-evolved": "BLIS evolved",
    "blis-trained-physics": "BLIS trained physics",
    "llm-optimizer-estimate": "llm-optimizer",
    "aiconfigurator-estimate": "aiconfigurator, as BLIS ran it",
    "vidur": "Vidur",
    "llmservingsim": "LLMServingSim",
}
README = {
    "infersim-0001": 9034, "infersim-0002": 2675, "infersim-0003": 17350, "infersim-0004": 2632, "infersim-0005": 16328,
    "infersim-0006": 2581,
}  # fmt: skip
"""What InferSim's README (commit f2293da) says that it predicts of its own measurements. [tokens/s and accelerator]"""
_SAME = 1e-5


def main(rows: Path, checkout: Path, out: Path) -> None:
    """Match all published predictions with rows."""
    measured: dict[tuple[str, str, str], list[tuple[float, str]]] = {}
    with rows.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["source"].startswith(SOURCE):
                key = (_plain(row["model_hf"]), row["metric"], row["statistic"])
                measured.setdefault(key, []).append((float(row["value"]), row["id"]))
    predictions: dict[tuple[str, str], str] = {}
    for commit, path in FILES:
        text = subprocess.run(
            ["git", "-C", str(checkout), "show", f"{commit}:{path}"], capture_output=True, text=True, check=True
        ).stdout
        for record in csv.DictReader(io.StringIO(text)):
            metric, statistic = record["metric_name"].rsplit("_", 1)
            metric = {"itl": "tpot"}.get(metric, metric)
            actual, value = float(record["actual"]) / 1e3, float(record["predicted"]) / 1e3
            for other, number in measured.get((_plain(record["model"]), metric, statistic), ()):
                if abs(actual / other - 1) < _SAME and value > 0:
                    predictions.setdefault((number, NAMES[record["simulator"]]), repr(value))
    predictions |= {(number, "InferSim, its README"): repr(float(value)) for number, value in README.items()}
    with out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "predictor", "value"])
        writer.writerows((number, name, value) for (number, name), value in sorted(predictions.items()))


def _plain(model: str) -> str:
    return model.rsplit("/", maxsplit=1)[-1].lower().removesuffix("-hf").removesuffix("-instruct")


if __name__ == "__main__":
    main(*(Path(text) for text in sys.argv[1:4]))
