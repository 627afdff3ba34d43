"""Open loops that are in no table of ours: all are predicted, and as well as the README says."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np

from rackmath.api.predict import PredictRequest, run_prediction

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "tests/data/open_loops.csv"


def test_open_loops_are_predicted_as_well_as_the_readme_says() -> None:
    with TABLE.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    # Percentiles are simulated: tools/open_loops.py scores them.
    means = [row for row in rows if row["statistic"] == "mean"]
    predictions = run_prediction(PredictRequest(rows=means, no_evidence=True)).predictions
    assert len(means) == len(predictions) == 207
    ratio = {metric: [] for metric in ("tpot", "ttft", "e2e")}
    for row, p in zip(means, predictions, strict=True):
        assert p.predicted is not None, p.reason
        ratio[row["metric"]].append(p.predicted / float(row["value"]))
    stated = re.search(
        r"<!-- open loops -->69 \| ([\d.]+)% \| (\d+)%", (ROOT / "README.md").read_text(encoding="utf-8")
    )
    assert stated is not None
    error = np.abs(np.array(ratio["tpot"]) - 1)
    assert 100 * np.median(error) < float(stated[1]) + 0.06
    assert 100 * np.quantile(error, 0.9) < float(stated[2]) + 0.6


def test_lengths_of_answers_and_times_belong_together() -> None:
    """A whole answer is its first token and a step for each further one; second stages send twice as much or more."""
    with TABLE.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    rows = [r for r in rows if r["statistic"] == "mean"]
    value = {(r["experiment"], r["stage"], r["metric"]): float(r["value"]) for r in rows}
    for r in rows:
        experiment, stage = r["experiment"], r["stage"]
        whole = value[experiment, stage, "ttft"] + (float(r["output_mean"]) - 1) * value[experiment, stage, "tpot"]
        assert abs(whole / value[experiment, stage, "e2e"] - 1) < 1e-3
        if stage == "1":
            before = next(b for b in rows if (b["experiment"], b["stage"]) == (experiment, "0"))
            assert 2 <= float(r["request_rate"]) / float(before["request_rate"]) <= 2.5
