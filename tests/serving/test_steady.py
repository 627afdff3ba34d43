"""Steady states: Little's law, limits, and the drafts that are accepted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackmath.engine import Layout
from rackmath.engine.kernels import pass_kernels
from rackmath.engine.losses import Losses, host_time
from rackmath.engine.timer import engine_timer
from rackmath.engine.transfer import transfer_time
from rackmath.serving import Load, Pool, Scheduling, closed_loop, disaggregated
from rackmath.serving.load import PassTimes
from rackmath.serving.prompts import time_beside, time_first, unfilled
from rackmath.serving.steady import added_by_prompt, prompt_times, settled, settled_pools, waited_beside
from rackmath.serving.waits import (
    behind_arrivals,
    beside_of_arrivals,
    beside_of_users,
    burst,
    pieces_of,
    started,
    time_per_output_token,
    time_to_first_token,
    until_begun,
)  # fmt: skip
from tests.conftest import make_system

TIMES = PassTimes(step=0.03, prompt=0.1, alone=0.1, beside=0.1)
USUAL = Scheduling(interruption=0.9, lockstep=0.1, queueing=0.1, arrival=0.05, acceptance=0.6)


def fixed(step: float, prompt: float):
    def timed(phase, layout, batch, context, draft_tokens, cached_tokens=0.0):
        return (step if phase == "decode" else prompt) + 0.0 * np.asarray(batch)

    return timed


@settings(max_examples=80, deadline=None)
@given(
    users=st.floats(1, 5000),
    step=st.floats(1e-3, 0.2),
    prompt=st.floats(1e-3, 1.0),
    output=st.floats(1, 4000),
)
def test_littles_law_holds(users: float, step: float, prompt: float, output: float) -> None:
    load = Load(concurrency=users, input=1000.0, output=output)
    s = settled(PassTimes(step, prompt, prompt, prompt), 1e9, load, 1.0, USUAL)
    decoding = s.requests_per_second * output * s.time_per_output_token
    # Steps that read prompts are long and end as many tokens as others: the batch by steps is no less than that by time.
    assert max(decoding, 1.0) * (1 - 1e-3) <= s.running <= users * (1 + 1e-9)
    inside = s.requests_per_second * (s.time_to_first_token + output * s.time_per_output_token)
    assert inside == pytest.approx(users, rel=0.02)
    # Prompts are read one after the other, but for what hides in steps.
    assert s.requests_per_second * USUAL.interruption * prompt <= 1 + 1e-9


@pytest.mark.parametrize("wave", [False, True])
def test_long_prompts_of_few_requests_at_once_take_all_of_the_time(*, wave: bool) -> None:
    """One seat, prompts of 10 s and answers of ten tokens of 0.03 s: 10.3 s a request, and each user's way to it."""
    load = Load(concurrency=20.0, input=32_000.0, output=10.0, wave=wave)
    s = settled(PassTimes(0.03, 10.0, 10.0, 10.0), 1.0, load, 1.0, replace(USUAL, acceptance=0.0))
    # Requests that came at once have all arrived when the first is read.
    each = 10 + 10 * 0.03 + (0.0 if wave else USUAL.arrival)
    total = 20 * each + (USUAL.arrival if wave else 0.0)
    assert s.requests_per_second == pytest.approx(20 / total, rel=1e-3)
    assert s.running == 1.0
    # Nineteen wait for the seat: in a wave the mean of all for nine and a half of them, the eleventh for ten.
    waited = (9.5, 10.0) if wave else (19.0, 19.0)
    for first, others in zip((s.time_to_first_token, s.median_to_first_token), waited, strict=True):
        assert first == pytest.approx(USUAL.arrival + 10 + others * each, rel=1e-3)


def test_the_host_starts_the_kernels_of_each_piece_of_a_prompt(llama) -> None:
    """20,000 tokens in pieces of 8,192 at most: three times the kernels of a pass, a millisecond each."""
    load = Load(concurrency=1.0, input=20_000.0, output=10.0, max_num_batched_tokens=8192.0)
    _, first, _ = prompt_times(llama, Layout(), load, fixed(0.01, 1e-6), replace(USUAL, dispatch=1e-3, captured=0.0))
    assert first == pytest.approx(3 * pass_kernels(llama) * 1e-3)


@pytest.mark.parametrize("stages", [1, 4])
def test_stages_read_one_prompt_after_the_other(llama, stages: int) -> None:
    """Of many users who ask for one token a prompt of 10 s is read in 10 s, or in a fourth of it by four stages."""
    load = Load(concurrency=64.0, input=32_000.0, output=1.0, max_num_batched_tokens=32_000.0, turns=float(stages))
    scheduling = replace(USUAL, interruption=1.0, mixed=0.0)

    def timer(phase, layout, batch, context, draft_tokens, cached_tokens=0.0):
        """A stage takes its part of 10 s for each prompt of a micro-batch; decode steps take no time to speak of."""
        if phase == "decode":
            return 1e-6
        in_turn = np.minimum(batch, layout.pipeline)
        each = np.maximum(np.asarray(batch) / layout.pipeline, 1.0)
        return 10.0 * each * (in_turn + layout.pipeline - 1) / layout.pipeline

    prompt, alone, together = prompt_times(llama, Layout(pipeline=stages), load, timer, scheduling)
    assert (float(prompt), float(together)) == pytest.approx((10.0 / stages, 1.0))
    rate = settled(PassTimes(1e-6, prompt, alone, prompt), 1e9, load, 1.0, scheduling).requests_per_second
    assert rate == pytest.approx(stages / 10, rel=1e-3)


@pytest.mark.parametrize("stages", [2, 4, 8])
@pytest.mark.parametrize("arriving", [0.05, 0.5, 2.0, 8.0])
def test_micro_batches_wait_for_each_other_s_prompts(stages: int, arriving: float) -> None:
    """A ring of micro-batches over stages: each takes in as many prompts as others, or none, one at every stage."""
    chance = -np.expm1(-arriving / stages)
    loads = (np.random.default_rng(5).random((6000, stages)) < chance) * arriving / stages / chance
    free, ready = np.zeros(stages), np.zeros(stages)
    for lap in loads:
        for micro_batch, prompts in enumerate(lap):
            end = ready[micro_batch]
            for stage in range(stages):
                end = free[stage] = max(end, free[stage]) + (1.0 + prompts) / stages
            ready[micro_batch] = end
    delay = (ready.max() - len(loads)) / loads.sum()
    # Those that a prompt overtakes at no stage make up for some of it: the more, the more stages.
    part = (1 + (stages - 1) * unfilled(arriving, float(stages))) / stages
    assert delay * 0.99 < part < delay * (1 + 0.02 * stages)


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_a_prompt_beside_a_pipeline_s_answers_delays_all_or_its_own_part(stages: int) -> None:
    """Rare prompts delay all micro-batches by a pass, whole or as the first of several chunks; many share the stages."""

    def timer(phase, layout, batch, context, draft_tokens, cached_tokens=0.0):
        in_turn, each = np.minimum(batch, stages), np.maximum(np.asarray(batch) / stages, 1.0)
        return 1e-3 * each * (context - np.asarray(cached_tokens)) * (in_turn + stages - 1) / stages

    layout = Layout(pipeline=stages)
    rare = time_beside(layout, 1000.0, 0.0, 1000.0, 0.0, 0.0, timer)
    assert rare == pytest.approx(1.0, rel=1e-4)
    in_chunks = time_beside(layout, 4000.0, 0.0, 1000.0, 0.0, 0.0, timer)
    assert in_chunks == pytest.approx((4 + stages - 1) / stages, rel=1e-4)
    many = time_beside(layout, 1000.0, 0.0, 4000.0, 0.0, 1e3, timer)
    assert many == pytest.approx(1.0 / stages, rel=0.01)


@pytest.mark.parametrize("arriving", [0.01, 0.5, 3.0])
def test_a_pass_of_prompts_holds_those_that_came_with_a_step(arriving: float) -> None:
    """A pass of 50 ms and 10 for each prompt, drawn: passes that there are hold more where more arrive at random."""
    drawn = np.random.default_rng(4).poisson(arriving, 200_000)
    expected = (0.05 * np.count_nonzero(drawn) + 0.01 * drawn.sum()) / drawn.sum()

    def timer(phase, layout, batch, context, draft_tokens, cached_tokens=0.0):
        return 0.05 + 1e-4 * np.asarray(batch) * (context - cached_tokens)

    time, together = time_first(Layout(), 100.0, 0.0, 8192.0, arriving, timer)
    assert float(time) == pytest.approx(expected, rel=0.02)
    assert float(together) == pytest.approx(drawn.sum() / np.count_nonzero(drawn), rel=0.02)
    # Two fill a pass, and the pieces of a long one are alone in theirs.
    assert float(time_first(Layout(), 100.0, 0.0, 250.0, 9.0, timer)[1]) == 2.0
    long, _ = time_first(Layout(), 1000.0, 0.0, 250.0, 9.0, timer)
    assert float(long) == pytest.approx(4 * 0.05 + 0.1)


def test_a_pass_of_its_own_is_started_by_the_host(llama) -> None:
    """Where prompts come first one prompt of few tokens costs decode steps what the host takes for its pass."""
    load = Load(concurrency=8.0, input=100.0, output=1e6)
    s = Scheduling(mixed=0.0, dispatch=1e-4, captured=0.0)
    added = added_by_prompt(llama, Layout(), load, 8.0, fixed(0.01, 1e-3), s)
    assert float(added) == pytest.approx(pass_kernels(llama) * 1e-4, rel=1e-4)


def test_one_user_meets_nobody() -> None:
    load = Load(concurrency=1.0, input=1000.0, output=100.0)
    s = settled(PassTimes(0.01, 0.5, 0.5, 0.5), 1e9, load, 1.0, Scheduling(interruption=0.0))
    assert s.time_per_output_token == pytest.approx(0.01)
    assert s.time_to_first_token == pytest.approx(0.5)


def test_prompts_of_others_stretch_a_token_by_their_share() -> None:
    # 20 finish per answer of 100 tokens, each a prompt of 0.1 s: 20 ms per token on top.
    load = Load(concurrency=20.0, input=1.0, output=100.0)
    s = Scheduling(interruption=1.0)

    def of_arrivals(groups: float, rules: Scheduling) -> float:
        return float(time_per_output_token(TIMES, beside_of_arrivals(20.0, groups, rules), load, rules))

    assert of_arrivals(1.0, s) == pytest.approx(0.05)
    # Two independent groups read their prompts at the same time; in lockstep both wait.
    assert of_arrivals(2.0, s) == pytest.approx(0.04)
    together = Scheduling(interruption=1.0, lockstep=1.0)
    assert of_arrivals(2.0, together) == pytest.approx(0.05)


def test_nobody_meets_his_own_prompt() -> None:
    """Of N users N - 1 send prompts that one of them can meet."""
    s, together = Scheduling(interruption=1.0), Scheduling(interruption=1.0, lockstep=1.0)
    assert beside_of_users(1.0, 0.0, 1.0, 1.0, s) == 0
    assert beside_of_users(20.0, 0.0, 1.0, 1.0, s) == 19
    # Three are read before his own; of the other half in another group he meets none, or in lockstep those of the fifth
    # of the time in which he is answered.
    assert beside_of_users(20.0, 3.0, 0.2, 1.0, s) == 16
    assert beside_of_users(20.0, 3.0, 0.2, 2.0, s) == 6
    assert beside_of_users(20.0, 3.0, 0.2, 2.0, together) == 6 + 10 / 5
    assert beside_of_users(4.0, 3.0, 0.2, 2.0, s) == 0


@given(chance=st.floats(0.0, 0.95), drafts=st.integers(0, 6))
def test_accepted_drafts_equal_the_sum_over_positions(chance: float, drafts: int) -> None:
    by_hand = sum(chance**i for i in range(drafts + 1))
    assert Scheduling(acceptance=chance).accepted(float(drafts)) == pytest.approx(by_hand, rel=1e-9)


def test_throughput_grows_and_speed_falls_with_users(llama) -> None:
    system, layout = make_system(), Layout(tensor=8)
    users = np.array([1.0, 4, 16, 64, 256])
    load = Load(concurrency=users, input=500.0, output=500.0)
    s = closed_loop(llama, system, layout, load, engine_timer(llama, system, None), USUAL)
    assert np.all(np.diff(s.requests_per_second) > 0)
    assert np.all(np.diff(s.time_per_output_token) > 0)
    assert np.all(s.running <= users + 1e-9)


def test_memory_caps_the_batch_and_the_rest_queues(llama) -> None:
    system, layout = make_system(), Layout(tensor=8)
    timer = engine_timer(llama, system, None)
    loads = [Load(concurrency=c, input=8000.0, output=1000.0) for c in (1e3, 2e3, float("inf"))]
    some, more, full = (closed_loop(llama, system, layout, load, timer, USUAL) for load in loads)
    assert some.running <= some.capacity < 1e3
    assert more.requests_per_second == pytest.approx(some.requests_per_second)
    assert full.requests_per_second == pytest.approx(some.requests_per_second)
    waiting = 1e3 / some.requests_per_second
    assert more.time_to_first_token - some.time_to_first_token == pytest.approx(waiting, rel=1e-6)


def test_the_slower_pool_sets_the_rate() -> None:
    load = Load(concurrency=1000.0, input=1.0, output=100.0)
    starved = settled_pools(PassTimes(0.01, 0.1, 0.1, 0.1), 5.0, 1e9, load, Scheduling())
    assert starved.requests_per_second == pytest.approx(5.0)
    assert starved.running == pytest.approx(5.0)
    rich = settled_pools(PassTimes(0.01, 0.1, 0.1, 0.1), 1e9, 1e9, load, Scheduling(queueing=0.0))
    assert rich.requests_per_second == pytest.approx(1000 / (0.105 + 1.0))


def test_two_pools_of_a_model_reach_a_fixed_point(llama) -> None:
    system = make_system()
    pool = Pool(layout=Layout(tensor=8), workers=1.0)
    load = Load(concurrency=np.array([1.0, 64.0]), input=2000.0, output=500.0)
    s = disaggregated(llama, system, pool, pool, load, engine_timer(llama, system, None), Scheduling())
    again = s.requests_per_second * load.output * s.time_per_output_token
    assert again == pytest.approx(np.maximum(s.running, again), rel=0.05)


@pytest.mark.parametrize(("width", "crosses"), [(4, False), (8, True)])
def test_pools_in_one_domain_send_caches_inside_it(llama, width: int, crosses: bool) -> None:
    """Two groups of four fill a domain of eight; two of eight lie in two, and a slower network delays first tokens."""
    fast = make_system()
    assert fast.scale_out is not None
    slow = replace(fast, scale_out=replace(fast.scale_out, bandwidth=fast.scale_out.bandwidth / 4))
    layout = Layout(tensor=width)
    pool = Pool(layout=layout, workers=1.0)
    load = Load(concurrency=1.0, input=2000.0, output=500.0)
    first: list[float] = []
    sent: list[float] = []
    for system in (fast, slow):
        steady = disaggregated(llama, system, pool, pool, load, engine_timer(llama, system, None), Scheduling())
        first.append(float(steady.time_to_first_token))
        sent.append(float(transfer_time(llama, system, layout, layout, 2000.0, 2.0 * width)))
    assert first[1] - first[0] == pytest.approx(sent[1] - sent[0], abs=1e-12)
    assert (sent[1] > sent[0]) == crosses


def test_a_cache_that_travels_delays_the_first_token_only() -> None:
    load = Load(concurrency=1000.0, input=1.0, output=100.0)
    here, sent = (
        settled_pools(PassTimes(0.01, 0.1, 0.1, 0.1), 1e9, 1e9, load, Scheduling(queueing=0.0), transfer)
        for transfer in (0.0, 0.4)
    )
    assert sent.time_to_first_token - here.time_to_first_token == pytest.approx(0.4)
    assert sent.time_per_output_token == here.time_per_output_token
    assert sent.requests_per_second == pytest.approx(1000 / (1.105 + 0.4))


def test_a_pool_reads_no_more_than_its_servers_pass(llama) -> None:
    """Two prefill workers, whose passes take a millisecond for many prompts, and the server's process four for each."""
    pools = Pool(layout=Layout(tensor=4), workers=2.0), Pool(layout=Layout(tensor=8), workers=50.0)
    load = Load(concurrency=5000.0, input=500.0, output=10.0)
    for frontend, rate in ((4e-3, 500.0), (0.5e-3, 4000.0)):
        s = Scheduling(frontend=frontend, queueing=0.0)
        state = disaggregated(llama, make_system(), *pools, load, fixed(1e-3, 1e-3), s)
        assert state.requests_per_second == pytest.approx(rate, rel=1e-3)


def test_a_given_batch_is_taken_as_it_is(llama) -> None:
    system, layout = make_system(), Layout(tensor=8)
    load = Load(concurrency=64.0, input=500.0, output=500.0)
    s = closed_loop(llama, system, layout, load, fixed(0.02, 0.1), USUAL, running=32.0)
    assert s.decode == pytest.approx(0.02)


@pytest.mark.parametrize(("looks", "waited"), [(1.0, 0.5), (10.0, 5.0), (30.0, 15.0)])
def test_a_request_waits_for_half_of_the_steps_between_looks(looks: float, waited: float) -> None:
    t, s = PassTimes(step=0.01, prompt=1e-9, alone=1e-9, beside=1e-9), Scheduling(queueing=0.0, mixed=0.0)
    load = Load(concurrency=16.0, input=1.0, output=1000.0, looks=looks)
    assert settled(t, 1e9, load, 1.0, s).time_to_first_token == pytest.approx(waited * 0.01, rel=1e-3)
    # A step that writes others' answers too takes its time until the first token has come.
    beside = settled(t, 1e9, load, 1.0, replace(s, mixed=1.0)).time_to_first_token
    assert beside == pytest.approx((waited + 1) * 0.01, rel=1e-3)
    # An engine that decides each step when the one before begins has decided the next one.
    ahead = settled(t, 1e9, load, 1.0, replace(s, ahead=1.0)).time_to_first_token
    assert ahead == pytest.approx((waited + 1) * 0.01, rel=1e-3)
    # A single user finds the engine idle: it looks all the time.
    lone = Load(concurrency=1.0, input=1.0, output=1000.0, looks=looks)
    assert settled(t, 1e9, lone, 1.0, replace(s, ahead=1.0)).time_to_first_token == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("ahead", [False, True])
def test_waiting_for_a_step_agrees_with_steps_drawn_out(*, ahead: bool) -> None:
    """Steps of 10 ms without end; a request is read by the first one that is decided after it has come."""
    came = np.random.default_rng(0).uniform(0.0, 100.0, 20_000)
    begins = np.arange(0.0, 101.0, 0.01)
    decided = begins - 0.01 if ahead else begins
    waited = begins[np.searchsorted(decided, came)] - came
    said = until_begun(0.01, 5.0, 1.0, Scheduling(ahead=float(ahead)))
    assert said == pytest.approx(float(waited.mean()), rel=0.01)


def test_prompts_that_came_since_the_last_look_are_read_together() -> None:
    # 20 others in answers of 10 s: 2 prompts a second; in the 0.9 s between looks 1.8 of 0.05 s, in one's own 0.05.
    t = PassTimes(step=0.1, prompt=0.05, alone=0.05, beside=0.05)
    load = Load(concurrency=21.0, input=1.0, output=100.0, looks=10.0)
    met = behind_arrivals(t, 21.0, 10.0, load, 1.0)
    assert met == pytest.approx(2 * (0.9 + 0.025) * 0.05)
    assert behind_arrivals(t, 21.0, 10.0, load, 21.0) == 0


def test_what_prompts_meet_agrees_with_requests_drawn_at_random() -> None:
    # An engine that looks every 8 steps of 10 ms and reads all that wait, one after the other, before it goes on.
    rng, step, prompt, rate, looks = np.random.default_rng(3), 0.01, 0.02, 4.0, 8
    arrivals = np.cumsum(rng.exponential(1 / rate, 40_000))
    waits, clock, i = [], 0.0, 0
    while i < len(arrivals):
        came = int(np.searchsorted(arrivals, clock, side="right"))
        clock += prompt * (came - i)
        waits += list(clock - arrivals[i:came])
        i = came
        clock += looks * step
    load = Load(concurrency=41.0, input=1.0, output=1000.0, looks=float(looks))
    t, s = PassTimes(step, prompt, prompt, prompt), Scheduling(queueing=0.0)
    # Forty others in answers of ten seconds send four prompts a second.
    said = time_to_first_token(t, 41.0, load, 1.0, s) + behind_arrivals(t, 41.0, 10.0, load, 1.0)
    assert said == pytest.approx(float(np.mean(waits)), rel=0.1)


def test_a_burst_holds_up_the_mean_and_not_the_median() -> None:
    t, s = PassTimes(step=0.01, prompt=0.1, alone=0.1, beside=0.1), Scheduling(queueing=0.05, mixed=0.0)
    load = Load(concurrency=11.0, input=1.0, output=1e6)
    state, calm = (settled(t, 1e9, load, 1.0, replace(s, queueing=q)) for q in (0.05, 0.0))
    assert state.time_to_first_token - state.median_to_first_token == pytest.approx(0.05 * 10 * 0.1, rel=1e-3)
    # Prompts that are read before one's own are not met beside the answer.
    assert state.requests_per_second == pytest.approx(float(calm.requests_per_second), rel=1e-9)
    lost = (calm.time_per_output_token - state.time_per_output_token) * load.output
    assert lost == pytest.approx(0.05 * 10 * 0.1, rel=1e-3)


def test_a_burst_passes_one_process_before_it_is_read() -> None:
    """Prompts of 100 ms hide what the server takes of each, those of 2 ms wait for its 5 ms; it bounds the rate."""
    slow, s = PassTimes(step=0.01, prompt=0.1, alone=0.1, beside=0.1), Scheduling(frontend=5e-3, interruption=0.0)
    quick = slow._replace(prompt=2e-3, alone=2e-3, beside=2e-3)
    assert burst(slow, 101.0, 1.0, s) == pytest.approx(0.5 * 100 * 0.1)
    assert burst(quick, 101.0, 1.0, s) == pytest.approx(0.5 * 100 * 5e-3)
    users = Load(concurrency=1000.0, input=1.0, output=1.0)
    for groups in (1.0, 2.0):
        state = settled(quick, 1e9, users, groups, s)
        assert state.requests_per_second == pytest.approx(groups / 5e-3)
        # Little's law: whoever is not answered waits for the server.
        assert state.time_to_first_token == pytest.approx(1000 / state.requests_per_second - 0.01)
    free = settled(quick, 1e9, users, 1.0, replace(s, frontend=0.0))
    assert free.requests_per_second > 1.5 / 5e-3


def test_a_first_token_waits_for_the_kernels_of_its_prompt_and_one_step_of_others(llama) -> None:
    system, layout = make_system(), Layout(tensor=8)
    short, long = (Load(concurrency=4.0, input=1.0, output=10.0 ** (5 - p)) for p in (0, 1))
    kernels, rules = pass_kernels(llama) * 1e-4, Scheduling(queueing=0.0)
    # A step of 20 ms that also reads the prompt hides as much of them.
    for prompt, exposed in ((0.01, kernels - 0.02), (1.0, 0.0)):
        for load in (short, long):
            some, none = (
                closed_loop(llama, system, layout, load, fixed(0.02, prompt), replace(rules, dispatch=d), running=1.0)
                for d in (1e-4, 0.0)
            )
            assert none.time_to_first_token + exposed == pytest.approx(some.time_to_first_token, rel=1e-2)
            # The step that takes the prompt in is started kernel by kernel: so much longer than a replayed one.
            # One in four of them is the user's own, which he never meets.
            longer = max(kernels - 0.02, 0.0) * some.running / load.output * 3 / 4
            assert some.time_per_output_token == pytest.approx(none.time_per_output_token + longer, rel=1e-6)
    assert 0.01 < kernels < 1.0
    assert started(0.0, llama, Scheduling(dispatch=1e-4), 1.0, 3.0) == pytest.approx(3 * kernels)
    # Where graphs of all but attention are replayed a layer is two pieces, up to the tokens that were captured.
    graphs = Scheduling(dispatch=1e-4, captured=512.0)
    layers = sum(count for _, count in llama.groups)
    assert started(0.0, llama, graphs, 512.0) == pytest.approx(2 * layers * 1e-4)
    assert started(0.0, llama, graphs, 513.0) == pytest.approx(kernels)


def test_a_step_beside_prompts_counts_the_tokens_of_both(llama) -> None:
    """500 answers of one token and two drafts, or a prompt of 600 of which 590 are cached: graphs up to 512 tokens."""
    graphs = Scheduling(dispatch=1e-4, captured=512.0, mixed=1.0)

    def waited(present: float, draft_tokens: float, tokens: float, cached_tokens: float) -> float:
        load = Load(concurrency=9.0, input=tokens, output=10.0, draft_tokens=draft_tokens, cached_tokens=cached_tokens)
        return float(waited_beside(llama, load, present, 1.0, 0.0, 0.0, graphs))

    replayed, each = pieces_of(llama) * 1e-4, pass_kernels(llama) * 1e-4
    assert waited(500, 0, 600, 588) == pytest.approx(replayed)
    assert waited(500, 0, 600, 587) == pytest.approx(each)
    assert waited(170, 2, 9, 7) == pytest.approx(replayed)
    assert waited(170, 2, 9, 6) == pytest.approx(each)
    # A prompt longer than the budget takes no more of one step than the budget.
    assert waited(100, 0, 100_000, 0) == pytest.approx(each)


def test_a_mixed_step_takes_in_no_more_than_its_budget() -> None:
    """A thousand prompts of 100 tokens for answers of 4: a step of 400 tokens' budget takes in four of them."""
    s = Scheduling(interruption=1.0)
    usual = Load(concurrency=1000.0, input=100.0, output=4.0, max_num_batched_tokens=400.0)
    assert time_per_output_token(TIMES, 1000.0, usual, s) == pytest.approx(0.03 + 4 * 0.1)
    # An engine that reads prompts first stops for all of them.
    assert time_per_output_token(TIMES, 1000.0, usual, replace(s, mixed=0.0)) == pytest.approx(0.03 + 250 * 0.1)


def test_seats_bound_what_runs_and_the_others_wait(llama) -> None:
    """100 users of 10 seats: a tenth is served at a time, and each waits for nine times as long."""
    few = Load(concurrency=100.0, input=1.0, output=1000.0, max_num_seqs=10.0)
    state = closed_loop(llama, make_system(), Layout(tensor=8), few, fixed(0.01, 1e-6), Scheduling(interruption=0.0))
    assert state.running == pytest.approx(10, rel=1e-3)
    assert state.time_to_first_token == pytest.approx(90 / float(state.requests_per_second), rel=1e-2)


def test_a_cached_prompt_is_not_read_again(llama) -> None:
    timer = engine_timer(llama, make_system(), None)
    cold, warm = (
        closed_loop(
            llama,
            make_system(),
            Layout(tensor=8),
            Load(concurrency=4.0, input=4096.0, output=100.0, cached_tokens=c),
            timer,
            USUAL,
        )
        for c in (0.0, 4080.0)
    )
    assert warm.prefill < 0.05 * cold.prefill
    assert warm.time_to_first_token < cold.time_to_first_token


def test_a_prompt_that_the_cache_holds_costs_its_neighbours_next_to_nothing(llama, deepseek) -> None:
    """A few tokens ride with a step that reads the weights anyway; long prompts cost what they compute."""
    system = make_system()
    for architecture in (llama, deepseek):
        layout = Layout(tensor=8, expert=1 if architecture is llama else 8)
        timer = engine_timer(architecture, system, None)
        one = float(timer("prefill", layout, 1.0, 2001.0, 0.0, 2000.0))
        few, many = (float(time_beside(layout, 4000.0, c, 8192.0, 64.0, 0.01, timer)) for c in (3990.0, 0.0))
        assert few < 0.5 * one
        whole = float(timer("prefill", layout, 1.0, 4000.0, 0.0, 0.0))
        assert whole - float(timer("prefill", layout, 1.0, 64.0, 0.0, 0.0)) < many < whole


def test_steps_beside_add_up_to_a_pass_over_all_their_tokens() -> None:
    """With T the time of a pass over so many tokens, n more beside B take T(B + n) - T(B), piece by piece."""
    layout = Layout(tensor=2, pipeline=1)

    def timed(phase, layout, batch, context, draft_tokens, cached_tokens=0.0):
        return 1e-3 * np.maximum(np.asarray(batch) * (np.asarray(context) - np.asarray(cached_tokens)), 100.0)

    rarely = {"arriving": 0.0, "timer": timed}
    assert time_beside(layout, 50.0, 0.0, 512.0, 20.0, **rarely) == pytest.approx(0.0)
    assert time_beside(layout, 50.0, 0.0, 512.0, 80.0, **rarely) == pytest.approx(0.03, rel=1e-4)
    assert time_beside(layout, 1000.0, 0.0, 500.0, 300.0, **rarely) == pytest.approx(1.0)
    assert time_beside(layout, 1000.0, 900.0, 500.0, 300.0, **rarely) == pytest.approx(0.1)
    # Two in a step in the mean of those that take in any: p / (1 - exp(-p)) = 2 at p = 1.5936.
    both = time_beside(layout, 60.0, 0.0, 512.0, 20.0, 1.593624, timed)
    assert both == pytest.approx((20 + 120 - 100) * 1e-3 / 2, rel=1e-4)


def test_steps_of_a_long_prompt_fill_a_pipeline_once() -> None:
    """Stage by stage: m steps of j pieces end after m j + P - 1 turns of a stage, the first after j + P - 1."""

    def timed(phase, layout, batch, context, draft_tokens, cached_tokens=0.0):
        """A pass over so many tokens, in as many pieces of 500 as there are, through the stages."""
        tokens = np.asarray(batch) * (np.asarray(context) - np.asarray(cached_tokens))
        within = np.clip(np.ceil(tokens / 500), 1, 4)
        return 1e-3 * tokens * (within + layout.pipeline - 1) / (within * layout.pipeline)

    for stages in (1, 2, 4):
        layout = Layout(pipeline=stages)
        for steps in (1, 2, 5):
            turn = 1e-3 * 500 / stages
            time = time_beside(layout, 2000.0 * steps, 0.0, 2000.0, 1.0, 0.0, timed, 500.0)
            assert time == pytest.approx((4 * steps + stages - 1) * turn, rel=0.01)


@pytest.mark.parametrize(("hidden", "waited"), [(0.0, 6e-3), (1.0, 0.0), (0.5, 3e-3)])
def test_a_host_that_schedules_ahead_is_waited_for_as_far_as_it_is_longer(hidden: float, waited: float) -> None:
    k = Losses(host=4e-3, host_sequence=1e-4, hidden=hidden)
    assert host_time(20.0, 0.0, 10e-3, k) == pytest.approx(waited)
    # Longer than the device: what is beyond it is waited for.
    assert host_time(20.0, 0.0, 1e-3, k) == pytest.approx(waited + max(hidden * 6e-3 - 1e-3, 0.0))


def test_a_host_that_calls_each_worker_takes_longer_where_there_are_several() -> None:
    k = Losses(host=1e-3, host_sequence=1e-5, remote=7e-3, remote_sequence=3e-4)
    assert host_time(64.0, 0.0, 1.0, k) == pytest.approx(1e-3 + 64 * 1e-5)
    assert host_time(64.0, 1.0, 1.0, k) == pytest.approx(1e-3 + 64 * 1e-5 + 7e-3 + 64 * 3e-4)
