"""Offers from genai-prices and from tables."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from rackmath.errors import InputError
from rackmath.io import price_book, price_files

HEADER = "model,provider,input,cached_input,output,date\n"


def test_a_model_is_found_at_its_hosts_without_prefix_and_resellers() -> None:
    found = price_book.published("Kimi-K2.6", date(2026, 11, 21))
    hosts = {offer.provider: offer for offer in found}
    assert {"moonshotai", "novita"} <= set(hosts)
    assert "openrouter" not in hosts
    assert (hosts["moonshotai"].input, hosts["moonshotai"].cached_input, hosts["moonshotai"].output) == (
        0.95,
        0.16,
        4.0,
    )


def test_a_past_day_has_its_own_price() -> None:
    def asked(day: date) -> float | None:
        found = price_book.published("o3", day)
        return next(offer.input for offer in found if offer.provider == "openai")

    assert (asked(date(2025, 6, 1)), asked(date(2026, 6, 1))) == (10.0, 2.0)


def test_an_unknown_name_is_answered_with_near_ones() -> None:
    with pytest.raises(InputError, match=r"near names: .*kimi-k2\.6"):
        price_book.published("kimi-k26")


def test_versions_are_the_same_with_points_and_hyphens() -> None:
    """Anthropic writes claude-opus-4-8, a host claude-opus-4.8; the fullest list is the vendor's."""
    for name in ("claude-opus-4.8", "claude-opus-4-8", "Claude-Opus-4.8"):
        assert price_book.price_list(name, at=date(2026, 11, 21)).provider == "anthropic"
    assert price_book.price_list("claude-opus-4.5", at=date(2026, 11, 21)).tiers[0].input == 5.0
    assert {"anthropic", "google"} <= {offer.provider for offer in price_book.published("claude-opus-4.5")}


def test_a_table_keeps_hosts_and_empty_prices(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text(HEADER + "x,a,1,,4,2026-11\nx,b,2,0.5,,2026-11-21\ny,a,1,,2,\n", encoding="utf-8")
    found = price_files.offers_of(path)
    assert list(found) == ["x", "y"]
    assert [(o.input, o.cached_input, o.output) for o in found["x"]] == [(1.0, None, 4.0), (2.0, 0.5, None)]
    assert found["x"][0].year == pytest.approx(2026.87, abs=0.01)
    assert found["y"][0].year is None


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("x,a,0,,1,", "positive price"),
        ("x,a,-2,,1,", "positive price"),
        ("x,a,nan,,1,", "positive price"),
        ("x,a,€3,,1,", "currencies"),
        ("x,a,1,2,1,", "swap"),
        ("x,a,1,,1,soon", "write a day"),
        (",a,1,,1,", "name the model"),
    ],
)
def test_bad_rows_get_one_line(tmp_path: Path, row: str, said: str) -> None:
    path = tmp_path / "p.csv"
    path.write_text(HEADER + row + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=said):
        price_files.offers_of(path)


def test_a_table_without_a_column_or_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("model,input\nx,1\n", encoding="utf-8")
    with pytest.raises(InputError, match="provider"):
        price_files.offers_of(path)
    path.write_text(HEADER, encoding="utf-8")
    with pytest.raises(InputError, match="no rows"):
        price_files.offers_of(path)


@pytest.mark.parametrize(
    ("name", "says"),
    [("gpt-5", r"sellers of a model of that name: openai.*--model gpt-5"), ("antropic", "near names: anthropic")],
)
def test_a_name_that_is_no_provider_s_says_what_may_be_meant(name: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        price_book.listings(name)
