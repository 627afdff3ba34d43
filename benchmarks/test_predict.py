"""Speed of predicting measured rows: the whole table, where it is. Run: pytest benchmarks -m benchmark."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from rackmath.io.constants_file import constants
from rackmath.validation.predict import predict

pytestmark = pytest.mark.benchmark
ROWS = Path(__file__).parents[2] / "shared/measured/rows.csv"


@pytest.mark.skipif(not ROWS.exists(), reason=f"{ROWS.name} of ../shared is absent")
def test_the_whole_table(benchmark) -> None:
    with ROWS.open(newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    result = benchmark.pedantic(predict, (table, constants()), rounds=3, warmup_rounds=1)
    assert len(result) == len(table)
