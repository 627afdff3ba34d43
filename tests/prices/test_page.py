"""Ratios of price pages: what they are, and what changed."""

from __future__ import annotations

from datetime import date
from math import inf

import pytest

from rackmath.errors import InputError
from rackmath.io import price_book, price_files
from rackmath.prices import page
from rackmath.prices.lists import PriceList, Rates
from rackmath.prices.page import Listing, changes, ratios

DAY = date(2026, 11, 21)


def rates(start: float = 0.0, times: float = 1.0, out: float = 10.0, cached_input: float | None = 0.2) -> Rates:
    return Rates(
        start=start,
        input=2.0 * times,
        cached_input=None if cached_input is None else cached_input * times,
        write=2.5 * times,
        write_hour=4.0 * times,
        output=out * times,
    )


def listing(*tiers: Rates, **processing: Rates) -> Listing:
    return Listing(
        prices=PriceList(model="m", provider="p", tiers=tiers),
        processing={k: PriceList(model="m", provider="p", tiers=(v,)) for k, v in processing.items()},
    )


def found(one: Listing) -> dict[tuple[str, float, float], float]:
    return {(r.kind, r.start, r.stop): r.value for r in ratios(one)}


def test_ratios_are_taken_against_the_base_price() -> None:
    said = found(listing(rates(), rates(200e3, 2.0, out=15.0), rates(512e3, 6.0), batch=rates(times=0.5)))
    assert said == {
        (page.OUTPUT, 0, inf): 5.0,
        (page.CACHED, 0, inf): pytest.approx(0.1),
        (page.WRITE, 0, inf): 1.25,
        (page.WRITE_HOUR, 0, inf): 2.0,
        (page.CLIFF, 200e3, 512e3): 200e3,
        (page.INPUT_ABOVE, 200e3, 512e3): 2.0,
        (page.CACHED_ABOVE, 200e3, 512e3): pytest.approx(2.0),
        (page.OUTPUT_ABOVE, 200e3, 512e3): 3.0,
        (page.CLIFF, 512e3, inf): 512e3,
        (page.INPUT_ABOVE, 512e3, inf): 6.0,
        (page.CACHED_ABOVE, 512e3, inf): pytest.approx(6.0),
        (page.OUTPUT_ABOVE, 512e3, inf): 6.0,
        ("batch", 0, inf): 0.5,
    }


def test_output_of_a_tier_stands_apart_only_where_it_differs() -> None:
    assert ("fast, output", 0, inf) not in found(listing(rates(), fast=rates(times=2.0)))
    assert found(listing(rates(), fast=rates(times=2.0, out=12.5)))["fast, output", 0, inf] == 2.5


def test_a_page_without_cached_price_has_no_ratio_of_it() -> None:
    assert page.CACHED not in {kind for kind, _, _ in found(listing(rates(cached_input=None)))}


def test_changes_say_what_was_and_what_is() -> None:
    old, new = listing(rates(), rates(200e3, 2.0)), listing(rates(out=8.0))
    said = {(c.what, c.before, c.after) for c in changes([("2026-01-01", old), ("2026-03-13", new)], "s")}
    assert said == {
        ("output", "$10", "$8"),
        ("input above cliff of 200k", "x2", "none"),
        ("cached above cliff of 200k", "x2", "none"),
        ("output above cliff of 200k", "x2", "none"),
    }
    assert changes([("2026-01-01", old), ("2026-03-13", old)], "s") == []


def opus(at: date) -> Listing:
    return next(one for one in price_book.listings("anthropic", at) if one.prices.model == "claude-opus-4-6")


def test_the_cliff_of_opus_4_6_went_with_the_same_weights() -> None:
    before, after = found(opus(date(2026, 2, 10))), found(opus(date(2026, 4, 1)))
    assert before[page.CLIFF, 200e3, inf] == 200e3
    assert (before[page.INPUT_ABOVE, 200e3, inf], before[page.OUTPUT_ABOVE, 200e3, inf]) == (2.0, 1.5)
    assert not any(kind == page.CLIFF for kind, _, _ in after)
    days = {(c.day, c.model) for c in price_book.history("anthropic") if "cliff" in c.what}
    assert ("2026-03-13", "claude-opus-4-6") in days


def test_fast_fell_from_six_to_two() -> None:
    said = {(c.model, c.before, c.after) for c in price_files.facts().change if c.what == "fast"}
    assert ("claude-opus-4-6", "none", "x6") in said
    assert ("claude-opus-5", "none", "x2") in said
    now = {one.prices.model: found(one) for one in price_book.listings("anthropic", DAY)}
    assert now["claude-opus-5"]["fast", 0, inf] == 2.0


@pytest.mark.parametrize(
    ("provider", "model", "start", "above"),
    [("google", "gemini-2.5-pro", 200e3, 2.0), ("google", "gemini-1.5-pro", 128e3, 2.0), ("minimax", None, 512e3, 2.0)],
)
def test_published_cliffs(provider: str, model: str | None, start: float, above: float) -> None:
    said = [found(one) for one in price_book.listings(provider, DAY) if model in (None, one.prices.model)]
    assert any(one.get((page.INPUT_ABOVE, start, inf)) == pytest.approx(above) for one in said)


def test_prices_by_the_hour_are_a_tier() -> None:
    said = {one.prices.model: found(one) for one in price_book.listings("deepseek", DAY)}
    assert said["deepseek-v4-pro"]["peak hours", 0, inf] == pytest.approx(2.0)
    assert said["deepseek-chat"]["off-peak hours", 0, inf] == pytest.approx(0.5)


def test_resellers_are_on_no_page_but_their_own() -> None:
    everyone = {one.prices.provider for one in price_book.listings(at=DAY)}
    assert "openrouter" not in everyone
    assert len(everyone) > 30
    assert price_book.listings("openrouter", DAY)


def test_an_unknown_provider_gets_near_names() -> None:
    with pytest.raises(InputError, match="anthropic"):
        price_book.listings("antropic")
