"""Fleets are divisions, days have their mean, and sparsity pays until users or memory run out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.engine import Layout, estimate
from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.models.formats import FORMATS
from rackmath.models.totals import from_totals
from rackmath.serving.fleet import RackCost, day, fleet, memory_price
from rackmath.serving.sparsity import cost_by_sparsity
from tests.conftest import make_system

PURE = FORMATS["fp8-pure"]
USUAL = {
    "tokens_per_second": 1e6,
    "unit_tokens_per_second": 1000.0,
    "unit_gpus": 8.0,
    "peak_to_mean": 2.0,
    "headroom": 1.25,
    "cooling": 1.5,
    "price": 0.001,
    "bill": RackCost(accelerators=72, price=(3e6, 4e6), memory_share=(0.1, 0.2), host_memory=0.0),
}


@given(peak=st.floats(1.0, 12.0))
def test_a_day_has_its_mean_and_its_peak(peak: float) -> None:
    hours = day(peak)
    assert hours.mean() == pytest.approx(1.0)
    assert hours.max() == pytest.approx(peak, rel=0.01)
    # No global service sleeps: the least hour has two fifths of the mean.
    assert hours.min() >= 0.4 * 0.99
    assert int(hours.argmax()) == 12 or peak < 1.001


def test_a_fleet_is_sized_for_its_peak() -> None:
    f = fleet(catalogue.system("gb200-nvl72"), **USUAL)
    # 1e6 tokens/s x 2 x 1.25 / 1000 per unit.
    assert f.replicas == 2500
    assert f.gpus == 20_000
    assert f.utilisation == pytest.approx(0.4)
    assert f.hours.mean() == pytest.approx(0.4)
    assert f.hours.max() == pytest.approx(0.8, rel=1e-3)
    assert f.racks == 278
    assert f.capital == (278 * 3e6, 278 * 4e6)
    assert f.memory_capital == (278 * 3e5, 278 * 8e5)
    assert f.usd_per_million == pytest.approx(278 * 72 * 0.001 / 1e6 * 1e6)
    power = catalogue.system("gb200-nvl72").chip.power
    assert f.megawatts == pytest.approx(20_000 * power * 1.5 / 1e6)
    # Rent is paid for the whole fleet all day, so a sharper peak costs as much more.
    sharper = fleet(catalogue.system("gb200-nvl72"), **(USUAL | {"peak_to_mean": 4.0}))
    assert sharper.usd_per_million == pytest.approx(2 * f.usd_per_million)


def test_bills_of_two_generations_imply_what_memory_cost() -> None:
    bills = catalogue.bills()
    old, new = (memory_price(catalogue.system(n), bills[n]) for n in ("gb200-nvl72", "vr200-nvl72"))
    # 5 % of 3.5 M$ over 13.8 TB and 17 TB; memory became several times dearer within two years.
    assert old[0] == pytest.approx(0.05 * 3.5e6 / (72 * 192e9 + 17e12))
    assert new[0] > 2 * old[1]


@pytest.mark.parametrize(
    "bad",
    [
        {"tokens_per_second": 0.0},
        {"headroom": 0.5},
        {"cooling": float("nan")},
        {"cooling": 10.5},
        {"peak_to_mean": 0.5},
    ],
)
def test_loads_and_factors_out_of_range_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(InputError):
        fleet(catalogue.system("gb200-nvl72"), **(USUAL | bad))


def test_nothing_known_of_a_price_or_a_bill_stays_unknown() -> None:
    f = fleet(make_system(), **(USUAL | {"price": None, "bill": None}))
    assert f.capital is None
    assert f.usd_per_million is None
    assert np.isnan(f.megawatts)
    assert f.racks == 20_000 / 8


def test_few_users_read_what_they_choose_and_many_read_all() -> None:
    system = make_system(rate=1e20)
    cost = cost_by_sparsity(system, [0.4e12], [0.01e12], [1, 10, 1000], PURE, context=1.0, kv_bytes_per_token=1.0)
    # 8 TB/s: one user reads 10 GB, ten 100 GB, a thousand all 400 GB.
    assert cost.time[0] == pytest.approx([0.01e12 / 8e12, 0.1e12 / 8e12, 0.4e12 / 8e12], rel=1e-6)
    assert cost.gpu_seconds[0] == pytest.approx(cost.time[0] * 8 / np.array([1, 10, 1000]))
    # With everything read it is the engine's own estimate.
    model = from_totals("all", 0.4e12, 0.01e12, 1.0, weights=PURE)
    whole = estimate(model, system, Layout(tensor=8), batch=1000, context=1.0)
    assert cost.time[0][2] == pytest.approx(float(whole.time))


def test_users_beyond_the_memory_wait() -> None:
    # 800 GB less 400 GB of weights hold 400 requests of 100 tokens at 10 MB.
    cost = cost_by_sparsity(
        make_system(), [0.2e12], [0.1e12], [1e6], FORMATS["bf16"], context=100, kv_bytes_per_token=1e7
    )
    assert cost.batch[0][0] == 400


def test_sparsity_pays_until_users_or_memory_run_out() -> None:
    system = make_system()
    totals, actives = [0.05e12, 0.2e12, 0.7e12, 0.9e12], [0.05e12, 0.04e12, 0.03e12, 0.02e12]
    cost = cost_by_sparsity(system, totals, actives, [10, 1e6], PURE, context=100, kv_bytes_per_token=1e4)
    assert np.isinf(cost.gpu_seconds[3]).all()
    assert cost.best[0] == 0
    assert cost.best[1] in (1, 2)
    nothing = cost_by_sparsity(system, [0.9e12], [0.1e12], [10], PURE)
    assert nothing.best == (None,)
