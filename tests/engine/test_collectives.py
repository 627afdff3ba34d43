"""Collectives: bytes by hand, published figures, limits."""

from __future__ import annotations

import math
from dataclasses import replace
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.engine.collectives import all_gather, all_reduce, all_to_all, distinct_ranks, send
from rackmath.engine.communication import communication
from rackmath.engine.layout import Layout, as_floats
from rackmath.engine.transfer import transfer_time
from rackmath.hardware import Link
from tests.conftest import make_system

BETA = 1e11


def test_two_shot_all_reduce_moves_twice_all_but_ones_own_share() -> None:
    # One step costs n - 1 times S, two cost 2 (n - 1) / n: cheaper from three ranks on.
    assert all_reduce(8e6, 8.0, make_system()) == pytest.approx(2 * 7 / 8 * 8e6 / BETA)
    assert all_reduce(8e6, 2.0, make_system()) == pytest.approx(8e6 / BETA)
    assert all_reduce(8e6, 1.0, make_system()) == 0


def test_a_summing_switch_moves_n_plus_one_over_n() -> None:
    switch = replace(make_system(), fabric="switch")
    assert all_reduce(8e6, 8.0, switch) == pytest.approx(9 / 8 * 8e6 / BETA)


def test_all_reduce_across_domains_sends_only_parts_between_them() -> None:
    inside = 2 * 7 / 8 * 8e6 / BETA
    between = 2 * 1 / 2 * (8e6 / 8) / (BETA / 8)
    assert all_reduce(8e6, 16.0, make_system()) == pytest.approx(inside + between)


def test_all_to_all_over_two_domains_is_bound_by_the_slow_network() -> None:
    system = make_system()
    one = all_to_all(1e9, 8.0, system)
    two = all_to_all(1e9, 16.0, system)
    assert one == pytest.approx(7 / 8 * 1e9 / BETA)
    assert two == pytest.approx(0.5 * 1e9 / (BETA / 8))


@given(n=st.integers(2, 64), size=st.floats(1, 1e9), latency=st.floats(0, 1e-3))
def test_latency_is_paid_once_and_bytes_by_size(n: int, size: float, latency: float) -> None:
    system = make_system(domain=64)
    late = replace(system, scale_up=Link(bandwidth=BETA, latency=latency))
    for collective in (all_gather, all_to_all):
        assert collective(size, float(n), late) - collective(size, float(n), system) == pytest.approx(
            latency, abs=1e-12
        )
    # A reduction waits for more ranks: the printed latency is that of 8.
    more = all_reduce(size, float(n), late) - all_reduce(size, float(n), system)
    assert more == pytest.approx(latency * (1 + 0.2 * math.log2(n / 8)), abs=1e-12)


def test_a_hop_inside_a_domain_is_cheaper_than_between() -> None:
    system = make_system()
    assert send(1e6, 4.0, 2.0, system) == pytest.approx(1e6 / BETA)
    assert send(1e6, 8.0, 2.0, system) == pytest.approx(8e6 / BETA)
    assert send(1e6, 8.0, 1.0, system) == 0


@pytest.mark.parametrize(("ranks", "published"), [(8, 5.29), (16, 6.52), (32, 7.27), (64, 7.68)])
def test_distinct_ranks_match_the_published_figures(ranks: int, published: float) -> None:
    found = float(distinct_ranks(256, 8, float(ranks)))
    assert found == pytest.approx(published, abs=0.006)
    assert found == pytest.approx(ranks * (1 - comb(256 - 256 // ranks, 8) / comb(256, 8)))


def test_dispatch_carries_eight_bits_and_combine_sixteen(deepseek, nvl72) -> None:
    quiet = replace(nvl72, scale_up=Link(bandwidth=1e9))
    c = communication(deepseek, as_floats(Layout(expert=64, data=64)), quiet, 128.0, 128.0)
    copies = float(distinct_ranks(256, 8, 64.0))
    sent = 58 * 128 * copies * 7168 * 63 / 64 / 1e9
    assert c.combine == pytest.approx(sent * 2)
    assert c.dispatch == pytest.approx(sent * (1 + 4 / 128))
    # DeepEP's table: 128 tokens x 8 x 7,392 bytes = 7.57 MB without merging copies.
    assert pytest.approx(7.57e6, rel=1e-3) == 128 * 8 * 7168 * (1 + 4 / 128)


def test_ranks_of_a_group_share_what_they_send(deepseek, nvl72) -> None:
    quiet = replace(nvl72, scale_up=Link(bandwidth=1e9))
    c = communication(deepseek, as_floats(Layout(tensor=4, expert=64, data=16)), quiet, 128.0, 128.0)
    copies = float(distinct_ranks(256, 8, 64.0))
    assert c.dispatch == pytest.approx(58 * 128 / 4 * copies * 7168 * (1 + 4 / 128) * 63 / 64 / 1e9)


@pytest.mark.parametrize(("narrow_experts", "size"), [(True, 1 + 4 / 128), (False, 2)])
def test_tokens_travel_in_the_format_of_the_experts_not_of_the_attention(
    deepseek, nvl72, narrow_experts: bool, size: float
) -> None:
    """Of the two one multiplies in 8 bits, the other in 16."""
    layers = tuple(
        replace(layer, formats=tuple(rule for rule in layer.formats if (".experts." in rule[0]) is narrow_experts))
        for layer in deepseek.layers
    )
    quiet = replace(nvl72, scale_up=Link(bandwidth=1e9))
    layout = as_floats(Layout(expert=64, data=64))
    sent = communication(replace(deepseek, layers=layers), layout, quiet, 128.0, 128.0).dispatch
    copies = float(distinct_ranks(256, 8, 64.0))
    assert sent == pytest.approx(size * 58 * 128 * copies * 7168 * 63 / 64 / 1e9)


def test_a_dense_layer_reduces_twice_and_a_parallel_one_once(llama) -> None:
    layout = as_floats(Layout(tensor=8))
    one = all_reduce(10 * 8192 * 2, 8.0, make_system())
    assert communication(llama, layout, make_system(), 10.0, 10.0).tensor == pytest.approx(2 * 80 * one)
    parallel = replace(llama, layers=tuple(replace(layer, parallel=True) for layer in llama.layers))
    assert communication(parallel, layout, make_system(), 10.0, 10.0).tensor == pytest.approx(80 * one)


def test_experts_that_are_cut_reduce_as_dense_blocks_and_those_apart_exchange_instead(deepseek) -> None:
    one = all_reduce(10 * 7168 * 2, 8.0, make_system())
    cut, apart = as_floats(Layout(tensor=8)), as_floats(Layout(tensor=8, expert=16, data=2))
    assert communication(deepseek, cut, make_system(), 10.0, 10.0).tensor == pytest.approx(2 * 61 * one)
    # Three dense layers, and the attention of 58.
    assert communication(deepseek, apart, make_system(), 10.0, 10.0).tensor == pytest.approx((2 * 3 + 58) * one)


def test_ranks_that_share_a_cache_exchange_queries_and_results(deepseek) -> None:
    quiet = make_system()
    plain_layout, cut = as_floats(Layout(tensor=8)), as_floats(Layout(tensor=8, context_parallel=4))
    more = (
        communication(deepseek, cut, quiet, 10.0, 10.0).tensor
        - communication(deepseek, plain_layout, quiet, 10.0, 10.0).tensor
    )
    # 4 of 8 ranks hold half of 128 heads; a query has 576 elements, its answer 512, in 16 bit.
    sent = 61 * 10 * 64 * (576 + 512) * 2 * 3 / 4
    assert more == pytest.approx(sent / BETA)
    prefill = communication(deepseek, cut, quiet, 10.0, 10.0, decode=False).tensor
    assert prefill == pytest.approx(communication(deepseek, plain_layout, quiet, 10.0, 10.0).tensor)


def test_a_cache_travels_over_as_many_links_as_the_smaller_group_has(deepseek) -> None:
    system = make_system(domain=8)
    near = transfer_time(deepseek, system, Layout(tensor=4), Layout(tensor=2), 1000.0, 8.0)
    # 61 layers of 576 elements in 16 bit over two links.
    assert near == pytest.approx(1000 * 61 * 576 * 2 / 2 / BETA)
    far = transfer_time(deepseek, system, Layout(tensor=4), Layout(tensor=2), 1000.0, 16.0)
    assert far == pytest.approx(8 * near)
    staged = transfer_time(deepseek, system, Layout(tensor=4), Layout(tensor=2, pipeline=2), 1000.0, 8.0)
    assert staged == pytest.approx(near / 2)
    late = replace(system, scale_up=Link(bandwidth=BETA, latency=1e-3))
    assert transfer_time(deepseek, late, Layout(tensor=4), Layout(tensor=2), 1000.0, 8.0) == pytest.approx(near + 1e-3)


def test_data_parallel_groups_need_no_reduction(deepseek) -> None:
    c = communication(deepseek, as_floats(Layout(expert=8, data=8)), make_system(), 16.0, 16.0)
    assert c.tensor == 0
    assert c.outside == 0
    assert c.dispatch > 0


def test_collectives_broadcast() -> None:
    ranks = np.array([1.0, 2.0, 8.0, 16.0])
    for collective in (all_reduce, all_gather, all_to_all):
        loop = [float(collective(1e6, r, make_system())) for r in ranks]
        np.testing.assert_allclose(collective(1e6, ranks, make_system()), loop)
