"""The price of equal capability: records by hand, a known fall, and what is refused."""

from __future__ import annotations

import csv
import json
from importlib.resources import files
from math import exp, lgamma, pi, sqrt
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from rackmath.cli.app import cli
from rackmath.errors import InputError
from rackmath.io import price_files
from rackmath.prices.trend import _T90, ScoredOffer, decline, leading_scores


def sold(year: float, price: float, score: float = 0.5, model: str = "m") -> ScoredOffer:
    return ScoredOffer(model=model, score=score, year=year, input=price, output=price)


def test_the_percentiles_of_student_s_distribution_are_its_own() -> None:
    for freedom, most in enumerate(_T90, start=1):
        t = np.linspace(0.0, most, 20_001)
        height = exp(lgamma((freedom + 1) / 2) - lgamma(freedom / 2)) / sqrt(freedom * pi)
        density = height * (1 + t**2 / freedom) ** (-(freedom + 1) / 2)
        # The table has three decimals.
        assert abs(0.45 - np.sum((density[1:] + density[:-1]) / 2 * np.diff(t))) <= 0.00051 * density[-1], freedom


def test_three_input_tokens_count_for_each_output_token() -> None:
    assert ScoredOffer(model="m", score=0.5, year=2024.0, input=1.0, output=9.0).price == pytest.approx(3.0)


def test_a_record_is_cheaper_than_all_before_it_and_reaches_the_score() -> None:
    table = [
        sold(2024.0, 8.0, 0.6, "first"),
        sold(2023.0, 1.0, 0.4, "too weak"),
        sold(2024.5, 9.0, 0.9, "dearer"),
        sold(2025.0, 2.0, 0.5, "second"),
        sold(2026.0, 2.0, 0.8, "no cheaper"),
    ]
    found = decline(table, 0.5)
    assert [one.model for one in found.records] == ["first", "second"]
    assert found.factor == pytest.approx(4.0)
    assert found.per_year == pytest.approx(4.0)
    assert (found.low, found.high) == (None, None)


@given(st.floats(1.2, 50.0), st.integers(3, 9))
def test_a_steady_fall_is_found_without_a_range(factor: float, years: int) -> None:
    found = decline([sold(2020.0 + year, 100.0 / factor**year) for year in range(years)], 0.5)
    assert found.per_year == pytest.approx(factor, rel=1e-9)
    assert found.low == pytest.approx(factor, rel=1e-6)
    assert found.high == pytest.approx(factor, rel=1e-6)


def test_the_range_is_students_t_of_the_line() -> None:
    """Three points one year apart whose logarithms miss a line by (1, -2, 1) times 0.1."""
    table = [sold(2020.0 + year, 2.718281828459045 ** (-year + off)) for year, off in enumerate((0.1, -0.2, 0.1))]
    found = decline(table, 0.5)
    # Residual variance 0.06 / 1 degree of freedom, spread of the years 2.
    error = 6.314 * (0.06 / 2) ** 0.5
    assert found.per_year == pytest.approx(2.718281828459045)
    assert found.low == pytest.approx(2.718281828459045 ** (1 - error))
    assert found.high == pytest.approx(2.718281828459045 ** (1 + error))


def test_scores_of_models_that_led_are_followed_if_they_became_cheaper() -> None:
    table = [
        sold(2023.0, 9.0, 0.40, "first"),
        sold(2023.5, 1.0, 0.30, "never led"),
        sold(2024.0, 9.0, 0.44, "hardly better"),
        sold(2024.5, 8.0, 0.60, "second"),
        sold(2025.0, 2.0, 0.65, "cheaper"),
        sold(2026.0, 9.0, 0.90, "leads, and nobody is cheaper"),
    ]
    assert leading_scores(table) == [0.40, 0.60]


def test_a_few_weeks_have_no_rate_per_year() -> None:
    found = decline([sold(2025.6, 3.0), sold(2025.7, 0.3)], 0.5)
    assert found.factor == pytest.approx(10.0)
    assert found.per_year is None


@pytest.mark.parametrize("score", [0.0, -0.5, 1.5, float("nan"), 0.99])
def test_a_score_that_nobody_reaches_is_refused(score: float) -> None:
    with pytest.raises(InputError, match="--score"):
        decline([sold(2024.0, 1.0)], score)


def test_every_row_of_the_table_has_its_sources() -> None:
    with (files("rackmath") / "data" / "capability.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert all(row["score_source"].startswith("https://") and row["price_source"] for row in rows)
    assert not any("example.com" in row["score_source"] for row in rows)
    assert {row["benchmark"] for row in rows} == {"gpqa", "mmlu"}


def test_gpt_3_s_score_costs_as_little_as_was_published() -> None:
    """Appenzeller 2024: 60 $ in November 2021, 0.06 $ three years later, a factor of 1,000 at an MMLU of 42."""
    table = [one for one in price_files.capability()["mmlu"] if one.year < 2025]
    found = decline(table, 0.42)
    assert found.factor == pytest.approx(1000.0)
    assert found.per_year == pytest.approx(10.0, rel=0.15)


def test_the_command_reads_a_table_of_its_own(tmp_path: Path) -> None:
    table = tmp_path / "mine.csv"
    table.write_text(
        "model,benchmark,score,date,input,output\n"
        "a,swe,0.3,2024-01-01,4,4\nb,swe,0.4,2025-01-01,2,2\nc,swe,0.5,2026-01-01,1,1\n",
        encoding="utf-8",
    )
    result = CliRunner().invoke(cli, ["prices", "trend", str(table), "--benchmark", "SWE", "--score", "30%", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)["scores"][0]
    assert found["per_year"] == pytest.approx(2.0, rel=1e-3)
    assert [one["model"] for one in found["records"]] == ["a", "b", "c"]
    shown = CliRunner().invoke(cli, ["prices", "trend", str(table), "--benchmark", "swe", "--explain"])
    assert shown.exit_code == 0, shown.output
    assert "2 (2 to 2)" in shown.output


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,swe,30,2024-01-01,4,4", "score"),
        ("a,swe,0.3,soon,4,4", "date"),
        ("a,swe,0.3,2024-01-01,-4,4", "input"),
        ("a,swe,0.3,2024-01-01,4,nan", "output"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: str, message: str) -> None:
    table = tmp_path / "mine.csv"
    table.write_text(f"model,benchmark,score,date,input,output\n{row}\n", encoding="utf-8")
    with pytest.raises(InputError, match=f"line 2 {message}"):
        price_files.capability(table)


def test_an_unknown_benchmark_names_those_of_the_table() -> None:
    result = CliRunner().invoke(cli, ["prices", "trend", "--benchmark", "arc"])
    assert isinstance(result.exception, InputError)
    assert "gpqa, mmlu" in str(result.exception)
