"""Weights on their way to a replica: known answers, limits, and a fleet that waits for them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.setup import run, setup_of
from rackmath.engine import Layout
from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.models.counts import weight_bytes
from rackmath.serving.startup.loading import loading_time

H100 = catalogue.system("h100-sxm")
LLAMA = catalogue.model("llama-3.1-70b")
BYTES = 2 * 70_553_706_496
"""Parameters of Llama 3.1 70B at 16 bit. [B]"""
ASKED = {"model": "llama-3.1-8b", "on": "h100-sxm", "gpus": "1", "input": "500", "output": "100", "requests": 4000}


def test_a_store_gives_every_tensor_once() -> None:
    assert loading_time(LLAMA, H100, Layout(tensor=8), 14e9) == pytest.approx(BYTES / 14e9, rel=1e-9)
    assert loading_time(LLAMA, H100, Layout(tensor=4, data=2), 14e9) == pytest.approx(BYTES / 14e9, rel=1e-9)


def test_memory_of_hosts_gives_each_accelerator_its_share() -> None:
    """Over PCIe 5.0, one eighth each but for the norms, which all keep."""
    assert loading_time(LLAMA, H100, Layout(tensor=8)) == pytest.approx(BYTES / 8 / 64e9, rel=1e-3)
    slow = replace(H100, host_dram_bandwidth=20e9)
    assert loading_time(LLAMA, slow, Layout(tensor=8)) == pytest.approx(BYTES / 8 / 20e9, rel=1e-3)


def test_accelerators_that_hold_experts_only_may_be_the_last() -> None:
    """Half of DeepSeek-V3's routed experts, 327 GB, over one link; attention and the rest are 19 GB."""
    model = catalogue.model("deepseek-v3")
    experts = weight_bytes(model)["experts"]
    apart = Layout(expert=2, ffn=2, micro_batches=2)
    assert loading_time(model, H100, apart) == pytest.approx(experts / 2 / 64e9, rel=1e-9)
    assert loading_time(model, H100, apart) > 10 * loading_time(model, H100, Layout(expert=256, ffn=256))


def test_a_streamer_on_a_volume_of_a_thousand_mebibytes() -> None:
    """14.36 s for Llama 3 8B on AWS gp3: run-ai/runai-model-streamer, docs/src/benchmarks.md."""
    assert loading_time(catalogue.model("llama-3.1-8b"), H100, Layout(), 1000 * 2**20) == pytest.approx(14.36, rel=0.1)


@given(rate=st.floats(1e8, 1e13), tensor=st.sampled_from([1, 2, 4, 8]))
def test_no_store_is_faster_than_the_links(rate: float, tensor: int) -> None:
    time = loading_time(LLAMA, H100, Layout(tensor=tensor), rate)
    assert time >= max(loading_time(LLAMA, H100, Layout(tensor=tensor)), BYTES / rate * (1 - 1e-9))
    assert loading_time(LLAMA, H100, Layout(tensor=tensor), 2 * rate) <= time


def test_hosts_without_a_link_are_refused() -> None:
    with pytest.raises(InputError, match="--weights-from"):
        loading_time(LLAMA, replace(H100, host_link=None), Layout(tensor=8))
    for rate in (0.0, -1.0, float("nan")):
        with pytest.raises(InputError, match="--weights-from"):
            loading_time(LLAMA, H100, Layout(tensor=8), rate)


def test_a_fleet_waits_for_its_weights() -> None:
    load = {**ASKED, "poisson": "80", "scale_to": 8, "scale_on": "rate", "scale_target": 10, "startup": 5.0}
    setups = [setup_of(SimulateRequest(**load, weights_from=text)) for text in ("host", "nvme-tlc", "0.5GB/s")]
    starts = [setup.fleet(setup.groups[0]).scaling for setup in setups]
    assert [scaling.startup for scaling in starts if scaling] == pytest.approx(
        [5 + 16.06e9 / 64e9, 5 + 16.06e9 / 14e9, 5 + 16.06e9 / 0.5e9], rel=1e-3
    )
    waits = [float(run(setup)[-1].requests["first"].mean()) for setup in setups]
    assert waits[0] < waits[1] < waits[2]


@pytest.mark.parametrize("text", ["tape", "", "-5GB/s", "5 apples"])
def test_stores_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--weights-from"):
        SimulateRequest(**ASKED, poisson="40", scale_to=6, weights_from=text)


def test_nothing_starts_without_an_autoscaler() -> None:
    with pytest.raises(InputError, match="--scale-to"):
        SimulateRequest(**ASKED, poisson="40", weights_from="host")
