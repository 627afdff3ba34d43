"""A table that several processes share: the same predictions in the same order, and lines of the whole file."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from rackmath.api import predicted_rows as shared
from rackmath.api.predict import PredictRequest, run_prediction
from rackmath.errors import RackmathError
from tests.sweeps.test_sweeps import children
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


def test_a_process_that_is_killed_is_one_line_and_no_standstill(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of 2 MB, far longer than a pipe: one is being sent when nobody reads any more."""
    monkeypatch.setattr(shared, "_ROWS", 10)
    table = [cells(id=f"step-{n}", concurrency=str(n + 1), notes="x" * 200_000) for n in range(40)]

    def kill_one() -> None:
        deadline = time.monotonic() + 20
        while not (processes := children()) and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(processes[0], signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    with pytest.raises(RackmathError, match="was killed"):
        run_prediction(PredictRequest(rows=table), workers=2)
    killer.join()
