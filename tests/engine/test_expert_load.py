"""Experts of unlike popularity on ranks: packing against brute force, shares that bound, time that follows."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rackmath as rm
from rackmath.engine import Layout
from rackmath.engine.expert_load import fullest_rank, heaviest_load, in_order, packed, rank_shares, replicated
from rackmath.engine.layout import as_floats
from rackmath.engine.pass_work import pass_work
from rackmath.engine.roofline import local_pass, timed_operators
from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.models.operators import operators
from rackmath.models.routing import Routing
from rackmath.serving.placement import place_by_load

MIXTURE = catalogue.model("qwen3-235b-a22b")
H100 = catalogue.system("h100-sxm")


def test_copies_go_where_tokens_are() -> None:
    """8, 4, 2 and 1 with three copies: 8 is cut in four, by then the others are heavier."""
    assert replicated(np.array([8.0, 4.0, 2.0, 1.0]), 3).tolist() == [3, 2, 1, 1]
    assert replicated(np.ones(4), 0).tolist() == [1, 1, 1, 1]


@given(st.lists(st.floats(0.01, 10), min_size=6, max_size=6))
def test_packing_against_all_of_them(loads: list[float]) -> None:
    """The heaviest of two ranks of three is within a sixth of the best of all ways, and all experts are there."""
    load = np.array(loads)
    held = packed(load, np.ones(6, dtype=np.int64), 2)
    assert sorted(held.ravel().tolist()) == list(range(6))
    best = min(max(load[list(order[:3])].sum(), load[list(order[3:])].sum()) for order in permutations(range(6)))
    assert load[held].sum(axis=1).max() <= best * 7 / 6 + 1e-9


@given(st.integers(2, 8), st.integers(0, 16), st.floats(0, 2))
def test_placements_hold_everything(ranks: int, redundant: int, skew: float) -> None:
    placement = place_by_load(Routing(skew=skew).chances(48, 4)[0], ranks, redundant)
    assert placement.redundant >= redundant
    assert placement.held.shape[0] == ranks
    assert np.bincount(placement.held.ravel(), minlength=48).tolist() == placement.copies.tolist()
    assert placement.load.mean() == pytest.approx(1)


def test_experts_in_order_by_hand() -> None:
    held = in_order(6, 4)
    assert held.tolist() == [[0, 1], [2, 3], [4, 5], [-1, -1]]
    load = np.array([5.0, 1, 1, 1, 1, 1])
    assert heaviest_load(load, held, np.ones(6, dtype=np.int64)) == pytest.approx(6 / 10 * 4)


def test_even_experts_have_even_ranks() -> None:
    model = replace(MIXTURE, routing=Routing())
    for ranks in (1, 2, 8, 64):
        shares = rank_shares(model, 128, Layout(expert=ranks), 50.0)
        assert shares.tokens == pytest.approx(1 / ranks)
        assert shares.touched == pytest.approx(1 / ranks)
        assert isinstance(shares.touched, float)


@given(st.floats(0, 2), st.sampled_from([2, 8, 32]), st.floats(1, 1e5))
def test_shares_lie_between_even_and_all(skew: float, ranks: int, tokens: float) -> None:
    for redundant in (None, 0, ranks):
        model = replace(MIXTURE, routing=Routing(skew=skew, redundant=redundant))
        shares = rank_shares(model, 128, Layout(expert=ranks), tokens)
        assert 1 / ranks - 1e-9 <= shares.tokens <= 1
        assert 1 / ranks - 1e-9 <= shares.touched <= 1


def test_shares_of_arrays() -> None:
    model = replace(MIXTURE, routing=Routing(skew=0.6))
    ranks, tokens = np.array([[2.0], [16.0]]), np.array([1.0, 10.0, 1e4])
    both = rank_shares(model, 128, Layout(expert=ranks), tokens)
    for i, width in enumerate((2, 16)):
        for j, many in enumerate(tokens):
            single = rank_shares(model, 128, Layout(expert=width), many)
            assert np.broadcast_to(both.touched, (2, 3))[i, j] == pytest.approx(single.touched)
            assert np.broadcast_to(both.tokens, (2, 3))[i, j] == pytest.approx(single.tokens)


def test_copies_even_the_load_out() -> None:
    skewed = Routing(skew=0.5)
    order, packed_alone, copied = (
        32 * fullest_rank(replace(skewed, redundant=redundant), 256, 8, 32) for redundant in (None, 0, 32)
    )
    assert order > 1.7
    assert packed_alone == pytest.approx(1.5, abs=0.1)
    assert 1 <= copied < 1.02


def test_time_follows_the_fullest_rank() -> None:
    """Slower with skew under expert parallelism, quicker under slices (fewer experts are touched); copies mend it."""
    ask = {"batch": 4096, "context": 2000, "gpus": 32, "no_evidence": True}
    times = {
        (layout, more): rm.estimate("deepseek-v3", "h200-sxm", layout, **ask, **dict(more)).time
        for layout in ("tp1,ep32,dp32", "tp8,ep8,dp4")
        for more in (
            (("expert_skew", 0.0),),
            (("expert_skew", 0.6),),
            (("expert_skew", 0.6), ("redundant_experts", 32)),
        )
    }
    even, skewed, mended = (time for (layout, _), time in times.items() if layout == "tp1,ep32,dp32")
    assert even < mended < skewed
    small = {"batch": 16, "context": 2000, "no_evidence": True}
    sliced = [rm.estimate("qwen3-30b-a3b", "h100-sxm", "tp2", expert_skew=skew, **small).time for skew in (0.0, 1.0)]
    assert sliced[1] < sliced[0]


def test_the_fullest_rank_reads_what_the_tokens_of_all_groups_touch() -> None:
    """Eight groups of two sequences: sixteen tokens meet the experts of a rank, not two."""
    model = replace(MIXTURE, routing=Routing(skew=1.0))
    layout = as_floats(Layout(expert=8, data=8))
    work = local_pass("decode", 16.0, 1000.0, 0.0, layout, None)
    reading = sum(t.weights for t in timed_operators(model, work, layout, H100) if t.operator.kind == "experts")
    touched = rank_shares(model, 128, layout, 16.0).touched
    # More tokens touch experts more evenly.
    assert touched < 0.9 * float(rank_shares(model, 128, layout, 2.0).touched)
    every = sum(op.weight_bytes * op.count for op in operators(model, work) if op.kind == "experts")
    assert reading == pytest.approx(every * float(touched) / H100.chip.memory_bandwidth)


def test_the_fullest_rank_sends_and_receives_its_share() -> None:
    """Skewed experts move as much more than even ones as the fullest of eight ranks has more than an eighth.

    Without a routing, even ones are taken.
    """
    layout = as_floats(Layout(expert=8, data=8))
    work = local_pass("decode", 16.0, 1000.0, 0.0, layout, None)
    wires = [
        pass_work(replace(MIXTURE, routing=routing), work, layout, H100).wire for routing in (None, Routing(skew=1.0))
    ]
    fullest = 8 * rank_shares(replace(MIXTURE, routing=Routing(skew=1.0)), 128, layout, 1.0).tokens
    assert fullest > 1.5
    assert wires[1].dispatch == pytest.approx(fullest * wires[0].dispatch)
    assert wires[1].combine == pytest.approx(fullest * wires[0].combine)


def test_copies_take_memory() -> None:
    ask = {"batch": 64, "context": 2000, "gpus": 32, "no_evidence": True}
    base = rm.estimate("deepseek-v3", "h200-sxm", "tp1,ep32,dp32", **ask)
    more = rm.estimate("deepseek-v3", "h200-sxm", "tp1,ep32,dp32", redundant_experts=32, **ask)
    per_expert = 3 * 7168 * 2048 * 58
    added = more.step.memory.weights - base.step.memory.weights
    assert added == pytest.approx(per_expert * 1.0002441, rel=1e-3)


def test_moving_experts_is_spread_over_the_steps_between() -> None:
    """Of (256 + 32) / 32 experts of 58 layers on a rank 3/4 come from other boxes, at the network's 50 GB/s."""
    ask = {"batch": 2048, "context": 2000, "gpus": 32, "redundant_experts": 32, "ideal": True}
    often, seldom = (
        rm.estimate("deepseek-v3", "h200-sxm", "tp1,ep32,dp32", **ask, eplb_step_interval=n).time for n in (10, 1000)
    )
    held = 9 * 58 * 3 * 7168 * 2048 * 1.0002441
    moved = held * 3 / 4 / catalogue.system("h200-sxm").scale_out.bandwidth
    assert often - seldom == pytest.approx(moved * (1 / 10 - 1 / 1000), rel=2e-3)
    with pytest.raises(InputError, match="eplb-step-interval"):
        rm.estimate("deepseek-v3", "h200-sxm", "tp1,ep32,dp32", batch=64, context=2000, eplb_step_interval=10)


def test_plans_say_the_copies() -> None:
    work = rm.Workload(input=1000, output=300)
    plan = rm.plan("qwen3-235b-a22b", "h200-sxm", work, gpus=8, expert_skew=0.5, redundant_experts=8)
    assert any("1 / i^0.5" in line and "8 copies" in line for line in plan.question.notes)
    run = rm.simulate(plan.best, rm.Poisson(rate=2), requests=200)
    assert any("8 copies" in line for line in run.assumptions)
