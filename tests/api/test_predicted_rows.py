"""A table that several processes share: the same predictions in the same order, and lines of the whole file."""

from __future__ import annotations

import pytest

from rackmath.api import predicted_rows as shared
from rackmath.api.predict import PredictRequest, run_prediction
from tests.validation.rows import cells


def test_parts_and_processes_change_no_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [cells(id=f"step-{n}", concurrency=str(n)) for n in (1, 4, 16, 64)]
    table = [*steps, cells(id="", n_gpus="-3"), cells(id="again", concurrency="16")]
    whole = run_prediction(PredictRequest(rows=table))
    monkeypatch.setattr(shared, "_ROWS", 1)
    said: list[str] = []
    parts = run_prediction(PredictRequest(rows=table), said.append, workers=2)
    for name in ("predictions", "computed"):
        for alone, part in zip(getattr(whole, name), getattr(parts, name), strict=True):
            assert part.reason == alone.reason
            assert part.predicted == (None if alone.predicted is None else pytest.approx(alone.predicted, rel=1e-12))
    assert "line 6" in parts.predictions[4].reason
    assert [p.row.id for p in parts.predictions if p.row] == [*(row["id"] for row in steps), "again"]
    assert said == [f"{count} of 6 rows predicted" for count in range(1, 7)]
    assert len({p.predicted for p in parts.predictions[:4]}) == 4
