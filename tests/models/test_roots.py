"""Zeros of many curves at once: against closed forms, jumps, and curves that have none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.models.roots import Array, Places, zeros

_AT = st.lists(st.floats(-9.0, 9.0), min_size=1, max_size=6)
_LOW, _HIGH = -10.0, 10.0


def zeros_of(curve, at: Array, asked: list[int] | None = None) -> Array:
    """Zeros between -10 and 10 of a curve that is moved along by each of some numbers."""

    def curves(points: Array, which: Places) -> Array:
        if asked is not None:
            asked.append(len(which))
        return curve(points - at[which])

    return zeros(curves, np.full(len(at), _LOW), np.full(len(at), _HIGH), 1e-9)


@pytest.mark.parametrize(
    "curve",
    [lambda x: 3 * x, lambda x: -x, lambda x: np.expm1(x), lambda x: x**3 + x / 10, lambda x: np.maximum(x, 20 * x)],
    ids=["rising", "falling", "steeper", "flat in the middle", "with a kink"],
)
@given(at=_AT)
def test_each_curve_has_its_own_zero(curve, at: list[float]) -> None:
    asked: list[int] = []
    assert zeros_of(curve, np.array(at), asked) == pytest.approx(at, abs=1e-7)
    assert len(asked) < 60


@given(at=_AT)
def test_of_a_jump_the_side_above_is_taken(at: list[float]) -> None:
    for sign in (1, -1):
        points = zeros_of(lambda x, sign=sign: np.where(sign * x >= 0, 0.3, -2.0), np.array(at))
        assert points == pytest.approx(at, abs=1e-7)
        assert (sign * (points - np.array(at)) >= 0).all()


def test_what_has_no_zero_between_its_ends_says_so_and_leaves_the_others_alone() -> None:
    points = zeros_of(lambda x: x, np.array([-11.0, 4.0, 12.0]))
    assert np.isnan(points).tolist() == [True, False, True]
    assert points[1] == pytest.approx(4.0)


def test_curves_that_are_done_are_not_asked_again() -> None:
    asked: list[int] = []
    zeros_of(lambda x: np.where(x < 5, x, 5 * (x - 4)), np.array([0.0, 9.5]), asked)
    assert asked[:2] == [2, 2]
    assert asked[-1] == 1


@pytest.mark.parametrize("at", [_LOW, _HIGH])
def test_an_end_that_is_zero_is_the_zero(at: float) -> None:
    assert zeros_of(lambda x: x, np.array([at])).tolist() == [at]
