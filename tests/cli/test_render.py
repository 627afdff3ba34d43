"""Numbers as the field writes them."""

from __future__ import annotations

import pytest

from rackmath.cli.render import params


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (999_885_952, "1 B"),
        (999e6, "999 M"),
        (999.4e6, "999 M"),
        (999_600e6, "1 T"),
        (8.03e9, "8.03 B"),
        (1.57e12, "1.57 T"),
    ],
)
def test_parameters_round_into_the_larger_unit(value: float, text: str) -> None:
    assert params(value) == text
