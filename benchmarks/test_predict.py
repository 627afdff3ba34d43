"""Speed of predicting measured rows: the whole table, where it is. Run: pytest benchmarks -m benchmark."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from rackmath.api.near_rows import corrected_rows
from rackmath.io.constants_file import constants
from rackmath.validation.predict import predict

pytestmark = pytest.mark.benchmark
ROWS = Path(__file__).parents[2] / "shared/measured/rows.csv"


needs_rows = pytest.mark.skipif(not ROWS.exists(), reason=f"{ROWS.name} of ../shared is absent")


def whole_table() -> list[dict[str, str]]:
    with ROWS.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@needs_rows
def test_the_whole_table(benchmark) -> None:
    table = whole_table()
    result = benchmark.pedantic(predict, (table, constants()), rounds=3, warmup_rounds=1)
    assert len(result) == len(table)


@needs_rows
def test_measurements_near_the_whole_table(benchmark) -> None:
    predictions = predict(whole_table(), constants())
    result = benchmark.pedantic(corrected_rows, (predictions,), rounds=3, warmup_rounds=1)
    assert len(result) == len(predictions)
