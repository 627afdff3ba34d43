"""Training steps: six FLOPs per parameter and token, the bubble, the exchange."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.engine import Layout
from rackmath.engine.collectives import all_gather
from rackmath.engine.sharding import memory
from rackmath.engine.timer import engine_timer
from rackmath.models.counts import total_params
from rackmath.training import TrainingRun, step_time
from rackmath.training.throughput import tokens_per_second
from tests.conftest import make_system


def constant(seconds: float):
    def timed(phase, layout, batch, context, draft_tokens, cached_tokens=0.0):
        assert phase == "train"
        return seconds

    return timed


def test_a_token_costs_six_flops_per_parameter_and_its_attention(llama) -> None:
    system = make_system(bandwidth=1e16)
    run = TrainingRun(layout=Layout(), microbatch=1, sequences=1, length=2048, frozen_part=0.0)
    time = step_time(llama, system, run, engine_timer(llama, system, None))
    body = 6 * (total_params(llama) - 128_256 * 8192) * 2048
    attention = 3 * 80 * 2 * 64 * 256 * 2048 * 2049 / 2
    assert time == pytest.approx((body + attention) / 1e15, rel=0.01)


@settings(max_examples=50, deadline=None)
@given(stages=st.integers(1, 32), micro=st.integers(1, 256), chunks=st.integers(1, 8))
def test_the_bubble_is_that_of_the_interleaved_schedule(stages: int, micro: int, chunks: int) -> None:
    from rackmath.io import catalogue

    model, system = catalogue.model("llama-3.1-8b"), make_system(bandwidth=1e18)
    run = TrainingRun(layout=Layout(pipeline=stages), chunks=chunks, microbatch=1, sequences=micro, length=10)
    time = step_time(model, system, run, constant(1.0))
    busy = 3.0 * micro / stages
    assert time == pytest.approx(busy * (1 + (stages - 1) / (micro * chunks)), rel=1e-6)


def test_recomputing_all_costs_a_third_more_and_adapters_a_third_less(llama) -> None:
    system = make_system(bandwidth=1e18)
    run = TrainingRun(layout=Layout(), sequences=4, length=10)
    plain = step_time(llama, system, run, constant(1.0))
    assert step_time(llama, system, replace(run, recompute=1.0), constant(1.0)) == pytest.approx(
        plain * 4 / 3, rel=1e-6
    )
    assert step_time(llama, system, replace(run, frozen_part=1.0), constant(1.0)) == pytest.approx(
        plain * 2 / 3, rel=1e-6
    )


def test_sharded_weights_travel_three_times_per_microbatch(llama) -> None:
    system = make_system(bandwidth=1e18)
    run = TrainingRun(layout=Layout(data=8), sequences=16, length=10, sharded=1.0)
    weights = memory(llama, Layout(data=8), 0.0, 0.0, 0.0, 1e12).weights
    exchange = 3 * 2 * all_gather(weights, 8.0, system)
    hidden = step_time(llama, system, run, constant(1e3), exposed_share=0.0)
    shown = step_time(llama, system, run, constant(1e3), exposed_share=1.0)
    assert shown - hidden == pytest.approx(exchange, rel=1e-6)
    assert step_time(llama, system, run, constant(0.0)) == pytest.approx(exchange, rel=1e-6)


def test_ranks_that_share_a_sequence_gather_its_keys_and_values_twice_and_return_gradients(llama) -> None:
    """80 layers of 8 heads of 128, keys and values, 2 bytes; nothing hides them where a pass takes no time."""
    system = make_system(bandwidth=1e18)
    run = TrainingRun(layout=Layout(tensor=2, pipeline=5), context=4.0, microbatch=2, sequences=16, length=4096)
    entries = 2 * 4096 * (80 * 2 * 8 * 128 * 2) / 2 / 5
    weights = memory(llama, Layout(tensor=2, pipeline=5), 0.0, 0.0, 0.0, 1e12).weights
    expected = 8 * 3 * all_gather(entries, 4.0, system) + 3 * all_gather(weights, 4.0, system)
    assert step_time(llama, system, run, constant(0.0)) == pytest.approx(expected, rel=1e-6)


def test_tokens_per_second_count_the_global_batch() -> None:
    run = TrainingRun(layout=Layout(), sequences=np.array([8.0, 16.0]), length=4096)
    assert list(tokens_per_second(run, np.array([2.0, 2.0]))) == [16384, 32768]
