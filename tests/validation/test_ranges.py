"""Ranges cover what they promise on groups they have not seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rackmath.engine.constants import Constants
from rackmath.validation.left_out import FOLDS, folds, weights
from rackmath.validation.questions import question
from rackmath.validation.ranges import class_of, covered, fitted_ranges, row_range
from rackmath.validation.rows import read_row
from tests.validation.rows import cells


def rows_of(n: int, rng: np.random.Generator, spread: float):
    one = question(read_row(cells(), 2))
    values = np.full(n, 10.0)
    measured = values * np.exp(rng.normal(0, spread, n))
    made = [replace(one, row=replace(one.row, value=float(v), source=f"s{i}")) for i, v in enumerate(measured)]
    return made, values


def test_ranges_of_left_out_rows_cover_nine_in_ten(rng) -> None:
    questions, values = rows_of(4000, rng, 0.2)
    inside = covered(questions, values, np.arange(4000.0) % 8)
    assert inside.mean() == pytest.approx(0.9, abs=0.02)


def test_ranges_grow_with_the_scatter_and_stay_around_one(rng) -> None:
    widths = []
    for spread in (0.1, 0.4):
        questions, values = rows_of(500, rng, spread)
        low, high = fitted_ranges(questions, values, values)["time per token"]["known"]
        assert low < 1 < high
        assert np.log(high) == pytest.approx(1.645 * spread, rel=0.25)
        widths.append(high / low)
    assert widths[1] > widths[0]


def test_an_inferred_layout_widens_the_range() -> None:
    one = question(read_row(cells(), 2))
    ranges = {"time per token": {"known": (0.5, 2.0), "new": (0.4, 3.0)}}
    assert row_range(one, ranges, known=True) == (0.5, 2.0)
    assert row_range(one, ranges, known=False) == (0.4, 3.0)
    unsure = replace(one, deployment=replace(one.deployment, inferred="guessed"))
    low, high = row_range(unsure, ranges, known=True)
    assert (low, high) == pytest.approx((0.5**1.5, 2**1.5))


def test_a_chip_that_was_never_measured_gets_the_range_of_new_chips() -> None:
    ranges = {"training": {"known": (0.8, 1.2), "new": (0.5, 2.0)}}
    c = Constants(base={}, moves={}, slopes={}, ranges=ranges, chips=frozenset({"A"}))
    assert c.range("training", "A") == (0.8, 1.2)
    assert c.range("training", "B") == (0.5, 2.0)


def test_groups_fall_whole_into_folds() -> None:
    questions = [
        question(read_row(cells(hardware=h, batch_or_concurrency=str(b)), 2))
        for h in ("H100-SXM-80GB", "L40S", "MI300X")
        for b in (1, 2, 4)
    ]
    part = folds(questions, "chip")
    assert all(len(set(part[i : i + 3])) == 1 for i in (0, 3, 6))
    assert set(part) <= set(range(FOLDS))
    w = weights([*questions, questions[0], questions[0]])
    assert w.mean() == pytest.approx(1)
    assert w[0] < w[3]


def test_rows_that_may_mean_something_else_weigh_little() -> None:
    plain = {"model": "Llama-2-70B", "n_gpus": "8", "batch_or_concurrency": "64", "parallelism": "tp=8"}
    sure, inferred, low = (
        question(read_row(cells(**(plain | changes)), 2))
        for changes in ({}, {"parallelism": ""}, {"confidence": "low"})
    )
    w = weights([sure, inferred, low])
    assert w[1] / w[0] == pytest.approx(0.2)
    assert w[2] / w[0] == pytest.approx(0.2)


def test_classes_tell_services_passes_and_training_apart() -> None:
    assert class_of(question(read_row(cells(), 2))) == "time per token"
    served = cells(
        model="Llama-2-70B", metric="output_throughput server", unit="tok/s", per="system", notes="MLPerf v5.1 closed"
    )
    assert class_of(question(read_row(served, 2))) == "server"
    assert class_of(question(read_row(cells(metric="decode_speed", unit="tok/s", per="user"), 2))) == "decode pass"
