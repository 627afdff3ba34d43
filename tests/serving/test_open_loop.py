"""MLPerf's server mode: as many requests as limits on the slowest of them allow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import exp, inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.engine import Layout
from rackmath.engine.capacity import largest_batch
from rackmath.models.architecture import Architecture
from rackmath.serving import Load, Scheduling, at_rate, closed_loop, open_loop
from rackmath.serving.load import CHUNK, Steady
from tests.conftest import make_system

Timed = Callable[..., np.ndarray]
PLAIN = Scheduling(interruption=1.0)


def linear(step: float, each: float, prompt: float) -> Timed:
    """A decode step of ``step`` and ``each`` per sequence; a prompt of fixed time."""

    def timed(
        phase: str, layout: Layout, batch: float, context: float, draft_tokens: float, cached_tokens: float = 0.0
    ) -> np.ndarray:
        wide = np.asarray(batch, dtype=float)
        return step + each * wide if phase == "decode" else prompt + 0.0 * wide

    return timed


def grouped(step: float, each: float, prompt: float) -> Timed:
    """The same in each data-parallel group, which decodes its part of the batch."""

    def timed(
        phase: str, layout: Layout, batch: float, context: float, draft_tokens: float, cached_tokens: float = 0.0
    ) -> np.ndarray:
        return linear(step, each, prompt)(
            phase, layout, np.asarray(batch) / layout.data, context, draft_tokens, cached_tokens
        )

    return timed


def load(most: float = inf, prompt: float = 8192.0) -> Load:
    return Load(concurrency=most, input=prompt, output=200.0)


def test_a_limit_on_tokens_is_met_exactly(llama: Architecture) -> None:
    # Prompts take no time to speak of: the step alone is 10 ms and 0.1 ms per sequence, 0.9 of 50 ms allow 350.
    timer = linear(0.01, 1e-4, 1e-9)
    found = open_loop(llama, make_system(), Layout(tensor=8), load(prompt=512.0), inf, 0.05, timer, PLAIN)
    assert found.running == pytest.approx(350, rel=1e-6)
    assert found.requests_per_second == pytest.approx(350 / (200 * 0.045), rel=1e-6)


@pytest.mark.parametrize("ahead", [0.0, 1.0])
def test_a_limit_on_first_tokens_is_that_of_a_queue_of_prompts(llama: Architecture, ahead: float) -> None:
    """Prompts of 0.13 s and a limit of 1 s: the utilisation at which the slowest in a hundred waits for 0.87 s.

    Who arrives waits for half of a step of 10 ms in the mean, and for a whole one more that was decided ahead.
    """
    timer, s = linear(0.01, 1e-9, 0.13), replace(PLAIN, ahead=ahead)
    found = open_loop(llama, make_system(), Layout(tensor=8), load(), 1.0, inf, timer, s)
    busy = found.requests_per_second * 0.13
    # In M/M/1 a wait exceeds t with probability rho exp(-(1 - rho) t / P); lengths drawn evenly have two thirds of it.
    mean = 0.13 * 2 / 3
    assert busy * exp(-(1 - busy) * (1.0 - 0.13 - 0.01 * (1 + ahead)) / mean) == pytest.approx(0.01, rel=1e-4)
    alone = 0.13 + 0.01 * (0.5 + ahead)
    assert found.time_to_first_token == pytest.approx(alone + mean * busy / (1 - busy), rel=1e-4)
    waited = found.median_to_first_token - alone
    assert busy * exp(-(1 - busy) * waited / mean) == pytest.approx(min(0.5, busy), rel=1e-3)


def test_prompts_wait_for_prompts_in_a_queue_that_is_seldom_full(llama: Architecture) -> None:
    """Below half of the utilisation nobody at the median waits, and the mean wait is rho / (1 - rho) of the service."""
    batch = np.array([1.0, 4.0, 8.0])
    found = open_loop(
        llama, make_system(), Layout(tensor=8), load(), inf, inf, linear(0.01, 1e-9, 0.1), PLAIN, running=batch
    )
    busy = np.asarray(found.requests_per_second) * 0.1
    assert np.all((busy > 0.04) & (busy < 0.5))
    waits = np.asarray(found.time_to_first_token) - np.asarray(found.median_to_first_token)
    assert waits == pytest.approx(0.1 * 2 / 3 * busy / (1 - busy))


def test_no_limits_leave_memory_or_the_engine_s_own_batch(llama: Architecture) -> None:
    system, layout, timer = make_system(), Layout(tensor=8), linear(0.01, 1e-4, 1e-6)
    held = float(largest_batch(llama, system, layout, context=8392.0, tokens=CHUNK))
    assert open_loop(llama, system, layout, load(), inf, inf, timer, PLAIN).running == pytest.approx(held)
    for most in (1.0, 32.0):
        assert open_loop(llama, system, layout, load(most), inf, inf, timer, PLAIN).running == pytest.approx(most)


def test_it_agrees_with_users_who_wait_where_nothing_limits(llama: Architecture) -> None:
    """With as many sequences in decode as a closed loop has, both write as many tokens."""
    system, layout, timer = make_system(), Layout(tensor=8), linear(0.01, 1e-4, 1e-4)
    closed = closed_loop(llama, system, layout, load(most=64.0), timer, PLAIN)
    opened = open_loop(llama, system, layout, load(most=float(closed.running)), inf, inf, timer, PLAIN)
    assert opened.requests_per_second == pytest.approx(float(closed.requests_per_second), rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    first=st.floats(0.2, 10.0), per_token=st.floats(0.012, 0.5), prompt=st.floats(1e-3, 0.15), more=st.floats(1.0, 4.0)
)
def test_looser_limits_never_serve_less(
    llama: Architecture, first: float, per_token: float, prompt: float, more: float
) -> None:
    args = (llama, make_system(), Layout(tensor=8), load())
    timer = linear(0.01, 1e-4, prompt)
    tight = open_loop(*args, first, per_token, timer, PLAIN)
    loose = open_loop(*args, first * more, per_token * more, timer, PLAIN)
    if np.isfinite(tight.requests_per_second):
        assert loose.requests_per_second >= tight.requests_per_second * (1 - 1e-9)
        assert tight.time_per_output_token <= 0.9 * per_token * (1 + 1e-9) or tight.running == 1
        assert tight.requests_per_second * prompt < 1


def test_limits_that_no_batch_keeps_have_no_rate(llama: Architecture) -> None:
    timer = linear(0.01, 1e-4, 0.5)
    args = (llama, make_system(), Layout(tensor=8), load())
    assert np.isnan(open_loop(*args, 0.4, inf, timer, PLAIN).requests_per_second)
    assert np.isnan(open_loop(*args, inf, 0.005, timer, PLAIN).requests_per_second)
    assert np.isnan(open_loop(*args, inf, 0.005, timer, PLAIN).time_per_output_token)
    both = open_loop(*args, np.array([0.4, 5.0]), np.array([inf, inf]), timer, PLAIN)
    assert np.isnan(both.requests_per_second).tolist() == [True, False]


def test_at_a_rate_the_batch_is_the_one_that_serves_it(llama: Architecture) -> None:
    """By Little's law B = rate x tokens x time: 2 per second of 200 tokens, 10 ms and 0.1 ms a sequence, make 4.17."""
    timer = linear(0.01, 1e-4, 1e-9)
    found = at_rate(llama, make_system(), Layout(tensor=8), load(prompt=512.0), 2.0, timer, PLAIN)
    assert found.running == pytest.approx(400 * 0.01 / (1 - 400 * 1e-4), rel=1e-6)
    assert found.requests_per_second == pytest.approx(2.0)
    assert found.time_per_output_token == pytest.approx(0.01 + 1e-4 * float(found.running), rel=1e-6)


def test_a_batch_with_room_sends_nobody_to_wait_when_its_steps_grow(llama: Architecture) -> None:
    """The fit moves steps at a batch that is known: a jump of first tokens there stopped it at every open loop."""
    args = (llama, make_system(), Layout(tensor=8), Load(concurrency=10_000.0, input=512.0, output=200.0), 2.0)
    usual = at_rate(*args, linear(0.01, 1e-4, 1e-9), PLAIN)
    slower = at_rate(*args, linear(0.0101, 1.01e-4, 1e-9), PLAIN, usual.running)
    assert slower.time_to_first_token == pytest.approx(1.01 * float(usual.time_to_first_token), rel=1e-3)
    assert slower.requests_per_second == pytest.approx(2.0)


@pytest.mark.parametrize(("first", "per_token"), [(1.0, inf), (inf, 0.04)])
def test_three_groups_serve_three_times_as_many_requests_in_the_same_times(
    llama: Architecture, first: float, per_token: float
) -> None:
    timer = grouped(0.01, 1e-4, 0.02)
    one, three = (
        open_loop(llama, make_system(), Layout(tensor=2, data=n), load(), first, per_token, timer, PLAIN)
        for n in (1, 3)
    )
    assert_thrice(three, one)


@pytest.mark.parametrize("rate", [0.5, 4.0, 400.0])
def test_three_groups_at_three_times_the_rate_are_like_one(llama: Architecture, rate: float) -> None:
    timer = grouped(0.01, 1e-4, 0.02)
    one, three = (
        at_rate(llama, make_system(), Layout(tensor=2, data=n), load(most=900.0 * n), rate * n, timer, PLAIN)
        for n in (1, 3)
    )
    assert_thrice(three, one)


def test_who_comes_to_a_group_that_seldom_decodes_waits_for_a_step_as_seldom(llama: Architecture) -> None:
    """Of 1.2 sequences 0.4 are on each of three groups: 0.4 of half a step of 10 ms."""
    args = (llama, make_system(), Layout(tensor=2, data=3), load(prompt=512.0))
    timer = grouped(0.01, 1e-9, 1e-9)
    opened = open_loop(*args, inf, inf, timer, PLAIN, running=1.2)
    arriving = at_rate(*args, 0.6, timer, PLAIN, running=1.2)
    for state in (opened, arriving):
        assert state.time_to_first_token == pytest.approx(0.002, rel=1e-4)


def assert_thrice(three: Steady, one: Steady) -> None:
    """Three groups of what one is."""
    for name in ("running", "requests_per_second"):
        assert getattr(three, name) == pytest.approx(3 * np.asarray(getattr(one, name)), rel=1e-5), name
    for name in ("time_per_output_token", "time_to_first_token", "median_to_first_token", "decode", "prefill"):
        assert getattr(three, name) == pytest.approx(np.asarray(getattr(one, name)), rel=1e-5), name


@settings(max_examples=40, deadline=None)
@given(rate=st.floats(0.1, 50), step=st.floats(1e-3, 0.05), prompt=st.floats(1e-4, 0.02))
def test_a_rate_and_a_closed_loop_of_as_many_users_agree(rate: float, step: float, prompt: float) -> None:
    from rackmath.io import catalogue

    model, system, layout = catalogue.model("llama-3.1-8b"), make_system(), Layout()
    timer = linear(step, 1e-5, prompt)
    opened = at_rate(model, system, layout, load(prompt=8192.0), rate, timer, PLAIN)
    assert opened.time_to_first_token >= prompt + min(float(opened.running), 1.0) * step / 2
    if float(opened.running) < 2 or float(opened.running) > 0.9 * float(opened.capacity):
        return
    inside = rate * float(opened.time_to_first_token + 200 * opened.time_per_output_token)
    closed = closed_loop(model, system, layout, load(most=inside), timer, replace(PLAIN, queueing=0.0))
    assert float(closed.requests_per_second) == pytest.approx(rate, rel=0.05)


def test_beyond_capacity_requests_wait_longer_the_more_there_are(llama: Architecture) -> None:
    """Served at most 32 / (200 x 13.2 ms) = 12.1 per second; of 1,000 sent at 24 the mean one waits half of the rest."""
    timer = linear(0.01, 1e-4, 1e-9)
    full = Load(concurrency=1000.0, input=512.0, output=200.0, max_num_seqs=32.0)
    found = at_rate(llama, make_system(), Layout(tensor=8), full, 24.0, timer, PLAIN)
    served = 32 / (200 * (0.01 + 32e-4))
    assert found.requests_per_second == pytest.approx(served, rel=1e-6)
    late = 1000 * (1 / served - 1 / 24) / 2
    assert found.time_to_first_token == pytest.approx(late + (0.01 + 32e-4) / 2, rel=1e-6)
    assert found.median_to_first_token == found.time_to_first_token


def test_a_run_without_end_has_no_mean_request_that_is_late(llama: Architecture) -> None:
    timer = linear(0.01, 1e-4, 1e-9)
    endless = Load(concurrency=inf, input=512.0, output=200.0, max_num_seqs=32.0)
    found = at_rate(llama, make_system(), Layout(tensor=8), endless, 24.0, timer, PLAIN)
    assert found.time_to_first_token == pytest.approx((0.01 + 32e-4) / 2, rel=1e-5)


def test_a_host_starts_kernels_of_steps_whose_tokens_no_graph_holds(llama: Architecture) -> None:
    """Graphs of up to 520.2 tokens: a prompt of 500 beside 20 answers of a group is replayed, beside 61 / 3 it is not."""
    layout, timer = Layout(tensor=2, data=3), grouped(0.01, 1e-9, 1e-9)
    # Two pieces of each of 80 layers start in 8 of the step's 10 ms; several hundred kernels do not.
    slow_host = replace(PLAIN, dispatch=5e-5, captured=520.2)
    batch = np.array([60.0, 61.0])
    for s, is_slower in ((PLAIN, [False, False]), (slow_host, [False, True])):
        opened = open_loop(llama, make_system(), layout, load(prompt=500.0), inf, inf, timer, s, running=batch)
        arriving = at_rate(llama, make_system(), layout, load(prompt=500.0), 1.0, timer, s, running=batch)
        for state in (opened, arriving):
            assert (np.asarray(state.time_per_output_token) > 0.0101).tolist() == is_slower
