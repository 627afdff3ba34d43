"""Run InferSim on the closed-loop rows that it covers: its predictions beside the rows' ids.

    git clone https://github.com/alibaba/InferSim SCRATCH
    python tools/peers_infersim.py ../shared/measured/rows.csv ../shared/model-configs SCRATCH OUT.csv

Times per output token of its ``main.py --decode-only`` for the row's chip, model, layout, lengths and formats; commit
f2293da. What it has no config, chip or kernel table for is left out, and counted.
"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

CHIPS = {"h200-sxm": "H200", "h800-sxm": "H800", "h20": "H20", "gb200-nvl72": "GB200"}
VERSION = "InferSim f2293da"
_TPOT = re.compile(r"TPOT \(ms\):\s+([\d.]+)")


def main(rows: Path, configs: Path, checkout: Path, out: Path) -> None:
    """Predict all rows that it covers."""
    with rows.open(newline="") as file:
        chosen = [row for row in csv.DictReader(file) if _covered(row)]
    refused: Counter[str] = Counter()
    with out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "predictor", "value"])
        for row in chosen:
            config = configs / f"{row['model_hf'].replace('/', '__').replace('__Llama-3.1', '__Meta-Llama-3.1')}.json"
            if not config.is_file():
                refused[f"no config of {row['model_hf']}"] += 1
                continue
            done = subprocess.run(
                [sys.executable, "main.py", "--config-path", str(config.resolve()), *_words(row)],
                cwd=checkout,
                capture_output=True,
                text=True,
                check=False,
            )
            match = _TPOT.search(done.stdout)
            if match is None:
                lines = done.stderr.strip().splitlines()
                refused[lines[-1][:80] if lines else "no answer"] += 1
                continue
            writer.writerow([row["id"], VERSION, repr(float(match[1]) / 1e3)])
    for reason, count in refused.most_common():
        print(f"{count} refused: {reason}", file=sys.stderr)


def _covered(row: dict[str, str]) -> bool:
    """Closed loops of one unit without drafts, whose layout is stated."""
    return (
        row["arrivals"] == "closed"
        and row["topology"] == "aggregated"
        and row["metric"] in ("tpot", "itl")
        and row["statistic"] in ("mean", "p50")
        and row["hardware"] in CHIPS
        and row["speculative"] in ("", "none")
        and row["replicas"] in ("", "1")
        and bool(row["tp"] and row["concurrency"] and row["input_mean"] and row["output_mean"])
    )


def _words(row: dict[str, str]) -> Iterator[str]:
    gpus, tensor = int(row["n_gpus"]), int(row["tp"])
    yield from ("--decode-only", "--device-type", CHIPS[row["hardware"]])
    yield from ("--world-size", str(gpus), "--tp-size", str(tensor))
    yield from ("--decode-bs", str(max(round(float(row["concurrency"]) * tensor / gpus), 1)))
    yield from ("--target-isl", str(round(float(row["input_mean"]))))
    yield from ("--target-osl", str(max(round(float(row["output_mean"])), 1)))
    if row["weights"].startswith("fp8"):
        yield "--use-fp8-gemm"
    if row["kv"] == "fp8":
        yield "--use-fp8-kv"


if __name__ == "__main__":
    main(*(Path(text) for text in sys.argv[1:5]))
