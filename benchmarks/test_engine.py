"""Speed of the engine: one point, a grid of a million, reading a config. Run: pytest benchmarks -m benchmark."""

from __future__ import annotations

import json
from importlib.resources import files

import numpy as np
import pytest

from rackmath.engine import Layout, estimate
from rackmath.io import catalogue
from rackmath.models.config import read_config
from rackmath.models.counts import total_params

pytestmark = pytest.mark.benchmark
MODEL, SYSTEM = "deepseek-v3", "gb200-nvl72"


def grid() -> tuple[np.ndarray, np.ndarray, Layout]:
    """10^6 points: 1,000 batches x 250 contexts x 4 layouts."""
    batch = np.arange(1, 1001)[:, None, None]
    context = np.linspace(128, 131_072, 250)[None, :, None]
    tensor = np.array([1.0, 2.0, 4.0, 8.0])[None, None, :]
    return batch, context, Layout(tensor=tensor, expert=72, data=72 / tensor)


def test_one_point(benchmark) -> None:
    model, system = catalogue.model(MODEL), catalogue.system(SYSTEM)
    benchmark(estimate, model, system, Layout(expert=72, data=72), batch=2048, context=8192)


def test_a_million_points(benchmark) -> None:
    model, system = catalogue.model(MODEL), catalogue.system(SYSTEM)
    batch, context, layout = grid()
    result = benchmark.pedantic(
        estimate, (model, system, layout), {"batch": batch, "context": context}, rounds=5, warmup_rounds=1
    )
    assert result.time.size == 10**6


def test_reading_and_counting_a_config(benchmark) -> None:
    raw = json.loads((files("rackmath") / "data/models/deepseek-v3.json").read_text())["config"]
    benchmark(lambda: total_params(read_config(raw)))
