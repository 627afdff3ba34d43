"""The board of predictors: what others predict of rows, beside what rackmath does.

    python tools/peers.py ../shared/measured/rows.csv PREDICTIONS.csv ...

PREDICTIONS are tables of id, predictor and value that ``tools/peers_published.py``, ``tools/peers_aiconfigurator.py``
and ``tools/peers_infersim.py`` write. Writes docs/generated/peers.csv, which can be given in their place, and
docs/peers.md. Ours are predicted twice: by constants that never saw the row's source, and as shipped, where other runs
of the same source may have been seen.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rackmath.api.predict import predict
from rackmath.validation.predict import Prediction

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "docs/generated/peers.csv"
PAGE = ROOT / "docs/peers.md"
LEFT_OUT = ROOT / "docs/generated/left_out.csv"
METRICS = {"tpot": "time per token", "itl": "time per token", "ttft": "first token", "e2e": "end to end"}
OTHER = "speed of a pass"
SEEN = {
    "BLIS roofline": "no fit",
    "BLIS evolved": "fitted by the authors of these measurements, on others of their lab",
    "BLIS trained physics": "fitted by the authors of these measurements, on others of their lab",
    "Vidur": "kernels profiled on the same chips",
    "llm-optimizer": "no fit",
    "aiconfigurator, as BLIS ran it": "kernels profiled on the same chips",
    "aiconfigurator 0.12.0": "kernels profiled on the same chips; most rows are its own regression set",
    "InferSim f2293da": "kernels profiled on H20 and H800; on H200 and GB200 parts of the peaks",
    "InferSim, its README": "kernels profiled on the same chips",
}
ORDER = ("time per token", "first token", "end to end", OTHER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row: what was measured, what a peer predicts, and what we do."""

    measured: float
    theirs: float
    left_out: float
    shipped: float
    low: float
    high: float


def main(rows: Path, tables: Sequence[Path]) -> None:
    """Write the table of predictions and the page."""
    predictions = _merged(tables)
    with rows.open(newline="") as file:
        cells = {row["id"]: row for row in csv.DictReader(file) if row["id"] in predictions}
    with LEFT_OUT.open(newline="") as file:
        unseen = {row["id"]: float(row["source"]) for row in csv.DictReader(file) if row["id"] in predictions}
    shipped = {p.question.row.id: p for p in predict(list(cells.values())).predictions if p.question is not None}
    board: dict[tuple[str, str], list[Line]] = defaultdict(list)
    declined: dict[tuple[str, str], int] = defaultdict(int)
    for number, values in predictions.items():
        for predictor, value in values.items():
            key = (METRICS.get(cells[number]["metric"], OTHER), predictor)
            ours = shipped.get(number)
            if ours is None or ours.predicted is None or number not in unseen:
                declined[key] += 1
                continue
            board[key].append(_line(ours, value, unseen[number]))
    PAGE.write_text(_page(board, declined), encoding="utf-8")


def _merged(tables: Sequence[Path]) -> dict[str, dict[str, float]]:
    """Values by row and predictor; written as one table."""
    merged: dict[str, dict[str, float]] = defaultdict(dict)
    for path in tables:
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                merged[row["id"]][row["predictor"]] = float(row["value"])
    with TABLE.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", "predictor", "value"])
        for number in sorted(merged):
            writer.writerows([number, name, f"{value:.6g}"] for name, value in sorted(merged[number].items()))
    return merged


def _line(ours: Prediction, theirs: float, unseen: float) -> Line:
    question = ours.question
    assert question is not None
    assert ours.predicted is not None
    return Line(
        measured=float(question.row.value or np.nan),
        theirs=theirs,
        left_out=unseen,
        shipped=ours.predicted,
        low=ours.low or np.nan,
        high=ours.high or np.nan,
    )


def _page(board: dict[tuple[str, str], list[Line]], declined: dict[tuple[str, str], int]) -> str:
    lines = [*_HEAD.strip().splitlines()]
    for kind in ORDER:
        for (name, predictor), group in sorted(board.items()):
            if name != kind:
                continue
            measured = np.array([x.measured for x in group])
            columns = [_errors(np.array([getattr(x, c) for x in group]), measured) for c in _COLUMNS]
            inside = np.mean([(x.low <= x.measured <= x.high) for x in group])
            lines.append(
                f"| {kind} | {predictor} | {SEEN[predictor]} | {len(group):,} | {' | '.join(columns)} | {inside:.0%} |"
            )
    lines += ["", *_NOTES.strip().splitlines(), ""]
    lines.append(
        f"{sum(declined.values()):,} of their predictions are of rows that we decline or leave out of the fit."
    )
    return "\n".join(lines) + "\n"


_COLUMNS = ("theirs", "left_out", "shipped")
_HEAD = """
# Other predictors on the same measurements

Generated by `python tools/peers.py ../shared/measured/rows.csv docs/generated/peers.csv`. Each line compares on the
rows that both predict. Error is predicted over measured, less one: median, and 90th percentile. Ours is scored twice,
the stricter first: by constants that never saw any row of the source (measurements of other sources are far from these
rows, and correct nothing); and as shipped, with other runs of the same source seen, which is the score that compares
with a peer fitted on its own rows. *Inside* is how many rows lie in the range that ships beside the value; no peer
states one.

| of | predictor | seen by it | rows | theirs | ours, source unseen | as shipped | inside |
|---|---|---|---|---|---|---|---|
"""
_NOTES = """
What to keep in mind:

- BLIS, Vidur, llm-optimizer and the first aiconfigurator were run by the authors of BLIS
  ([sim-to-real-accuracy-validation](https://github.com/inference-sim/sim-to-real-accuracy-validation), commit
  dcec3fd, and `results_iter36` before 0205ebd) on their own measurements of vLLM 0.15, open loops on H100. Of the 38
  experiments those are scored that are rows here. Their harness repeats a hundred prompts, which vLLM then has in its
  cache: our rows say so, and a predictor that reads whole prompts is too slow to the first token.
- The second aiconfigurator is the package of the registry, run by `tools/peers_aiconfigurator.py` on one in three of
  the closed loops that it covers, with its newest tables of each engine, whatever version was measured. It predicts
  requests in steady state; measured first tokens hold the queue of a benchmark's start.
- InferSim was run by `tools/peers_infersim.py` on closed loops; it predicts a decode step alone, without the prompts
  that interrupt it.
- LLMServingSim was run by BLIS's authors on 32 experiments, of which only means over several stages are published, so
  that no row matches: end to end 18.8 % at the median, 46.5 % at the 90th percentile, by their own figures.
- Peers that publish no prediction per measurement are not here: calculon, llm-analysis, APEX+, llmfit.
"""


def _errors(predicted: np.ndarray, measured: np.ndarray) -> str:
    error = np.abs(predicted / measured - 1)
    return f"{np.median(error):.1%}, {np.quantile(error, 0.9):.0%}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(text) for text in sys.argv[2:]])
