"""Reversible layers: exact gradients, constant memory, an inverse that integers undo."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.lab import revnet
from rackmath.lab.budget import TimeLimit
from rackmath.lab.live_bytes import peak_bytes, saved_bytes
from rackmath.lab.machine import Machine
from rackmath.lab.reversible import WAYS, Block, Network, drift


@settings(max_examples=15, deadline=None)
@given(layers=st.integers(1, 6), seed=st.integers(0, 1000), scale=st.sampled_from([0.5, 1.0, 2.0]))
def test_all_ways_give_the_stored_graph_s_gradients(layers: int, seed: int, scale: float) -> None:
    network = Network(layers, 32, 2, seed=seed, scale=scale).double()
    x = torch.randn(2, 8, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    stored = revnet.gradients(network, x, "standard")
    for way in WAYS:
        found = revnet.gradients(network, x, way)
        assert torch.allclose(found, stored, rtol=1e-6, atol=1e-9 * float(stored.abs().max()))


def test_the_graph_of_torch_agrees_with_finite_differences() -> None:
    network = Network(2, 16, 2).double()
    x = torch.randn(1, 4, 16, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda v: network(v, "reversible"), (x.requires_grad_(),))


def test_memory_is_constant_in_depth() -> None:
    x = torch.randn(2, 64, 64)
    peaks: dict[str, list[int]] = {way: [] for way in WAYS}
    kept: dict[str, list[int]] = {way: [] for way in WAYS}
    for depth in (3, 6, 12):
        network = Network(depth, 64, 2)
        for way in WAYS:
            revnet._with_gradients(network)
            peaks[way].append(peak_bytes(lambda n=network, w=way: revnet._step(n, x, w), "cpu"))
            kept[way].append(revnet.kept(network, x, way))
    assert peaks["reversible"][0] == peaks["reversible"][1] == peaks["reversible"][2]
    assert kept["reversible"] == [2 * x.numel() * 4] * 3, "two streams"
    stored = peaks["standard"]
    assert stored[2] - stored[1] == pytest.approx(2 * (stored[1] - stored[0]), rel=0.05)
    # One boundary per block: two streams.
    assert peaks["per block"][2] - peaks["per block"][1] == pytest.approx(6 * 2 * x.numel() * 4, rel=0.05)
    assert peaks["reversible"][2] < peaks["per block"][2] < peaks["sqrt"][2] < stored[2]


def test_bytes_live_as_long_as_their_tensors() -> None:
    def work() -> None:
        first = torch.zeros(1000)
        del first
        torch.zeros(500)

    assert peak_bytes(work, "cpu") == 4000
    assert peak_bytes(lambda: [torch.zeros(1000), torch.zeros(500)], "cpu") == 6000
    assert peak_bytes(lambda: torch.zeros(1000).view(10, 100), "cpu") == 4000
    x = torch.randn(10, requires_grad=True)
    assert saved_bytes(lambda: (x * 2).exp(), set()) == 40


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), scale=st.sampled_from([1.0, 3.0]))
def test_integers_are_undone_exactly_and_floats_are_not(seed: int, scale: float) -> None:
    x = torch.randn(1, 8, 32, generator=torch.Generator().manual_seed(seed))

    def lost(streams: str, functions: torch.dtype) -> float:
        return drift(Network(6, 32, 2, seed=seed, scale=scale), x, streams, functions)

    assert lost("fixed", torch.float32) == 0
    assert lost("fixed", torch.bfloat16) == 0
    assert 0 < lost("fp64", torch.float64) < lost("fp32", torch.float32) < lost("bf16", torch.bfloat16)
    assert lost("fp64", torch.bfloat16) < 1e-6


def test_a_block_is_undone_without_an_inverse_of_its_parts() -> None:
    block = Block(16, 2).double()
    one, two = torch.randn(2, 1, 4, 16, dtype=torch.float64)
    with torch.no_grad():
        back = block.inverse(*block(one, two))
    assert torch.allclose(back[0], one, atol=1e-12)
    assert torch.allclose(back[1], two, atol=1e-12)


def test_the_experiment_says_what_the_lecture_says(cpu: Machine) -> None:
    found = revnet.experiment(cpu, TimeLimit(60.0), depths=(2, 4, 8), batch=1, tokens=32)
    assert found.facts["reversible_growth"] == 1.0
    assert found.facts["standard_growth"] > 2
    assert max(found.facts["gradient_error"].values()) < 1e-4
    assert found.median_error is not None
    memory = [c for c in found.curves if c.panel == "peak of live tensors"]
    assert all(abs(error) < 0.15 for curve in memory if curve.name != "sqrt" for error in curve.errors)
