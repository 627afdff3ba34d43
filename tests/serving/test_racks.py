"""Racks: what fits is a division, what it takes is a read; contexts: nothing cheaper is missed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rackmath.engine import Layout, estimate
from rackmath.engine.layout import candidate_layouts
from rackmath.errors import DoesNotFit, InputError
from rackmath.io import catalogue
from rackmath.models.formats import FORMATS
from rackmath.serving.contexts import cost_against_context
from rackmath.serving.racks import domain_fits, domain_of, half_memory, largest_model, pipelined, slowdown_over
from tests.conftest import make_system

PURE = FORMATS["fp8-pure"]


def test_a_model_fits_where_its_weights_and_one_request_do() -> None:
    # 8 accelerators of 100 GB; a request of 1000 tokens at 1 MB each is 1 GB.
    found = domain_fits(
        make_system(), [0.5e12, 0.7995e12, 0.7985e12], [4.0], PURE, context=1000, kv_bytes_per_token=1e6
    )
    assert [f.fits for f in found] == [True, False, True]
    assert found[0].batch == 300
    assert found[0].share == pytest.approx(0.5 / 0.8)
    assert np.isnan(found[1].full)


def test_a_user_alone_reads_what_is_active_and_a_full_memory_reads_all() -> None:
    system = make_system(rate=1e20)
    one = domain_fits(system, [0.4e12], [8.0], PURE, context=1000, kv_bytes_per_token=1e6)[0]
    # Eight bandwidths of 1 TB/s read 50 GB of active weights and 1 GB of cache, 400 GB and 400 GB when full.
    assert one.alone == pytest.approx((0.05e12 + 1e9) / 8e12)
    assert one.full == pytest.approx((0.4e12 + 400e9) / 8e12)
    assert one.per_gpu == pytest.approx(400 / one.full / 8)


def test_the_largest_model_grows_with_the_domain() -> None:
    system = make_system()
    assert largest_model(system, PURE) == pytest.approx(0.5 * 8e11)
    assert largest_model(system, FORMATS["bf16"]) == pytest.approx(0.25 * 8e11)
    wide = domain_fits(system, [0.3e12], [1.0], FORMATS["bf16"], context=1000, kv_bytes_per_token=1e6)[0]
    assert wide.share == pytest.approx(0.6 / 0.8)
    assert largest_model(domain_of(system, 72), PURE) == pytest.approx(9 * largest_model(system, PURE))
    with pytest.raises(InputError, match="--domain"):
        domain_of(system, 0)


def test_a_domain_of_one_has_no_network_inside() -> None:
    alone = domain_of(make_system(), 1)
    assert alone.network_ratio is None
    with pytest.raises(InputError, match="needs both networks"):
        slowdown_over(2.0, alone)


@pytest.mark.parametrize(("racks", "slower"), [(2.0, 4.0), (4.0, 6.0), (8.0, 7.0)])
def test_an_expert_layer_over_racks_is_the_blackboards(racks: float, slower: float) -> None:
    # r = 8: max(r (n - 1) / n, 1 / n).
    assert slowdown_over(racks, make_system()) == pytest.approx(slower)
    with pytest.raises(InputError, match="both networks"):
        slowdown_over(2.0, replace(make_system(), scale_out=None))


def test_half_the_memory_in_two_stages_costs_hops_only() -> None:
    system = make_system()
    whole = pipelined(system, 0.4e12, 0.4e12, PURE, 1.0)
    half = pipelined(half_memory(system), 0.4e12, 0.4e12, PURE, 2.0)
    assert whole.memory.weights == pytest.approx(2 * half.memory.weights)
    # The same bytes are read one stage after the other.
    assert half.terms["weights"] == pytest.approx(whole.terms["weights"])
    assert whole.time < half.time < 1.05 * whole.time
    assert half.memory.capacity == whole.memory.capacity / 2


def test_the_cheapest_of_all_layouts_and_batches_is_found() -> None:
    model, system = catalogue.model("llama-3.1-8b"), catalogue.system("h100-sxm")
    contexts = np.array([1e3, 1e4, 1e5])
    curve = cost_against_context(model, system, 2, contexts, slowest=0.05)
    for i, context in enumerate(contexts):
        by_hand = [
            float(e.time) * 2 / b
            for layout in candidate_layouts(model, 2)
            for b in 2.0 ** np.arange(0, 14.5, 0.5)
            if bool((e := estimate(model, system, layout, batch=round(b), context=context)).memory.fits)
            and float(e.time) <= 0.05
        ]
        assert curve.gpu_seconds[i] <= min(by_hand) * 1.35
        assert curve.gpu_seconds[i] >= min(by_hand) * 0.7
    assert np.all(np.diff(curve.gpu_seconds) > 0)


def test_serving_stops_where_one_request_no_longer_fits() -> None:
    model, system = catalogue.model("llama-3.1-8b"), catalogue.system("h100-sxm")
    curve = cost_against_context(model, system, 1, np.geomspace(1e3, 1e8, 21), slowest=10.0)
    assert curve.stopped_by == "memory"
    for factor, fits in ((0.999, True), (1.01, False)):
        one = estimate(model, system, Layout(), batch=1, context=curve.servable_to * factor)
        assert bool(one.memory.fits) is fits
    assert np.isnan(curve.gpu_seconds[-1])
    slow = cost_against_context(model, system, 1, np.geomspace(1e3, 1e8, 21), slowest=0.008)
    assert slow.stopped_by == "time per token"
    assert slow.servable_to < curve.servable_to
    assert float(estimate(model, system, Layout(), batch=1, context=slow.servable_to).time) <= 0.008


def test_what_is_never_servable_is_refused() -> None:
    with pytest.raises(DoesNotFit, match="needs 673 GB"):
        cost_against_context(
            catalogue.model("deepseek-v3"), catalogue.system("h100-sxm"), 1, np.array([1e3]), slowest=1.0
        )
    with pytest.raises(InputError, match="positive time"):
        cost_against_context(
            catalogue.model("llama-3.1-8b"), catalogue.system("h100-sxm"), 1, np.array([1e3]), slowest=0.0
        )


def test_a_sparsity_below_one_is_no_model() -> None:
    with pytest.raises(InputError, match="sparsity"):
        domain_fits(make_system(), [1e12], [0.5], PURE)
