"""The routed law: its published points, its inverse, and its limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.errors import InputError
from rackmath.training.routed import LAWS, effective_size, equivalent_active, total_size, within_fit


@pytest.mark.parametrize(("router", "size"), [("s-base", 1.36e9), ("rl-r", 0.99e9), ("hash", 1.11e9)])
def test_64_experts_at_370_million_are_worth_what_the_table_says(router: str, size: float) -> None:
    # training.md section 1.1, from the coefficients of Table 3.
    assert effective_size(370e6, 64, LAWS[router]) == pytest.approx(size, rel=0.01)


def test_64_experts_at_370_million_hold_seven_and_a_half_billion() -> None:
    assert total_size(370e6, 64) == pytest.approx(7.5e9, rel=0.01)
    assert total_size(370e6, 1) == 370e6


@given(dense=st.floats(1e7, 1e12), experts=st.floats(1, 512), router=st.sampled_from(sorted(LAWS)))
def test_both_directions_are_inverse(dense: float, experts: float, router: str) -> None:
    active = equivalent_active(dense, experts, LAWS[router])
    assert effective_size(active, experts, LAWS[router]) == pytest.approx(dense, rel=1e-9)


@given(active=st.floats(1e8, 1e9), experts=st.floats(2, 256), router=st.sampled_from(sorted(LAWS)))
def test_more_experts_are_worth_more_and_one_is_worth_itself(active: float, experts: float, router: str) -> None:
    law = LAWS[router]
    assert effective_size(active, 1, law) == pytest.approx(active, rel=1e-9)
    assert effective_size(active, 2 * experts, law) > effective_size(active, experts, law) > active


def test_one_parameter_is_the_least() -> None:
    law = LAWS["s-base"]
    assert effective_size(1, 1, law) == pytest.approx(1)
    for size, experts in ((0.99, 1), (1, 0.99)):
        with pytest.raises(InputError, match="at least 1"):
            effective_size(size, experts, law)


def test_beyond_the_fit_is_said() -> None:
    assert within_fit(1e9, 512)
    assert not within_fit(70e9, 64)
    assert not within_fit(1e8, 1024)


@pytest.mark.parametrize(("size", "experts"), [(0.0, 8), (float("nan"), 8), (1e9, 0.5), (1e9, float("inf"))])
def test_sizes_that_are_none_are_refused(size: float, experts: float) -> None:
    with pytest.raises(InputError):
        effective_size(size, experts, LAWS["s-base"])


@pytest.mark.parametrize(("router", "size"), [("s-base", 1.391e9), ("rl-r", 1.212e9), ("hash", 0.996e9)])
def test_the_refit_on_released_runs(router: str, size: float) -> None:
    """64 experts of 370 M are worth 1.3 B dense for S-Base only."""
    assert effective_size(370e6, 64, LAWS[f"{router}-refit"]) == pytest.approx(size, rel=1e-3)
