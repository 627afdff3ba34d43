"""Price lists by hand: kinds of tokens, the cliff of a tier, logs."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from rackmath.errors import InputError
from rackmath.io import price_book
from rackmath.io.usage_log import read_usage
from rackmath.prices.lists import PriceList, Rates, Tokens, bill

DAY = date(2026, 11, 21)
USAGE = Path(__file__).parents[1] / "data/usage.jsonl"
TIERS = PriceList(
    model="m",
    provider="p",
    tiers=(
        Rates(input=2.0, cached_input=0.2, write=2.5, write_hour=4.0, output=10.0),
        Rates(start=200_000.0, input=4.0, cached_input=0.4, write=5.0, write_hour=8.0, output=15.0),
    ),
)


def tokens(fresh=0.0, cached_input=0.0, write=0.0, write_hour=0.0, output=0.0) -> Tokens:
    return Tokens(
        **{
            name: np.atleast_1d(np.asarray(value, dtype=float))
            for name, value in (
                ("input", fresh),
                ("cached_input", cached_input),
                ("write", write),
                ("write_hour", write_hour),
                ("output", output),
            )
        }
    )


def test_each_kind_of_token_has_its_price() -> None:
    found = bill(TIERS, tokens(1e5, 2e4, 3e4, 4e4, 1e4))
    assert (found.input[0], found.cached_input[0], found.write[0], found.output[0]) == pytest.approx(
        (0.2, 0.004, 0.075 + 0.16, 0.1)
    )
    assert found.total[0] == pytest.approx(0.539)


def test_a_tier_begins_above_its_start_and_takes_all_tokens_cached_ones_included() -> None:
    found = bill(TIERS, tokens([1e5, 1e5], [1e5, 1e5 + 1], output=[1000.0, 1000.0]))
    assert found.total == pytest.approx([0.2 + 0.02 + 0.01, 0.4 + 0.0400004 + 0.015])


def test_what_has_no_price_costs_what_input_costs() -> None:
    bare = PriceList(
        model="m", provider="p", tiers=(Rates(input=1.0, cached_input=None, write=None, write_hour=None, output=2.0),)
    )
    assert bill(bare, tokens(1e6, 1e6, 1e6, 1e6, 1e6)).total[0] == pytest.approx(6.0)


def test_tokens_below_zero_and_tiers_out_of_order_are_refused() -> None:
    with pytest.raises(InputError, match=r"tokens\.cached_input"):
        bill(TIERS, tokens(cached_input=-1.0))
    with pytest.raises(InputError, match="ascend"):
        PriceList(model="m", provider="p", tiers=TIERS.tiers[1:])


@pytest.mark.parametrize("model", ["claude-haiku-5-5", "gpt-6.1-sol", "claude-sonnet-4-5", "gemini-2.5-pro"])
@pytest.mark.parametrize("prompt", [50_000, 150_000, 250_000, 300_000])
def test_bills_are_those_of_genai_prices_itself(model: str, prompt: int) -> None:
    import genai_prices

    prices = price_book.price_list(model, at=DAY)
    usage = genai_prices.Usage(input_tokens=prompt, cache_read_tokens=40_000, output_tokens=700)
    wanted = genai_prices.calc_price(
        usage, model, provider_id=prices.provider, genai_request_timestamp=datetime(2026, 11, 21, 12)
    ).total_price
    found = bill(prices, tokens(prompt - 40_000, 40_000, output=700)).total[0]
    assert Decimal(found) == pytest.approx(wanted, rel=Decimal("1e-9"))


def test_a_batch_tier_is_half_and_its_absence_is_said() -> None:
    plain, batch = (price_book.price_list("claude-opus-5-5", at=DAY, batch=b) for b in (False, True))
    assert batch.tiers[0].output == plain.tiers[0].output / 2
    with pytest.raises(InputError, match="no batch tier"):
        price_book.price_list("kimi-k2.6", "moonshotai", DAY, batch=True)
    with pytest.raises(InputError, match="those who do"):
        price_book.price_list("kimi-k2.6", "nobody", DAY)


def test_a_log_in_both_dialects_is_read_to_the_token() -> None:
    log = read_usage(USAGE)
    assert log.without_usage == 1
    opus = log.tokens["claude-opus-5-5", False]
    kinds = [getattr(opus, kind).tolist() for kind in ("input", "cached_input", "write", "write_hour", "output")]
    assert kinds == [[100], [20_000], [1000], [2000], [400]]
    assert log.tokens["claude-opus-5-5", True].output.tolist() == [400]
    sol = log.tokens["gpt-6.1-sol", False]
    assert (sol.input.tolist(), sol.cached_input.tolist(), sol.prompt.tolist()) == (
        [100_000, 1000],
        [200_000, 0],
        [300_000, 1000],
    )
    # Above 272,000 tokens everything doubles but output, which is half as much again.
    total = bill(price_book.price_list("gpt-6.1-sol", at=DAY), sol).total
    assert total == pytest.approx([0.4 + 0.04 + 0.0075, 0.002 + 0.0001])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"model": "x", "usage": {"input_tokens": -1}}', "whole number"),
        ('{"model": "x", "usage": {"input_tokens": 1.5}}', "whole number"),
        ('{"model": "x", "usage": {"input_tokens": true}}', "whole number"),
        ('{"usage": {"input_tokens": 1}}', "name the model"),
        ('{"model": "x", "usage": {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 2}}}', "more than"),
        ('{"model": "x", "usage": {"cache_creation": {"ephemeral_1h_input_tokens": 2}}}', "more than"),
        ("[1]", "one JSON object"),
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ('{"a": 1}', "no usage"),
    ],
)
def test_bad_logs_get_one_line(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "u.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=said):
        read_usage(path)
