"""Ranges of corrected answers hold of sources that no range has seen."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import tool

ranges = tool("evidence_ranges")


def rows_of(rng, sources: int, rows: int, place: str, between: float, within: float):
    names = np.repeat(np.arange(sources), rows)
    errors = rng.normal(0, between, sources)[names] + rng.normal(0, within, len(names))
    return ranges.Deviations(
        np.full(len(names), place), np.full(len(names), "ttft"), np.array([f"lab{n:02}" for n in names]), errors
    )


def test_answers_of_no_source_are_held_as_often_as_said(rng) -> None:
    inside = []
    for _ in range(20):
        rows = rows_of(rng, 18, 20, f"far{ranges.UNKNOWN}", between=1.0, within=0.3)
        seen = rows.part(np.arange(360) < 320)
        known = ranges.Deviations.joined([seen, rows_of(rng, 4, 20, "far", 0.1, 1.0)])
        below, above = ranges.quantiles(known)[f"near{ranges.UNKNOWN}"]["all"]
        new = rows.errors[320:]
        inside.append(np.mean((new >= -below) & (new <= above)))
    assert np.mean(inside) == pytest.approx(0.9, abs=0.06)


def test_a_place_with_few_rows_has_the_ranges_of_the_next_farther_one(rng) -> None:
    far, unknown = rows_of(rng, 8, 40, "far", 0.1, 1.0), rows_of(rng, 8, 40, f"far{ranges.UNKNOWN}", 0.1, 2.0)
    near = rows_of(rng, 5, 1, "near", 0.1, 9.0)
    table = ranges.quantiles(ranges.Deviations.joined([far, unknown, near]))
    assert table["near"] == table["middling"] == table["far"]
    assert table["far"]["all"] == table["far"]["ttft"]
    low, high = table["far"]["all"]
    assert (low, high) == pytest.approx((1.7, 1.7), abs=0.35)
    assert table[f"near{ranges.UNKNOWN}"]["all"][1] == pytest.approx(3.4, abs=0.9)


def test_rows_are_counted_in_ranges_that_have_not_seen_their_source(rng) -> None:
    usual = rows_of(rng, 8, 40, "far", 0.0, 1.0)
    other = ranges.Deviations(usual.places[:40], usual.kinds[:40], np.full(40, "odd"), usual.errors[:40] + 30)
    every = ranges.Deviations.joined([usual, other, rows_of(rng, 8, 20, f"far{ranges.UNKNOWN}", 0.1, 1.0)])
    inside = ranges.inside(every)
    assert not inside[320:360].any()
    assert inside[:320].mean() > 0.85
