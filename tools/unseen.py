"""Score the engine's constants on services that no fit has seen: writes docs/accuracy-unseen.md.

    python tools/unseen.py

The rows are the ML.ENERGY leaderboard's (tests/data/ml_energy.csv: vLLM on H100 and B200, median time between tokens
at a mean batch), which stand in no table that constants, ranges or evidence are learned from. Lengths of prompts are
assumed as in ``tools/power.py``; nothing near is asked.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headline import write_headline
from power import PROMPTS, SERVICES
from rackmath.engine import Layout, estimate
from rackmath.io import catalogue, constants_file
from rackmath.models.formats import weight_format
from rackmath.models.requantise import requantise

PAGE = Path("docs/accuracy-unseen.md")
YEAR = 2025.8
"""When the leaderboard's servers are from: version 3.0, December 2025. [years]"""
BATCHES = (0, 4, 16, 64, 256, 10_000)


@dataclass(frozen=True, kw_only=True)
class Scored:
    """One service: measured and predicted time between tokens, with the range."""

    system: str
    task: str
    model: str
    gpus: int
    batch: float
    measured: float
    predicted: float
    low: float
    high: float

    @property
    def inside(self) -> bool:
        """Whether the measurement is in the range."""
        return self.low <= self.measured <= self.high


def main() -> None:
    """Score, write."""
    with SERVICES.open(encoding="utf-8") as file:
        every = [scored(row) for row in csv.DictReader(file)]
    PAGE.write_text(report(every), encoding="utf-8")
    errors = np.abs([r.predicted / r.measured - 1 for r in every])
    inside = np.mean([r.inside for r in every])
    cells = (f"{len(every):,}", f"{np.median(errors):.0%}", f"{np.quantile(errors, 0.9):.0%}", f"{inside:.0%}")
    write_headline("unseen", " | ".join(cells))


def scored(row: dict[str, str]) -> Scored:
    """Predict a service."""
    system, model = catalogue.system(row["system"]), catalogue.model(row["model"])
    if row["weights"] != "mxfp4":
        model = requantise(model, weights=weight_format(row["weights"]))
    gpus, data, expert = int(row["gpus"]), int(row["data"]), int(row["expert"])
    step = estimate(
        model,
        system,
        Layout(tensor=gpus // data, expert=expert, data=data),
        batch=float(row["batch"]),
        context=PROMPTS[row["task"]] + float(row["output_mean"]) / 2,
        losses=constants_file.losses_of(system, constants_file.engine_of(system, "vllm", YEAR), "time per token"),
    )
    return Scored(
        system=row["system"],
        task=row["task"],
        model=row["model"],
        gpus=gpus,
        batch=float(row["batch"]) / gpus,
        measured=float(row["itl_median"]),
        predicted=float(step.time),
        low=float(step.time_low),
        high=float(step.time_high),
    )


def report(every: Sequence[Scored]) -> str:
    """The page."""
    lines = [
        "# Accuracy on services that no fit has seen",
        "",
        f"{len(every)} services of vLLM on H100 and B200 (ml-energy/leaderboard at 0cd52da, version 3.0,",
        "tests/data/ml_energy.csv): median time between tokens at a mean batch, by physics and constants. None of",
        "these rows stands in a table that constants, ranges or evidence are learned from; variants of the engine's",
        "structure were compared on them (26 November 2026, `docs/losses.md`). Predicted over measured: below 1 we are",
        "too fast.",
        "Written by `python tools/unseen.py`.",
        "",
        *table("", [("all", every)]),
    ]
    groups: list[tuple[str, Callable[[Scored], object]]] = [
        ("system", lambda r: r.system),
        ("task", lambda r: r.task),
        ("accelerators", lambda r: r.gpus),
        ("sequences per accelerator", lambda r: between(r.batch)),
        ("model", lambda r: r.model),
    ]
    for name, key in groups:
        members: dict[object, list[Scored]] = {}
        for r in every:
            members.setdefault(key(r), []).append(r)
        ordered = sorted(members.items(), key=lambda item: (str(type(item[0])), item[0]))
        lines += table(name, [(str(label), rows) for label, rows in ordered])
    lines += [
        "Prompts' lengths are assumed ("
        + ", ".join(f"{tokens:,.0f} tokens in {task}" for task, tokens in PROMPTS.items())
        + "); the leaderboard",
        "does not publish them, nor the version of the server and the settings of its scheduler.",
        "",
    ]
    return "\n".join(lines)


def between(batch: float) -> str:
    """A batch's class."""
    place = int(np.searchsorted(BATCHES, batch, side="right"))
    return f"{BATCHES[place - 1]:>3} to {BATCHES[place]:,}" if place < len(BATCHES) - 1 else f"{BATCHES[-2]} and more"


def table(name: str, groups: Sequence[tuple[str, Sequence[Scored]]]) -> list[str]:
    """One table of groups."""
    lines = [
        f"| {name} | rows | median error | 90th percentile | predicted over measured | inside the range |",
        "|---|---|---|---|---|---|",
    ]
    for label, rows in groups:
        ratio = np.array([r.predicted / r.measured for r in rows])
        errors = np.abs(ratio - 1)
        lines.append(
            f"| {label} | {len(rows)} | {np.median(errors):.0%} | {np.quantile(errors, 0.9):.0%} "
            f"| {np.median(ratio):.2f} | {np.mean([r.inside for r in rows]):.0%} |"
        )
    return [*lines, ""]


if __name__ == "__main__":
    main()
