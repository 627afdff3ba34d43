"""Tiers by hand, the envelope by brute force, and lifetimes within their bounds."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from rackmath.caching.lifetimes import best_lifetime, exponential, kept_cost, pareto, ski_rental
from rackmath.caching.tiers import HBM, LIFETIME, RECOMPUTE, TierCost, by_drain_time, cheapest, prompt_cost, tier_costs
from rackmath.cli.app import cli
from rackmath.errors import InputError
from rackmath.hardware import MemoryTier
from rackmath.io import catalogue
from tests.conftest import make_system

TIER = MemoryTier(name="box", capacity=1e12, bandwidth=1e10, price=1e-9)
GIVEN = {"kv_bytes": 1e5, "prefill_time": 1e-4, "price": 1e-3}


def test_costs_by_hand() -> None:
    again, own, box = tier_costs(make_system(), [TIER], lifetime=1e8, **GIVEN)
    assert (again.name, own.name) == (RECOMPUTE, HBM)
    assert again.retrieve == pytest.approx(1e-7)
    assert again.hold == 0
    # 100 kB of 100 GB at a tenth of a cent per second.
    assert own.hold == pytest.approx(1e5 / 1e11 * 1e-3)
    assert own.drain_time == pytest.approx(0.1)
    # A thousand dollars over 1e8 s rent 1 TB at 1e-5 dollars per second.
    assert box.hold == pytest.approx(1e5 / 1e12 * 1e-5)
    assert box.wait == pytest.approx(1e-5)
    assert box.retrieve == pytest.approx(1e-5 * 1e-5)
    waiting = tier_costs(make_system(), [TIER], lifetime=1e8, overlap=False, **GIVEN)[2]
    assert waiting.retrieve == pytest.approx(1e-5 * (1e-5 + 1e-3))
    assert (box.accelerator_seconds, waiting.accelerator_seconds) == (0, pytest.approx(1e-5))
    # The plain system's scale-out carries 12.5 GB/s, a slow tier is not slowed further.
    slow = MemoryTier(name="fast", capacity=1e12, bandwidth=1e11, price=1e-9)
    assert tier_costs(make_system(), [slow], remote=True, **GIVEN)[2].wait == pytest.approx(1e5 / 1.25e10)
    assert tier_costs(make_system(), [TIER], remote=True, **GIVEN)[2].wait == pytest.approx(1e-5)


@given(
    st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)), min_size=1, max_size=8),
    st.lists(st.floats(0, 1000), min_size=1, max_size=20),
)
def test_the_cheapest_tier_is_the_cheapest_at_every_time(pairs, times) -> None:
    costs = [
        TierCost(name=str(i), drain_time=1.0, hold=h, retrieve=r, wait=0.0, accelerator_seconds=0.0)
        for i, (h, r) in enumerate(pairs)
    ]
    stays = cheapest(costs)
    assert stays[0].start == 0
    assert stays[-1].stop == inf
    assert all(a.stop == b.start for a, b in pairwise(stays))
    for t in times:
        name = next(s.tier for s in stays if s.start <= t < s.stop or s.stop == inf)
        least = min(c.cost(t) for c in costs)
        assert costs[int(name)].cost(t) == pytest.approx(least, rel=1e-6, abs=1e-9)


def test_real_tiers_come_in_the_order_of_their_drain_times() -> None:
    system = catalogue.system("h100-sxm")
    costs = tier_costs(system, catalogue.tiers().values(), kv_bytes=70e3, prefill_time=1e-4, price=2.5 / 3600)
    order = [s.tier for s in cheapest(costs)]
    assert order[0] == HBM
    assert order[-1] == RECOMPUTE
    drains = {c.name: c.drain_time for c in costs}
    kept = [drains[name] for name in order[1:-1]]
    assert kept == sorted(kept)
    assert by_drain_time(costs, 0.02) == HBM
    assert "disk" in by_drain_time(costs, 1e5).lower()


def test_the_link_to_the_host_carries_what_each_accelerator_holds() -> None:
    """1 GB/s behind a box of 10: a part of 60 kB takes 60 us where the box has all 100 kB in 10 us."""
    linked = replace(make_system(), host_link=1e9)
    again, _, box = tier_costs(linked, [TIER], link_bytes=6e4, group=4, overlap=False, prefill_wait=3e-5, **GIVEN)
    assert box.wait == pytest.approx(6e-5)
    assert box.accelerator_seconds == pytest.approx(4 * 6e-5)
    assert box.retrieve == pytest.approx(6e-5 * 1e-9 * 1e12 / LIFETIME + 4 * 6e-5 * 1e-3)
    assert (again.wait, again.accelerator_seconds) == (3e-5, 1e-4)
    whole = tier_costs(linked, [TIER], **GIVEN)[2]
    assert whole.wait == pytest.approx(1e-4)


def cache(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(cli, ["cache", *arguments, "--json"])
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    return facts | {one["tier"]: one for one in facts["tiers"]}


@pytest.mark.parametrize("layout", ["tp8", "tp2", "ep8,dp8"])
def test_computing_again_is_what_estimate_says_of_the_same_prompt(layout: str) -> None:
    model = "deepseek-v3" if "ep" in layout else "llama-3.1-70b"
    base = [model, "--on", "h200-sxm", "--layout", layout, "--context", "8000"]
    again = cache(*base)[RECOMPUTE]
    asked = ["estimate", *base, "--batch", "1", "--phase", "prefill", "--json"]
    single = json.loads(CliRunner().invoke(cli, asked).stdout)
    assert again["wait"] == pytest.approx(single["time"])
    if "dp" not in layout:
        assert again["accelerator_seconds"] == pytest.approx(single["time"] * single["gpus"])


def test_bytes_from_memory_of_the_host_pass_its_link() -> None:
    """20,000 tokens of 327,680 B at 64 GB/s, over one accelerator and over two; a GH200 has C2C instead."""
    base = ["llama-3.1-70b", "--context", "20000", "--tiers", "ddr5", "--usd-per-gpu-hour", "2"]
    name = "DDR5, one 12-channel socket"
    two = cache(*base, "--on", "h200-sxm", "--layout", "tp2")[name]
    assert two["wait"] == pytest.approx(20_000 * 327_680 / 2 / 64e9)
    assert two["accelerator_seconds"] == 0
    stopped = cache(*base, "--on", "h200-sxm", "--layout", "tp2", "--waiting")[name]
    assert stopped["accelerator_seconds"] == pytest.approx(2 * two["wait"])
    c2c = cache("llama-3.1-8b", *base[1:], "--on", "gh200", "--layout", "tp1")[name]
    assert c2c["wait"] == pytest.approx(20_000 * 131_072 / 450e9)


def test_a_prompt_pays_for_what_is_not_cached() -> None:
    assert prompt_cost(10.0, 1.0, 0.0) == 10
    assert prompt_cost(10.0, 1.0, 0.9) == pytest.approx(1.9)
    with pytest.raises(InputError):
        prompt_cost(10.0, 1.0, 1.1)


@given(hold=st.floats(1e-6, 1e3), again=st.floats(1e-6, 1e3), reuse=st.floats(0, 1e9))
def test_the_break_even_rule_pays_at_most_twice_the_least(hold: float, again: float, reuse: float) -> None:
    paid = kept_cost(hold, again, ski_rental(hold, again), reuse)
    least = min(hold * reuse, again)
    assert paid <= 2 * least * (1 + 1e-9) + 1e-12


def test_a_constant_rate_keeps_always_or_never() -> None:
    # Dropping is worth it where holding for one mean time costs more than computing again.
    assert best_lifetime(1.0, 10.0, exponential(1.0), 1e3).keep == inf
    assert best_lifetime(1.0, 0.1, exponential(1.0), 1e3).keep == 0.0
    always = best_lifetime(1.0, 10.0, exponential(1.0), 1e3)
    assert always.cost == pytest.approx(1.0, rel=1e-2)
    assert best_lifetime(1.0, 0.1, exponential(1.0), 1e3).cost == pytest.approx(0.1)


def test_a_heavy_tail_is_kept_until_its_rate_has_fallen() -> None:
    # Hazard shape / (scale + t) against hold / again: keep to shape again / hold - scale.
    found = best_lifetime(1.0, 100.0, pareto(10.0, 1.5), 1e5)
    assert found.keep == pytest.approx(1.5 * 100 - 10, rel=0.02)
    draw = np.random.default_rng(5)
    reuse = 10 * (draw.random(200_000) ** (-1 / 1.5) - 1)
    paid = np.mean(np.minimum(reuse, found.keep) + 100 * (reuse > found.keep))
    assert found.cost == pytest.approx(paid, rel=0.02)


@pytest.mark.parametrize("bad", [{"kv_bytes": 0.0}, {"price": float("nan")}, {"prefill_time": -1.0}, {"lifetime": 0.0}])
def test_costs_that_are_none_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(InputError):
        tier_costs(make_system(), [TIER], **(GIVEN | bad))


def test_lifetimes_need_costs_and_a_falling_chance() -> None:
    for cost in (0.0, -1.0, inf):
        with pytest.raises(InputError, match="positive finite"):
            ski_rental(cost, 1.0)
    with pytest.raises(InputError, match="falls"):
        best_lifetime(1.0, 1.0, lambda t: t / t.max(), 10.0)
    with pytest.raises(InputError, match="finite time"):
        best_lifetime(1.0, 1.0, exponential(1.0), inf)
