"""Pages of a provider that knows its costs: by brute force, by closed forms, and DeepSeek's own day."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from rackmath.caching.tiers import TierCost
from rackmath.cli.app import cli
from rackmath.engine.layout import Layout
from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.prices.forward import curve, margin_of, rational_page
from rackmath.prices.lists import PriceList, Rates
from rackmath.prices.rational import cache_prices, priced, two_tier
from rackmath.serving.contexts import cost_against_context
from rackmath.serving.token_costs import Demand, reading

FLASH = TierCost(name="flash", drain_time=500.0, hold=1e-13, retrieve=2e-10, wait=1e-5, accelerator_seconds=0.0)
HBM = TierCost(name="hbm", drain_time=0.03, hold=1e-9, retrieve=0.0, wait=0.0, accelerator_seconds=0.0)
AGAIN = TierCost(name="rematerialise", drain_time=0.0, hold=0.0, retrieve=1e-7, wait=1e-4, accelerator_seconds=0.0)


@given(data=st.data(), size=st.integers(2, 9))
def test_two_tiers_by_brute_force(data: st.DataObject, size: int) -> None:
    numbers = st.lists(st.floats(0.1, 100), min_size=size, max_size=size)
    costs = np.array([data.draw(numbers), data.draw(numbers)])
    tokens = np.array([data.draw(numbers), data.draw(numbers)])
    contexts = np.arange(1.0, size + 1)
    found = two_tier(contexts, costs, tokens)
    whole = (costs * tokens).sum()
    best = min(
        sum(
            side[:, :at].max(axis=1) @ many[:, :at].sum(axis=1) + side[:, at:].max(axis=1) @ many[:, at:].sum(axis=1)
            for side, many in [(costs, tokens)]
        )
        for at in range(1, size)
    )
    assert found.overcharge == pytest.approx(best / whole - 1, abs=1e-9)
    lower = contexts <= found.start
    for kind in range(2):
        asked = np.where(lower, found.below[kind], found.above[kind])
        assert np.all(asked >= costs[kind] - 1e-12), "no request is served at a loss"
    assert -1e-9 <= found.overcharge <= found.flat_overcharge + 1e-9


def test_costs_that_are_two_steps_are_met_exactly() -> None:
    contexts = np.array([1e3, 1e4, 1e5, 1e6])
    found = two_tier(contexts, np.array([[1.0, 1.0, 2.0, 2.0]]), np.ones((1, 4)))
    assert (found.start, found.below, found.above, found.overcharge) == (1e4, (1.0,), (2.0,), 0.0)
    assert found.flat == (2.0,)
    assert found.flat_overcharge == pytest.approx(8 / 6 - 1)


def test_pages_that_make_no_sense_are_refused() -> None:
    two = np.array([1.0, 2.0])
    with pytest.raises(InputError, match="contexts"):
        two_tier(two[:1], np.ones((1, 1)), np.ones((1, 1)))
    with pytest.raises(InputError, match="costs"):
        two_tier(two, np.array([[1.0, 0.0]]), np.ones((1, 2)))
    with pytest.raises(InputError, match="tokens"):
        two_tier(two, np.ones((1, 2)), np.zeros((1, 2)))
    for utilisation, margin in ((0.0, 0.0), (1.1, 0.0), (0.5, 1.0), (0.5, -0.1)):
        with pytest.raises(InputError):
            priced(1.0, utilisation, margin)
    assert priced(3.0, 0.5, 0.25) == pytest.approx(8.0)


def test_a_cache_is_paid_for_its_time_and_its_load() -> None:
    found = cache_prices([AGAIN, HBM, FLASH], 3600.0, 0.5)
    assert found.tier == "flash"
    assert found.read == pytest.approx(2e-4)
    assert found.write == pytest.approx(0.5 + 1e-13 * 3600 * 1e6)
    assert found.storage == pytest.approx(1e-13 * 3600 * 1e6)
    assert cache_prices([HBM, FLASH], 0.1, 0.5).tier == "hbm"
    with pytest.raises(InputError):
        cache_prices([AGAIN], 1.0, 0.5)


def test_a_page_is_cost_over_utilisation_and_margin() -> None:
    model, system = catalogue.model("llama-3.1-8b"), catalogue.system("h100-sxm")
    contexts = np.geomspace(500, 64_000, 12)
    demand = Demand(prompt=3000.0, answer=300.0, spread=0.8, longest=64_000.0)
    read = reading(model, system, [Layout()], contexts, demand.parts(contexts))
    written = cost_against_context(model, system, 1, contexts, slowest=0.05)
    bare = curve(contexts, read, written, 1e-3, (1.0, 1.0), 0.0)
    dear = curve(contexts, read, written, 1e-3, (0.25, 0.5), 0.2)
    assert dear.output == pytest.approx(bare.output * 2.5)
    assert dear.input == pytest.approx(bare.input * 5)
    assert bare.output == pytest.approx(written.gpu_seconds * 1e3)
    page = rational_page(bare, demand, [HBM, FLASH], [HBM, FLASH], fast=2.0, batch=0.5)
    parts = demand.parts(contexts)
    assert page.input == pytest.approx((read.seconds * parts * contexts).sum() / (parts @ contexts) * 1e3)
    _, out = bare.at(demand.context)
    assert page.output == out
    assert bare.at(contexts[3]) == pytest.approx((bare.input[3], bare.output[3]))
    prices = PriceList(
        model="m",
        provider="p",
        tiers=(Rates(input=page.input * 2, cached_input=None, write=None, write_hour=None, output=page.output * 2),),
    )
    kept = margin_of(prices, demand, page)
    assert kept.margin == pytest.approx(0.5)
    assert (kept.input, kept.output, kept.cached_input) == (pytest.approx(0.5), pytest.approx(0.5), None)


def run(*arguments: str) -> dict[str, object]:
    result = CliRunner().invoke(cli, ["prices", "cost", *arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def deepseek_s_day() -> dict[str, object]:
    """Open-infra-index, day 6: 73.7k tokens/s read (56.3 % of them found) and 14.8k written per node of 8 H800.

    608 B and 168 B tokens a day; 4,989 tokens of context; 20 to 22 tokens/s; 2 $ per GPU-hour; 87,072 $ of cost
    against 562,027 $ at list. Users per accelerator: 14,800 / 8 / 21, the mean of the day, so writing needs no
    utilisation; reading has the command's 0.8. Prompts from the totals and the context. The engine is DeepSeek's own.
    """
    return run(
        "deepseek-v3", "--on", "h800-sxm", "--gpus", "144", "--layout", "ep144,dp144", "--prefill-gpus", "32",
        "--prefill-layout", "ep32,dp32", "--two-batch", "--batch", str(144 * 88), "--input", "4384",
        "--output", "1211", "--hit", "0.563", "--to", "65536", "--engine", "other", "--year", "2025.15",
        "--usd-per-gpu-hour", "2", "--sold-as", "deepseek-reasoner", "--provider", "deepseek", "--date", "2025-02-28",
    )  # fmt: skip


def test_deepseek_s_day_of_february_2025() -> None:
    rates = deepseek_s_day()["rates"]
    read, written = 8 * rates["input"] * 0.8, 8 * rates["output"]
    assert read < 73_700 < read / 0.8, "what they read lies between work for four fifths of the time and without pause"
    assert written == pytest.approx(14_800, rel=0.15)
    assert 1 / rates["time_per_output_token"] == pytest.approx(21, rel=0.15)
    nodes = 608e9 / 86_400 / read + 168e9 / 86_400 / written
    assert nodes * 8 * 24 * 2 == pytest.approx(87_072, rel=0.15)


def test_deepseek_s_cost_over_revenue_of_that_day() -> None:
    margin = deepseek_s_day()["margin"]
    assert margin["cost"] / margin["revenue"] == pytest.approx(87_072 / 562_027, rel=0.15)


def test_costs_rise_with_context_and_fall_with_patience() -> None:
    base = ["llama-3.1-70b", "--on", "h100-sxm", "--gpus", "8"]
    found = run(*base)
    costs = found["curve"]
    assert np.all(np.diff(costs["output"]) >= 0)
    assert np.all(np.array(costs["output_low"]) <= np.array(costs["output"]))
    page = found["page"]
    assert page["fast"] > 1 >= page["batch"]
    assert page["output_over_input"] == pytest.approx(page["output"] / page["input"])
    quicker = run(*base, "--speed", "40")["page"]
    assert quicker["batch"] < 1
    assert quicker["output"] > page["output"]
    assert page["cached_over_input"] < page["waited_over_input"] < 1
    ideal = run(*base, "--ideal")
    assert np.all(np.array(ideal["curve"]["input"]) < np.array(costs["input"]))
    assert ideal["page"]["output"] < page["output"]
    double = run(*base, "--utilisation", "0.4")
    assert double["page"]["output"] == pytest.approx(2 * page["output"])


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (["--speed", "0"], "--speed"),
        (["--to", "nan"], "--to"),
        (["--hit", "1"], "--hit"),
        (["--margin", "1"], "--margin"),
        (["--utilisation", "0"], "--utilisation"),
        (["--layout", "tp3"], "layout"),
        (["--input", "1e9"], "--input"),
        (["--speed", "9000"], "let a token take longer"),
        (["--sold-as", "lama"], "MODEL"),
    ],
)
def test_bad_input_is_one_line(wrong: list[str], field: str, capsys: pytest.CaptureFixture[str]) -> None:
    from rackmath.cli.app import main

    with pytest.raises(SystemExit) as stop:
        main(["prices", "cost", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "1", *wrong])
    said = capsys.readouterr().err
    assert stop.value.code in (1, 2)
    assert field in said
    assert said.count("\n") == 1
