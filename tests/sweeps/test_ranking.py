"""Comparisons in order: the cheapest first, its margin, and whether ranges tell the two apart."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.errors import InputError
from rackmath.sweeps import plans
from rackmath.sweeps.ranking import ranked, winners


def row(model: str, cost: float | None, spread: float = 0.1) -> dict[str, Any]:
    low, high = (None, None) if cost is None else (cost * (1 - spread), cost * (1 + spread))
    return {"model": model, "usd_per_million_at_speed": cost, "low_at_speed": low, "high_at_speed": high}


def test_order_and_margin() -> None:
    rows = [row("b", 3.0), row("a", None), row("b", 2.0), row("b", None), row("a", 1.0), row("c", 9.0)]
    assert [(r["model"], r["usd_per_million_at_speed"]) for r in ranked(rows)] == [
        ("b", 2.0), ("b", 3.0), ("b", None), ("a", 1.0), ("a", None), ("c", 9.0),
    ]  # fmt: skip
    first, second = winners(rows)
    assert first.margin == pytest.approx(1 / 3)
    assert first.apart
    assert (second.row["model"], second.second, second.margin, second.apart) == ("a", None, None, False)
    assert not next(winners([row("b", 2.0, 0.4), row("b", 3.0, 0.4)])).apart
    assert not list(winners([row("a", None), row("a", None)]))


def test_a_question_is_no_choice() -> None:
    """Short prompts and low prices win over nothing: each has a cheapest of its own."""
    rows = [
        row("a", cost) | {"input": size, "engine": engine, "usd-per-gpu-hour": price}
        for cost, size, engine, price in (
            (1.0, 100, "vllm", 2.0), (1.5, 100, "sglang", 2.0), (4.0, 800, "vllm", 2.0), (5.0, 800, "sglang", 2.0),
        )
    ]  # fmt: skip
    small, large = winners(rows, ["engine", "input"])
    assert (small.question, small.row["engine"], small.margin) == ({"input": 100}, "vllm", pytest.approx(1 / 3))
    assert (large.question, large.row["engine"], large.margin) == ({"input": 800}, "vllm", pytest.approx(1 / 5))


@given(st.lists(st.one_of(st.none(), st.floats(0.01, 100)), min_size=2, max_size=9))
def test_nothing_is_cheaper_than_the_winner(costs: list[float | None]) -> None:
    rows = [row("m", cost) for cost in costs]
    assert sorted(map(id, ranked(rows))) == sorted(map(id, rows))
    for winner in winners(rows):
        assert winner.row["usd_per_million_at_speed"] == min(cost for cost in costs if cost is not None)
        assert winner.margin is None or 0 <= winner.margin < 1


def test_a_layout_is_kept_and_no_other() -> None:
    """With one layout allowed the best is that one, no better than with all; what does not fit says so."""
    case = {"gpus": 4, "input": 1000.0, "output": 200.0, "model": "llama-3.1-8b", "on": "h100-sxm", "weights": "bf16"}
    free, four, one = (
        plans.row(next(iter(plans.cases(case | {"layout": layout}, {})))) for layout in (None, "tp4", "tp1")
    )
    assert four["best_layout"].endswith("tp4,ep1,pp1,dp1")
    assert "tp1,ep1,pp1,dp1" in one["best_layout"]
    for limited in (four, one):
        assert limited["usd_per_million_at_speed"] >= free["usd_per_million_at_speed"]
    wide = plans.row(next(iter(plans.cases(case | {"layout": "tp8"}, {}))))
    assert "tp8" in wide["reason"]


def test_layouts_are_written_with_semicolons() -> None:
    assert plans.swept("layout=tp8;tp1,ep8,dp8") == ("layout", ["tp8", "tp1,ep8,dp8"])
    with pytest.raises(InputError, match="at least one"):
        plans.swept("layout=;")
