"""Ranges cover what they promise on groups they have not seen, and widen with the distance from rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rackmath.engine.constants import Constants, EngineVersion, RowGroup
from rackmath.validation.left_out import FOLDS, GROUPINGS, folds, reserved, weights
from rackmath.validation.questions import question
from rackmath.validation.ranges import class_of, covered, fitted_ranges, row_range
from rackmath.validation.rows import read_row
from tests.validation.rows import cells

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


def test_an_engine_with_rows_enough_has_a_range_of_its_own() -> None:
    ranges = {"time per token": {"chip": (0.5, 2.0), "none": (0.1, 9.0), "vllm hopper": (0.8, 1.2)}}
    c = Constants(base={}, moves={}, ranges=ranges, chips=frozenset({"A"}), evidence=(SEEN,))
    here = EngineVersion(generation="hopper", family="vllm")
    assert c.range("time per token", here, "A", "serving") == (0.8, 1.2)
    assert c.range("time per token", EngineVersion(generation="tpu", family="x"), "B", "serving") == (0.1, 9.0)


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
