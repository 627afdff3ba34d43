"""Score the simulator on servers under load: writes docs/accuracy-of-serving.md.

    python tools/serving.py ../shared/measured/rows.csv

Every run of the table whose requests arrive evenly, or all at once, and that states percentiles or means of what users
saw, is simulated once as ``rackmath predict --explain`` says, by the shipped constants. Nothing near is asked: the
run's own rows stand among the measurements.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rackmath.api.simulated_rows import KEYS, mean_of, request_of
from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.result import run_simulation
from rackmath.errors import RackmathError
from rackmath.io.tables import read_csv
from rackmath.validation.questions import Question
from rackmath.validation.simulated import simulation_fields

PAGE = Path("docs/accuracy-of-serving.md")
NAMES = {"ttft": "first token", "tpot": "per token", "e2e": "end to end"}
STATISTICS = ("mean", "p50", "p90", "p99")
LOADS = ((0.0, 0.7, "below 70 %"), (0.7, 0.9, "70 to 90 %"), (0.9, 1.1, "90 to 110 %"), (1.1, np.inf, "above 110 %"))
FAST = 20.0
"""Times the offered rate at which a fleet is taken to be at its capacity."""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """One number of one run."""

    run: str
    source: str
    engine: str
    chip: str
    arrivals: str
    metric: str
    statistic: str
    load: float
    """Offered rate over the simulated capacity; not a number where all come at once."""
    measured: float
    predicted: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted / self.measured - 1

    @property
    def inside(self) -> bool:
        """Whether the measurement is in the range."""
        return self.low <= self.measured <= self.high


def main() -> None:
    """Read, simulate, score, write."""
    runs: dict[str, list[tuple[Question, str]]] = defaultdict(list)
    left: dict[str, int] = defaultdict(int)
    for line, cells in enumerate(read_csv(Path(sys.argv[1]), "ROWS"), 2):
        if cells["arrivals"] not in ("constant", "poisson", "all_at_once") or cells["metric"] not in KEYS:
            continue
        if cells["statistic"] not in STATISTICS or cells["per"] != "request":
            continue
        statistic = cells["statistic"]
        try:
            # A percentile is asked of the simulator; what runs is read from the row as it is for a mean.
            of_row = mean_of(cells, line)
        except RackmathError:
            left["numbers whose row does not say enough"] += 1
            continue
        reason = _unfit(of_row, statistic)
        if reason:
            left[reason] += 1
        else:
            runs[of_row.row.run_id].append((of_row, statistic))
    with ProcessPoolExecutor() as pool:
        results = list(pool.map(scored, runs.values()))
    every = [number for scores, _ in results for number in scores]
    for _, reason in results:
        if reason:
            left[reason] += 1
    PAGE.write_text(report(every, len(runs), left), encoding="utf-8")


def _unfit(of_row: Question, statistic: str) -> str:
    """Why a number is not scored; nothing for one that is."""
    row = of_row.row
    if row.confidence == "low" or row.flag("immature"):
        return "numbers of low confidence"
    if row.flag("overload") or row.flag("partial_success"):
        return "numbers of runs in which requests failed"
    if row.metric == "e2e" and statistic != "mean" and row.length_cv is None:
        return "percentiles of whole answers whose spread of lengths is not stated"
    return "numbers of two pools" if simulation_fields(of_row) is None else ""


def scored(numbers: Sequence[tuple[Question, str]]) -> tuple[list[Scored], str]:
    """Scores of all numbers of one run; none, and why, where it cannot be simulated."""
    first = numbers[0][0]
    fields = simulation_fields(first)
    assert fields is not None, "runs without were left out"
    request = request_of(first, fields)
    try:
        facts = run_simulation(request).to_dict()
        load = first.rate / capacity(request) if first.kind == "open" else np.nan
    except RackmathError as error:
        return [], f"runs that the simulator refuses ({type(error).__name__})"
    return list(_scores(numbers, facts, float(load))), ""


def _scores(numbers: Iterable[tuple[Question, str]], facts: Mapping[str, Any], load: float) -> Iterable[Scored]:
    for q, statistic in numbers:
        spread = facts[KEYS[q.row.metric]]
        if spread is None:
            continue
        low, high = spread[f"{statistic}_range"]
        yield Scored(
            run=q.row.run_id, source=q.row.source.split("@")[0], engine=q.row.family, chip=q.system.chip.name,
            arrivals=q.row.arrivals, metric=q.row.metric, statistic=statistic, load=load,
            measured=float(q.row.value or np.nan), predicted=spread[statistic], low=low, high=high,
        )  # fmt: skip


def capacity(request: SimulateRequest) -> float:
    """Requests per second that a fleet serves when many more come. [requests/s]"""
    assert request.poisson is not None
    return run_simulation(replace(request, poisson=FAST * request.poisson, requests=2000)).to_dict()["served_rate"]


def report(every: Sequence[Scored], runs: int, left: Mapping[str, int]) -> str:
    """The page."""
    open_loop = [number for number in every if np.isfinite(number.load)]
    wave = [number for number in every if not np.isfinite(number.load)]
    scored_runs = len({number.run for number in every})
    lines = [
        "# Accuracy of simulated servers",
        "",
        "Generated by `python tools/serving.py ../shared/measured/rows.csv`; do not edit.",
        "",
        f"{len(every):,} numbers of {scored_runs} of {runs} runs of vLLM, SGLang and TensorRT-LLM",
        "whose requests arrive evenly or all at once, each simulated once by the shipped constants; measurements near",
        "are not asked. The fit of those constants has seen means and medians of some of these runs, and none of their",
        "p90 and p99. Errors are predicted over measured, less one; bias is their median with its sign; ranges are",
        "those of all steps at an end of the engine's 90 % range. Some rows do not say how much lengths differ: where",
        "a mean is not whole, lengths are drawn with a standard deviation of their mean. docs/losses.md says what is",
        "missing where requests come all at once.",
        "",
        "## Open loop, by source and statistic",
        "",
        *table(
            "source, what, of which",
            open_loop,
            lambda number: f"{number.source}, {NAMES[number.metric]}, {number.statistic}",
        ),
        "",
        "## Open loop, by load over capacity",
        "",
        "Capacity is the rate that the same deployment serves, simulated, when twenty times as many requests come.",
        "",
        *table("load, what", open_loop, lambda number: f"{_load(number.load)}, {NAMES[number.metric]}"),
        "",
        "## All at once, by source and statistic",
        "",
        *table(
            "source, what, of which",
            wave,
            lambda number: f"{number.source}, {NAMES[number.metric]}, {number.statistic}",
        ),
        "",
        "## By engine and chip",
        "",
        *table("engine, chip, what", every, lambda number: f"{number.engine}, {number.chip}, {NAMES[number.metric]}"),
        "",
        "Left out: " + "; ".join(f"{count:,} {why}" for why, count in sorted(left.items())) + ".",
    ]
    return "\n".join(lines) + "\n"


def _load(load: float) -> str:
    return next(name for low, high, name in LOADS if low <= load < high)


def table(head: str, scores: Sequence[Scored], key: Callable[[Scored], str]) -> list[str]:
    """Errors by group."""
    groups: dict[str, list[Scored]] = defaultdict(list)
    for number in scores:
        groups[key(number)].append(number)
    lines = [f"| {head} | runs | median error | p90 | bias | inside |", "|---|---|---|---|---|---|"]
    for name, members in sorted(groups.items()):
        errors = np.array([number.error for number in members])
        inside = np.mean([number.inside for number in members])
        lines.append(
            f"| {name} | {len({number.run for number in members})} | {np.median(np.abs(errors)):.1%} "
            f"| {np.quantile(np.abs(errors), 0.9):.0%} | {np.median(errors):+.1%} | {inside:.0%} |"
        )
    return lines


if __name__ == "__main__":
    main()
