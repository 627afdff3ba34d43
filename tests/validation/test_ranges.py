"""Ranges cover what they promise on groups they have not seen, and widen with the distance from rows."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rackmath.engine.constants import Constants, EngineVersion, RowGroup
from rackmath.io import constants_file, tables
from rackmath.validation.calibrate import usable
from rackmath.validation.left_out import FOLDS, GROUPINGS, folds, reserved, weights
from rackmath.validation.questions import question
from rackmath.validation.ranges import class_of, coverage_by_others, fitted_ranges, row_range
from rackmath.validation.rows import read_row
from tests.conftest import SHARED
from tests.validation.rows import cells

ROWS = SHARED / "measured/rows.csv"
LEFT_OUT = Path(__file__).parents[2] / "docs/generated/left_out.csv"

SEEN = RowGroup(family="vllm", generation="hopper", phase="serving", rows=40, first=2025.0, last=2026.0)


def rows_of(n: int, rng: np.random.Generator, spread: float):
    one = question(read_row(cells(), 2))
    values = np.full(n, 10.0)
    measured = values * np.exp(rng.normal(0, spread, n))
    made = [replace(one, row=replace(one.row, value=float(v), source=f"s{i}")) for i, v in enumerate(measured)]
    return made, values


def constants_with(questions, values) -> Constants:
    left = dict.fromkeys(("source", "chip", "engine on generation"), values)
    chips = frozenset({questions[0].system.chip.name})
    return Constants(base={}, moves={}, ranges=fitted_ranges(questions, left), chips=chips, evidence=(SEEN,))


def covered(questions, values, constants: Constants) -> np.ndarray:
    """Whether each row lies in the range that stands beside its value."""
    bounds = np.array([row_range(q, constants) for q in questions])
    ratio = np.array([q.row.value for q in questions]) / values
    return (ratio >= bounds[:, 0]) & (ratio <= bounds[:, 1])


def test_ranges_of_left_out_rows_cover_nine_in_ten_of_others(rng) -> None:
    questions, values = rows_of(4000, rng, 0.2)
    known = constants_with(questions[:2000], values[:2000])
    assert covered(questions[2000:], values[2000:], known).mean() == pytest.approx(0.9, abs=0.02)


def test_ranges_grow_with_the_scatter_and_stay_around_one(rng) -> None:
    widths = []
    for spread in (0.1, 0.4):
        questions, values = rows_of(500, rng, spread)
        low, high = constants_with(questions, values).ranges["time per token"]["chip"]
        assert low < 1 < high
        assert np.log(high) == pytest.approx(1.645 * spread, rel=0.25)
        widths.append(high / low)
    assert widths[1] > widths[0]


def test_the_farther_the_rows_the_wider_the_range(rng) -> None:
    questions, values = rows_of(300, rng, 0.2)
    left = {"source": values, "chip": values * 1.3, "engine on generation": values * 2}
    table = fitted_ranges(questions, left)["time per token"]
    spans = [np.log(table[k][1] / table[k][0]) for k in ("chip", "pair", "member", "none")]
    assert spans == sorted(spans)
    assert spans[0] < spans[-1]


def test_early_enablements_widen_nobody_s_range_but_their_own(rng) -> None:
    questions, values = rows_of(300, rng, 0.2)
    late = constants_with(questions, values).ranges["time per token"]
    early = [replace(q, row=replace(q.row, value=q.row.value * 10, flags="immature")) for q in questions[:60]]
    both = constants_with([*questions, *early], np.concatenate([values, values[:60]]))
    table = both.ranges["time per token"]
    assert {key: table[key] for key in late} == late
    assert table["immature"][1] > 9
    assert covered(early, values[:60], both).mean() > 0.85
    assert covered(questions, values, both).mean() == pytest.approx(0.9, abs=0.02)


def test_nearness_goes_from_the_chip_to_nothing() -> None:
    c = Constants(base={}, moves={}, chips=frozenset({"A"}), evidence=(SEEN,))
    here, there = EngineVersion(generation="hopper", family="vllm"), EngineVersion(generation="ampere", family="vllm")
    assert [c.nearness(here, "A"), c.nearness(here, "B"), c.nearness(there, "B")] == ["chip", "pair", "member"]
    assert c.nearness(EngineVersion(generation="ampere", family="sglang"), "B") == "none"
    assert (c.rows(here), c.rows(here, "training"), c.rows(there)) == (40, 0, 0)


def from_sources(rng: np.random.Generator, sources: int, rows: int, between: float, within: float):
    """Rows of sources that err alike."""
    questions, values = rows_of(sources * rows, rng, 0.0)
    names = np.repeat(np.arange(sources), rows)
    error = np.exp(rng.normal(0, between, sources)[names] + rng.normal(0, within, len(names)))
    made = [
        replace(q, row=replace(q.row, value=float(q.row.value * e), source=f"lab{name:03}/runs@1"))
        for q, e, name in zip(questions, error, names, strict=True)
    ]
    return made, values, names


def test_ranges_hold_of_a_source_that_they_have_not_seen(rng) -> None:
    """Twelve sources that differ more from each other than their rows do: percentiles over rows hold too seldom."""
    inside = []
    for _ in range(12):
        questions, values, _names = from_sources(rng, 16, 20, between=0.3, within=0.05)
        known = constants_with(questions[:240], values[:240])
        inside.append(covered(questions[240:], values[240:], known).mean())
    assert np.mean(inside) == pytest.approx(0.9, abs=0.06)


def test_sources_that_err_alike_ask_for_wider_ranges_than_the_same_rows_mixed(rng) -> None:
    wider = []
    for _ in range(10):
        questions, values, _names = from_sources(rng, 12, 30, between=0.3, within=0.05)
        apart = constants_with(questions, values).ranges["time per token"]["chip"]
        mixed = [replace(q, row=replace(q.row, source=f"lab{i % 12:03}/runs@1")) for i, q in enumerate(questions)]
        together = constants_with(mixed, values).ranges["time per token"]["chip"]
        wider.append(np.log(apart[1] / apart[0]) / np.log(together[1] / together[0]))
    assert np.mean(wider) > 1.1
    assert min(wider) >= 1


@pytest.mark.parametrize(("sources", "own"), [(2, False), (3, False), (4, True)])
def test_a_class_of_few_sources_is_no_narrower_than_all_rows(rng, sources: int, own: bool) -> None:
    """Three sources of first tokens that happen to agree say nothing of a fourth."""
    others, values, _ = from_sources(rng, 20, 20, 0.5, 0.1)
    first = question(read_row(cells(metric="ttft"), 2))
    agreeing = [
        replace(
            first, row=replace(first.row, value=10.0 * float(np.exp(rng.normal(0, 0.01))), source=f"t{i % sources}")
        )
        for i in range(400)
    ]
    ranges = constants_with(others + agreeing, np.concatenate([values, np.full(400, 10.0)])).ranges
    for place in ("chip", "pair", "member", "none"):
        (low, high), (all_low, all_high) = ranges["first token"][place], ranges["all"][place]
        assert (low > all_low and high < all_high) if own else (low <= all_low and high >= all_high)


def test_a_large_source_does_not_outweigh_all_others(rng) -> None:
    questions, values = rows_of(1000, rng, 0.05)
    made = [
        replace(q, row=replace(q.row, source="large/one@1" if i < 900 else f"small{i % 10}/one@1", value=v))
        for i, q in enumerate(questions)
        for v in [q.row.value * (1.0 if i < 900 else 2.0)]
    ]
    high = constants_with(made, values).ranges["time per token"]["chip"][1]
    assert high > 1.9


def test_the_score_of_ranges_leaves_the_rows_out_that_it_counts(rng) -> None:
    """One source of three is ten times off: ranges that saw it hold of it, those of the other two do not."""
    questions, values, names = from_sources(rng, 3, 60, between=0.0, within=0.1)
    off = [
        replace(q, row=replace(q.row, value=q.row.value * (10 if n == 2 else 1)))
        for q, n in zip(questions, names, strict=True)
    ]
    left = dict.fromkeys(("source", "chip", "engine on generation"), values)
    inside = coverage_by_others(off, values, left, names)
    assert inside[names == 2].mean() == 0
    assert covered(off, values, constants_with(off, values))[names == 2].mean() > 0.85


@pytest.mark.skipif(not ROWS.is_file(), reason="needs ../shared/measured/rows.csv")
def test_the_shipped_ranges_are_those_of_the_left_out_predictions() -> None:
    """Of the same fit: rows that a later catalogue can read are not among them."""
    with LEFT_OUT.open(newline="", encoding="utf-8") as lines:
        left = {row["id"]: row for row in csv.DictReader(lines)}
    questions = [q for q in usable(tables.read_csv(ROWS, "rows"))[0] if q.row.id in left]
    values = {name: np.array([float(left[q.row.id][name]) for q in questions]) for name in GROUPINGS}
    shipped = constants_file.constants().ranges
    fresh = fitted_ranges(questions, values)
    assert sorted(shipped) == sorted(fresh)
    for name, table in shipped.items():
        assert {place: pytest.approx(ends, rel=2e-3) for place, ends in fresh[name].items()} == table


def test_an_inferred_layout_widens_the_range() -> None:
    one = question(read_row(cells(), 2))
    ranges = {"time per token": {"chip": (0.5, 2.0)}}
    c = Constants(base={}, moves={}, ranges=ranges, chips=frozenset({one.system.chip.name}), evidence=(SEEN,))
    assert row_range(one, c) == (0.5, 2.0)
    unsure = replace(one, deployment=replace(one.deployment, inferred="guessed"))
    assert row_range(unsure, c) == pytest.approx((0.5**1.5, 2**1.5))


def test_groups_fall_whole_into_folds() -> None:
    questions = [
        question(read_row(cells(hardware=h, concurrency=str(b)), 2))
        for h in ("H100-SXM-80GB", "L40S", "MI300X")
        for b in (1, 2, 4)
    ]
    for grouping in GROUPINGS:
        part = folds(questions, grouping)
        assert all(len(set(part[i : i + 3])) == 1 for i in (0, 3, 6))
        assert set(part) <= set(range(FOLDS + (grouping == "source")))
    w = weights([*questions, questions[0], questions[0]])
    assert w.mean() == pytest.approx(1)
    assert w[0] < w[3]


def test_a_large_source_is_left_out_alone() -> None:
    one = question(read_row(cells(), 2))
    names = ["a/large"] * 30 + ["b/large"] * 30 + [f"c{i}/small" for i in range(60)]
    part = folds([replace(one, row=replace(one.row, source=f"{name}@1")) for name in names], "source")
    assert set(part[:30]) == {FOLDS}
    assert set(part[30:60]) == {FOLDS + 1}
    assert set(part[60:]) <= set(range(FOLDS))


def test_a_third_of_the_sources_is_kept_from_choices() -> None:
    one = question(read_row(cells(), 2))
    held = [reserved(replace(one, row=replace(one.row, source=f"who{i}/what@1"))) for i in range(600)]
    assert np.mean(held) == pytest.approx(1 / 3, abs=0.06)
    first, second = (replace(one, row=replace(one.row, source=f"a/b@{i}")) for i in "12")
    assert reserved(first) == reserved(second)


def test_rows_that_may_mean_something_else_weigh_little() -> None:
    plain = {"model": "Llama-2-70B", "n_gpus": "8", "concurrency": "64", "tp": "8"}
    sure, inferred, low = (
        question(read_row(cells(**(plain | changes)), 2)) for changes in ({}, {"tp": ""}, {"confidence": "low"})
    )
    w = weights([sure, inferred, low])
    assert w[1] / w[0] == pytest.approx(0.2)
    assert w[2] / w[0] == pytest.approx(0.2)


def test_classes_tell_services_passes_and_training_apart() -> None:
    def kind(**changes: str) -> str:
        return class_of(question(read_row(cells(**changes), 2)))

    assert kind() == "time per token"
    served = dict(model="Llama-2-70B", metric="output_throughput", arrivals="server", per="system")
    assert kind(**served, benchmark="mlperf-inference-v5.1", scenario="server", statistic="") == "server"
    assert kind(metric="decode_speed", phase="decode", per="user", statistic="") == "decode pass"
    assert kind(arrivals="all_at_once", num_requests="8") == "at once"
