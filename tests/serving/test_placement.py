"""Experts on ranks: every place filled, none twice on one rank, loads as even as places allow."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.errors import InputError
from rackmath.serving.placement import place


@given(st.integers(1, 60), st.integers(1, 40), st.integers(0, 4))
def test_every_rank_is_full_and_holds_none_twice(experts: int, ranks: int, more: int) -> None:
    redundant = min(-experts % ranks + more * ranks, experts * ranks - experts)
    placement = place(experts, ranks, redundant)
    assert placement.held.shape == (ranks, (experts + redundant) // ranks)
    assert all(len(set(row)) == len(row) for row in placement.held.tolist())
    counts = np.bincount(placement.held.ravel(), minlength=experts)
    assert counts.tolist() == placement.copies.tolist()
    assert placement.redundant == redundant
    # Loads by hand: tokens of an expert are shared among its copies.
    by_hand = [sum(1 / counts[e] for e in row) for row in placement.held.tolist()]
    assert placement.load == pytest.approx(np.array(by_hand) * ranks / experts)
    assert placement.load.max() + 1e-9 >= 1


def test_no_other_layout_of_few_experts_is_more_even() -> None:
    for experts, ranks in ((3, 2), (5, 3), (5, 4), (3, 4)):
        placement = place(experts, ranks)
        places = placement.held.shape[1]
        least = np.inf
        for layout in product(range(experts), repeat=ranks * places):
            counts = np.bincount(layout, minlength=experts)
            rows = np.reshape(layout, (ranks, places))
            if counts.min() and all(len(set(row)) == places for row in rows.tolist()):
                least = min(least, float((1 / counts[rows]).sum(axis=1).max() * ranks / experts))
        assert placement.load.max() == pytest.approx(least), (experts, ranks)


def test_a_rack_of_72_holds_288_places_of_256() -> None:
    placement = place(256, 72)
    assert (placement.redundant, placement.held.shape) == (32, (72, 4))
    assert placement.load.max() == pytest.approx(4 / (256 / 72))
    assert sorted(set(placement.copies.tolist())) == [1, 2]


def test_experts_lie_in_runs_where_their_number_divides() -> None:
    assert place(8, 4).held.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]


@pytest.mark.parametrize(
    ("asked", "field"), [((0, 4), "experts"), ((4, 0), "ranks"), ((256, 72, 31), "redundant"), ((2, 2, 4), "redundant")]
)
def test_what_cannot_be_laid_out_is_refused(asked: tuple[int, ...], field: str) -> None:
    with pytest.raises(InputError, match=field):
        place(*asked)
