"""Text to SI and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.errors import InputError
from rackmath.units import parse, short_count, show


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("3.35 TB/s", "B/s", 3.35e12),
        ("80 GiB", "B", 80 * 2**30),
        ("400 Gb/s", "B/s", 5e10),
        ("989 TFLOP/s", "FLOP/s", 9.89e14),
        ("5 us", "s", 5e-6),
        ("2 h", "s", 7200),
        ("20ms", "s", 0.02),
        ("3.6 USD/h", "USD/s", 0.001),
        ("8 USD/GB", "USD/B", 8e-9),
        ("100k", "1", 1e5),
        ("37B", "1", 3.7e10),
        ("1_000", "1", 1000),
        (7, "s", 7),
    ],
)
def test_text_is_read_into_si(text: str | float, unit: str, value: float) -> None:
    assert parse(text, unit) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "unit"), [("fast", "s"), ("3 GB", "s"), ("1e999", "B"), ("nan", "1"), ("", "B"), ("3 XB", "B")]
)
def test_other_text_is_refused(text: str, unit: str) -> None:
    with pytest.raises(InputError, match="field"):
        parse(text, unit, "field")


@given(st.floats(1e-8, 1e17), st.sampled_from(["B", "B/s", "FLOP/s"]))
def test_what_is_shown_is_read_back_to_three_digits(value: float, unit: str) -> None:
    assert parse(show(value, unit), unit) == pytest.approx(value, rel=6e-3, abs=1e-3)


@given(st.floats(1e-8, 1e6))
def test_times_are_read_back(value: float) -> None:
    assert parse(show(value, "s"), "s") == pytest.approx(value, rel=6e-3)


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
    assert short_count(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(7199.0, "7199 s"), (7200.0, "2 h"), (21_319.0, "5.92 h"), (172_799.0, "48 h"), (172_800.0, "2 days"), (5.29e6, "61.2 days")],
)  # fmt: skip
def test_long_times_are_shown_in_hours_and_days(seconds: float, text: str) -> None:
    assert show(seconds, "s") == text
