"""Counts of the catalogue's models against what their repositories on Hugging Face hold, to the last parameter."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from rackmath.io import catalogue
from rackmath.models.counts import encoder_params, total_params

PUBLISHED = Path(__file__).parents[1] / "data/published_parameters.csv"
ROWS = list(csv.DictReader(line for line in PUBLISHED.read_text().splitlines() if not line.startswith("#")))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["model"])
def test_parameters_are_those_of_the_repository(row: dict[str, str]) -> None:
    architecture = catalogue.model(row["model"])
    stored = total_params(architecture) + encoder_params(architecture)
    assert stored == int(row["parameters"]) - int(row["not_counted"] or 0)
