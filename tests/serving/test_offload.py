"""Weights on the host: the least that lets the rest fit, and what reading it costs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.api.fit import FitRequest, run_fit
from rackmath.engine import Layout
from rackmath.engine.sharding import USABLE, memory
from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.models.architecture import Architecture
from rackmath.models.cache import cache_bytes
from rackmath.models.counts import weight_bytes
from rackmath.serving.offload import Offload, offload

DENSE = catalogue.model("llama-3.1-8b")
MIXTURE = catalogue.model("qwen3-30b-a3b")
CONTEXT = 4096.0


def moved(model: Architecture, capacity: float, sequences: float = 1.0) -> Offload:
    return offload(model, Layout(), capacity, sequences=sequences, context=CONTEXT)


def test_nothing_moves_where_all_fits() -> None:
    result = moved(DENSE, 80e9)
    assert (result.bytes, result.read, result.layers, result.fits) == (0, 0, 0, True)
    assert result.time(0.01, 50e9) == 0.01


@pytest.mark.parametrize("model", [DENSE, MIXTURE], ids=lambda model: model.name)
@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_the_least_moves(model: Architecture, part: float) -> None:
    """What is left fits, and would not with one layer less on the host."""
    total = float(memory(model, Layout(), 1.0, CONTEXT, 1.0, 1.0).total)
    capacity = part * total / USABLE
    result = moved(model, capacity)
    assert result.fits
    assert total - result.bytes <= USABLE * capacity
    count = result.layers + result.expert_layers
    largest = result.bytes / count
    assert total - result.bytes + 1.5 * largest > USABLE * capacity


def test_all_experts_move_where_that_is_asked() -> None:
    """Even where all fits; whole layers follow only where the rest does not."""
    everything = offload(MIXTURE, Layout(), 200e9, sequences=1.0, context=CONTEXT, all_experts=True)
    assert (everything.expert_layers, everything.layers, everything.fits) == (48, 0, True)
    assert everything.bytes == pytest.approx(weight_bytes(MIXTURE)["experts"])
    tight = offload(MIXTURE, Layout(), 2e9, sequences=1.0, context=CONTEXT, all_experts=True)
    assert tight.expert_layers == 48
    assert tight.layers > 0
    assert offload(DENSE, Layout(), 200e9, sequences=1.0, context=CONTEXT, all_experts=True).bytes == 0


def test_a_published_service_with_experts_on_the_host_lies_in_the_range() -> None:
    """KTransformers on an RTX 4090D: 8.73 tokens/s on one socket of 307 GB/s, 11.26 on two."""
    for bandwidth, published in ((307.2e9, 8.73), (614.4e9, 11.26)):
        (row,) = run_fit(
            FitRequest(
                on="rtx-4090", models="deepseek-r1", weights="q4_k_m", context=4000.0, host_memory=500e9,
                host_bandwidth=bandwidth, cpu_moe=True,
            )
        ).facts  # fmt: skip
        assert 1 / row["time_high"] < published < 1 / row["time_low"]
        assert row["offloaded_expert_layers"] == 58
    with pytest.raises(InputError, match="--cpu-moe"):
        FitRequest(on="rtx-4090", cpu_moe=True)


def test_layers_that_move_are_read_whole() -> None:
    """Two of Llama's 32 layers: an eighth of a byte less would be a bug of a factor."""
    layers = sum(size for role, size in weight_bytes(DENSE).items() if role not in ("embedding", "head"))
    each = (layers - 4096 * 2 + float(cache_bytes(DENSE, CONTEXT))) / 32
    total = float(memory(DENSE, Layout(), 1.0, CONTEXT, 1.0, 1.0).total)
    result = moved(DENSE, (total - 1.5 * each) / USABLE)
    assert result.layers == 2
    assert result.bytes == pytest.approx(2 * each)
    assert result.read == pytest.approx(2 * each)
    assert result.time(0.0, 50e9) == pytest.approx(2 * each / 50e9 + 2 * 15e-6)


def test_of_experts_those_that_are_met_are_read() -> None:
    """One sequence meets 8 of 128 experts; many meet nearly all."""
    total = float(memory(MIXTURE, Layout(), 1.0, CONTEXT, 1.0, 1.0).total)
    single = moved(MIXTURE, 0.5 * total / USABLE)
    assert single.layers == 0
    assert single.read / single.bytes == pytest.approx(8 / 128)
    many = moved(MIXTURE, 0.5 * total / USABLE, sequences=100.0)
    assert many.read / many.bytes > 0.9


def test_all_of_it_on_the_host_is_too_much() -> None:
    """Embedding and head stay: a card smaller than they are holds nothing."""
    assert not moved(DENSE, 1e9).fits


@given(st.floats(0.1, 1.0), st.floats(10e9, 400e9), st.floats(10e9, 400e9))
def test_time_falls_with_bandwidth_and_rises_with_what_moves(part: float, first: float, second: float) -> None:
    total = float(memory(DENSE, Layout(), 1.0, CONTEXT, 1.0, 1.0).total)
    small, large = (moved(DENSE, scale * part * total) for scale in (1.0, 1.3))
    slow, fast = sorted((first, second))
    step = 16e9 / 1e12
    assert small.time(step, fast) <= small.time(step, slow)
    assert small.bytes >= large.bytes
    assert small.time(step, slow) >= large.time(step, slow)
    assert 0 <= small.read_share <= 1
