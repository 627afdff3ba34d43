"""Fit and score the power of accelerators on Splitwise's profiles: writes docs/accuracy-of-power.md.

    python tools/power.py ../shared/measured

Rows whose mean power is zero were not measured (all of H100's). Prompts of 8,192 tokens on Llama 2 70B report less than
a quarter of the rated power, as idle accelerators do, and are left out.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headline import write_headline
from rackmath.engine.power import MULTIPLYING, READING, RUNNING
from rackmath.io import catalogue
from rackmath.models.cache import cache_bytes
from rackmath.models.counts import multiplied_params, weight_bytes

PAGE = Path("docs/accuracy-of-power.md")
NAMES = {"llama-2-70b": "llama-2-70b", "bigscience/bloom": "bloom"}
IDLE = 0.25
"""Part of the rated power below which accelerators stood still."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One profile: parts of the peaks in use, averaged over prompt and answer, and the power. [1]"""

    model: str
    ranks: int
    batch: float
    prompt: float
    memory: float
    compute: float
    measured: float


def main() -> None:
    """Fit, score, write."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    profiles = runs(Path(sys.argv[1]))
    PAGE.write_text(report(profiles), encoding="utf-8")
    left = left_out(profiles)
    write_headline("power", f"{np.median(left):.1%} off at the median with its model and width left out")


def runs(folder: Path) -> list[Run]:
    """Profiles on A100 with power and times."""
    times: defaultdict[str, dict[str, float]] = defaultdict(dict)
    with (folder / "rows.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["source"].startswith("Mutinifni/splitwise"):
                times[row["run_id"]][row["metric"]] = float(row["value"])
    with (folder / "other.csv").open(encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file) if r["metric"] == "power_mean_over_peak" and float(r["value"]) > IDLE]
    return [run(row, times[row["run_id"]]) for row in rows if {"ttft", "tpot"} <= times[row["run_id"]].keys()]


def run(row: dict[str, str], times: dict[str, float]) -> Run:
    """Bytes and FLOPs of a profile over what its time at peak rates would carry."""
    model, chip = catalogue.model(NAMES[row["model"]]), catalogue.system(row["hardware"]).chip
    ranks, batch, prompt, answer = (float(row[name]) for name in ("tp", "batch", "input_mean", "output_mean"))
    weights = sum(weight_bytes(model).values())
    cache = batch * float(cache_bytes(model, prompt + answer / 2))
    flops = 2 * multiplied_params(model) * batch
    writing = (answer - 1) * times["tpot"]
    total = times["ttft"] + writing
    return Run(
        model=model.name,
        ranks=int(ranks),
        batch=batch,
        prompt=prompt,
        memory=((answer - 1) * (weights + cache) + weights) / ranks / chip.memory_bandwidth / total,
        compute=(answer - 1 + prompt) * flops / ranks / chip.rate("bf16") / total,
        measured=float(row["value"]),
    )


def fitted(profiles: list[Run]) -> NDArray[np.float64]:
    """Least squares: running, reading, multiplying."""
    known = np.array([[1.0, r.memory, r.compute] for r in profiles])
    return np.linalg.lstsq(known, np.array([r.measured for r in profiles]), rcond=None)[0]


def left_out(profiles: list[Run]) -> NDArray[np.float64]:
    """Absolute errors of all profiles, each with its model and width left out of the fit. (profiles,)"""
    errors: list[float] = []
    for r in profiles:
        constants = fitted([other for other in profiles if (other.model, other.ranks) != (r.model, r.ranks)])
        errors.append(abs(float(constants @ [1.0, r.memory, r.compute]) / r.measured - 1))
    return np.array(errors)


def report(profiles: list[Run]) -> str:
    """The page."""
    groups = sorted({(r.model, r.ranks) for r in profiles})
    left = left_out(profiles)
    own = np.array([(RUNNING + READING * r.memory + MULTIPLYING * r.compute) / r.measured - 1 for r in profiles])
    constants = ", ".join(f"{value:.3f}" for value in fitted(profiles))
    lines = [
        "# Accuracy of power",
        "",
        f"{len(profiles)} profiles of Llama 2 70B and BLOOM on A100 (Mutinifni/splitwise-sim at 8f99e7d), of prompts",
        "from 128 to 8,192 tokens and batches from 1 to 16. Power is a part of the rated one; parts of the peaks in",
        "use are computed from the measured times. Least squares gives running, reading, multiplying: "
        f"{constants}; used are {RUNNING}, {READING}, {MULTIPLYING}.",
        "Written by `python tools/power.py ../shared/measured`.",
        "",
        "| | median error | 90th percentile | largest | within 15 % |",
        "|---|---|---|---|---|",
        f"| each model and width left out of its fit | {np.median(left):.1%} | {np.quantile(left, 0.9):.1%} "
        f"| {left.max():.1%} | {np.mean(left < 0.15):.0%} |",
        f"| as shipped | {np.median(abs(own)):.1%} | {np.quantile(abs(own), 0.9):.1%} | {abs(own).max():.1%} "
        f"| {np.mean(abs(own) < 0.15):.0%} |",
        "",
        "| model | ranks | profiles | measured | as shipped |",
        "|---|---|---|---|---|",
    ]
    for model, ranks in groups:
        here = [r for r in profiles if (r.model, r.ranks) == (model, ranks)]
        said = [RUNNING + READING * r.memory + MULTIPLYING * r.compute for r in here]
        seen = [r.measured for r in here]
        lines.append(
            f"| {model} | {ranks} | {len(here)} | {min(seen):.2f} to {max(seen):.2f} "
            f"| {min(said):.2f} to {max(said):.2f} |"
        )
    lines += [
        "",
        "No other accelerator has rows: H100's means are zero in the file. Ranges there are 35 % to either side, and",
        "end at the rated power.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
