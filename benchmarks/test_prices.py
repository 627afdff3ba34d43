"""Speed of decoding prices. Run: pytest benchmarks -m benchmark."""

from __future__ import annotations

from datetime import date

import pytest

from rackmath.api.price_page import pages
from rackmath.io import price_files, usage_log
from rackmath.prices.decode import Offer, decode

pytestmark = pytest.mark.benchmark


def test_one_model(benchmark) -> None:
    offers = [Offer(model="m", provider="a", input=0.95, output=4.0), Offer(model="m", provider="b", input=0.8)]
    found = benchmark(decode, offers, price_files.market())
    assert found.effective_draws >= 1e4


def test_a_million_usage_records(benchmark, tmp_path) -> None:
    path = tmp_path / "usage.jsonl"
    line = '{"model":"m","usage":{"input_tokens":100,"cache_read_input_tokens":20000,"output_tokens":400}}\n'
    path.write_text(line * 1_000_000, encoding="utf-8")
    found = benchmark.pedantic(usage_log.read_usage, args=(path,), rounds=2)
    assert found.tokens["m", False].output.sum() == 4e8


def test_the_page_of_all_providers(benchmark) -> None:
    """Listings, habits, and every ratio of every model against every hypothesis."""
    found = benchmark.pedantic(pages, args=(None, None, date(2026, 11, 21)), rounds=3)
    assert sum(len(page["models"]) for page in found) > 1000


def test_the_page_of_one_provider(benchmark) -> None:
    found = benchmark.pedantic(pages, args=("openai", None, date(2026, 11, 21)), rounds=3)
    assert len(found) == 1
