"""Speed of decoding prices. Run: pytest benchmarks -m benchmark."""

from __future__ import annotations

import pytest

from rackmath import price_book
from rackmath.prices.decode import Offer, decode

pytestmark = pytest.mark.benchmark


def test_one_model(benchmark) -> None:
    offers = [Offer(model="m", provider="a", input=0.95, output=4.0), Offer(model="m", provider="b", input=0.8)]
    found = benchmark(decode, offers, price_book.market())
    assert found.effective_draws >= 1e4
