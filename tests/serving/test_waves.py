"""Waves: requests that all come at once, against closed forms, counted steps and the simulator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rackmath.engine import Layout
from rackmath.serving import Load, Scheduling, closed_loop
from rackmath.serving.load import PassTimes
from rackmath.serving.simulator import Arrivals, Batching, StepTimes, simulate
from rackmath.serving.steady import settled
from rackmath.serving.waits import of_its_pass
from rackmath.serving.waves import batch_of_wave, prompts_beside_answer
from tests.conftest import make_system
from tests.serving.test_steady import fixed


def test_a_wave_is_answered_whatever_its_server_still_passes_on() -> None:
    """Prompts of 2 ms and a server of 5 ms, 3 of which receive: 100 others delay a first token by 300 ms, and it is
    passed on at 2 ms a turn."""
    t = PassTimes(step=0.01, prompt=2e-3, alone=2e-3, beside=2e-3)
    wave = Load(concurrency=101.0, input=1.0, output=50.0, wave=True)
    quick, slow = (
        settled(t, 1e9, wave, 1.0, Scheduling(frontend=h, reception=0.6, interruption=0.0)) for h in (0.0, 5e-3)
    )
    assert slow.time_per_output_token == quick.time_per_output_token
    assert slow.running == quick.running
    assert slow.time_to_first_token - quick.time_to_first_token == pytest.approx(100 * 3e-3)
    slower = settled(t, 1e9, wave, 1.0, Scheduling(frontend=10e-3, reception=0.6, interruption=0.0))
    assert slower.time_to_first_token - quick.time_to_first_token == pytest.approx(100 * (6e-3 + (4e-3 - 2e-3) / 2))


def test_of_requests_that_come_at_once_the_mean_one_waits_half_of_the_last(llama) -> None:
    """100 at once, ten run, answers of 10 s: ten rounds, and the mean request waits for four and a half."""
    wave = Load(concurrency=100.0, input=1.0, output=1000.0, max_num_seqs=10.0, wave=True)
    state = closed_loop(llama, make_system(), Layout(tensor=8), wave, fixed(0.01, 1e-9), Scheduling(interruption=0.0))
    assert state.time_to_first_token == pytest.approx(4.5 * 10, rel=0.01)
    # The one in the middle is of the sixth round.
    assert state.median_to_first_token == pytest.approx(5 * 10, rel=0.01)
    assert state.requests_per_second == pytest.approx(100 / 100, rel=0.01)
    varied = closed_loop(
        llama,
        make_system(),
        Layout(tensor=8),
        replace(wave, varied=1.0),
        fixed(0.01, 1e-9),
        Scheduling(interruption=0.0),
    )
    # Of unequal answers one ends every second.
    assert varied.time_to_first_token == pytest.approx(0.9 * 90 / 2, rel=0.01)
    assert varied.median_to_first_token == pytest.approx(40, rel=0.01)
    # The longest of a hundred exponential answers has ln 100 times the mean tokens, and runs on by itself.
    assert 100 / varied.requests_per_second == pytest.approx(100 + 10 * np.log(100), rel=0.01)


@pytest.mark.parametrize("output", [1.0, 4.0, 500.0])
def test_a_wave_ends_when_its_last_prompt_is_read_and_answered(llama, output: float) -> None:
    """100 at once, prompts of 10 ms, steps of 20 ms: no run is shorter than reading them one after another."""
    wave = Load(concurrency=100.0, input=8192.0, output=output, wave=True, held=1e9)
    timer = fixed(0.02, 0.01)
    state = closed_loop(llama, make_system(), Layout(tensor=8), wave, timer, Scheduling())
    assert 100 / state.requests_per_second == pytest.approx(100 * 0.01 + output * 0.02)


@pytest.mark.parametrize(("prompts", "output"), [(10_000, 40), (800, 100), (1200, 400), (500, 3000)])
@pytest.mark.parametrize("groups", [1, 2])
def test_the_batch_of_a_wave_is_that_of_its_steps(prompts: int, output: int, groups: int) -> None:
    """Four prompts of a group are read in a step, and each is answered from then on: counted step by step."""
    wave = Load(
        concurrency=float(prompts * groups),
        input=100.0,
        output=float(output),
        max_num_batched_tokens=400.0,
        wave=True,
    )
    begins = np.arange(prompts) // 4
    steps = np.arange(begins[-1] + output)[:, None]
    running = ((begins <= steps) & (steps < begins + output)).sum(axis=1) * groups
    by_token = (running**2).sum() / running.sum()
    assert batch_of_wave(prompts * groups, wave, groups, Scheduling()) == pytest.approx(by_token, rel=0.03)
    met = [(np.minimum(begins[-1], begin + output) - begin) * 4 for begin in begins]
    assert prompts_beside_answer(prompts * groups, wave, groups, Scheduling()) == pytest.approx(
        np.mean(met) / prompts, rel=0.02
    )
    # Where prompts come first nobody is answered before all are read.
    assert batch_of_wave(prompts * groups, wave, groups, Scheduling(mixed=0.0)) == pytest.approx(prompts * groups)


@pytest.mark.parametrize(("prompts", "output"), [(20_000, 40), (20_000, 4000), (20_000, 2_000_000)])
def test_few_of_a_wave_of_unequal_answers_run_to_the_end(prompts: int, output: int, rng) -> None:
    """As above, of exponential lengths: read at once, half of the wave runs beside a token in the mean."""
    wave = Load(
        concurrency=float(prompts),
        input=100.0,
        output=float(output),
        max_num_batched_tokens=400.0,
        wave=True,
        varied=1.0,
    )
    begins = np.arange(prompts) / 4
    ends = begins + rng.exponential(output, prompts)
    at = np.sort(np.concatenate([begins, ends]))
    running = np.searchsorted(np.sort(begins), at, side="right") - np.searchsorted(np.sort(ends), at, side="right")
    lasts = np.diff(at)
    by_token = (running[:-1] ** 2 * lasts).sum() / (running[:-1] * lasts).sum()
    assert batch_of_wave(prompts, wave, 1.0, Scheduling()) == pytest.approx(by_token, rel=0.03)
    met = (np.minimum(ends, begins[-1]) - begins) * 4
    # By token: an answer of twice the tokens counts twice.
    assert prompts_beside_answer(prompts, wave, 1.0, Scheduling()) == pytest.approx(met.sum() / prompts**2, rel=0.03)
    assert batch_of_wave(prompts, wave, 1.0, Scheduling(mixed=0.0)) == pytest.approx(prompts / 2)


def test_who_is_answered_after_all_prompts_were_read_meets_half_of_them(llama) -> None:
    """64 at once, prompts first, 0.1 s each; steps of 1 ms a sequence: the k-th waits for 64 - k prompts."""
    wave = Load(concurrency=64.0, input=1000.0, output=128.0, max_num_batched_tokens=1000.0, wave=True, held=1e9)

    def timer(phase: str, layout: Any, batch: Any, *_: Any) -> Any:
        return batch * (0.1 if phase == "prefill" else 1e-3)

    state = closed_loop(llama, make_system(), Layout(), wave, timer, Scheduling(mixed=0.0))
    assert state.running == pytest.approx(64)
    met = np.mean(64 - np.arange(1, 65)) * 0.1
    assert state.time_per_output_token == pytest.approx(0.064 + met / 128, rel=1e-3)
    # Where half of them run both halves end together, so that the second is read in one burst as well.
    half = closed_loop(llama, make_system(), Layout(), replace(wave, max_num_seqs=32.0), timer, Scheduling(mixed=0.0))
    assert half.time_per_output_token == pytest.approx(0.032 + 0.5 * 31 * 0.1 / 128)


def test_of_answers_that_differ_in_length_the_short_ones_take_longest_a_token(llama, rng) -> None:
    """100 at once whose steps take 10 ms more for each prompt: each waits for 49.5, however long his answer is."""
    t = PassTimes(step=0.02, prompt=0.01, alone=0.01, beside=0.01, lone_step=0.02)
    wave = Load(concurrency=100.0, input=1024.0, output=200.0, max_num_batched_tokens=8192.0, varied=1.0, wave=True)

    def of_requests(load: Load) -> tuple[float, float]:
        state = settled(t, 100.0, load, 1.0, Scheduling())
        tpot = float(state.time_per_output_token)
        return tpot * float(state.mean_ratio), tpot * float(state.median_ratio)

    mean, median = of_requests(wave)
    drawn = np.maximum(rng.exponential(200.0, 400_000), 1.0)
    assert mean == pytest.approx(np.mean(0.02 + 0.01 * np.minimum(8192 / 1024, 49.5 / drawn)), rel=0.005)
    assert median == pytest.approx(0.02 + 0.01 * 49.5 / (200 * np.log(2)), rel=0.01)
    # Half of them begin when others end: they meet prompts as all do in a closed loop.
    half = replace(wave, concurrency=200.0)
    tpot = float(settled(t, 100.0, half, 1.0, Scheduling()).time_per_output_token)
    assert of_requests(half) == pytest.approx(((mean + tpot) / 2, (median + tpot) / 2))
    alike = replace(wave, varied=0.0)
    assert of_requests(alike) == pytest.approx(
        (float(settled(t, 100.0, alike, 1.0, Scheduling()).time_per_output_token),) * 2
    )


@pytest.mark.parametrize("server", [0.0, 1e-3, 5e-3])
def test_first_tokens_of_one_pass_come_together_and_are_passed_on_in_turn(server: float) -> None:
    """120 prompts of 2 ms, eight in a pass: counted one by one, with a server that passes on one after the other."""
    ready = np.repeat(np.arange(1, 16), 8) * 8 * 2e-3
    passed, free = [], 0.0
    for at in ready:
        free = max(free, at) + server
        passed.append(free)
    wave = Load(concurrency=120.0, input=1.0, output=50.0, wave=True)
    t = PassTimes(step=0.01, prompt=2e-3, alone=2e-3, beside=2e-3, together=8.0)
    s = Scheduling(frontend=server, interruption=0.0)
    assert settled(t, 1e9, wave, 1.0, s).time_to_first_token == pytest.approx(np.mean(passed), rel=0.04)
    # A pass of two groups takes in no more prompts than there are.
    assert of_its_pass(t, 4.0, 2.0, s) == pytest.approx(of_its_pass(t._replace(together=2.0), 100.0, 1.0, s))


@pytest.mark.parametrize("policy", ["chunked", "prefill-first"])
@pytest.mark.parametrize(
    ("count", "max_num_seqs", "prompt", "output"),
    [(64, 64, 1000, 100), (500, 64, 2000, 100), (500, 260, 1000, 400), (300, 250, 1000, 100), (1000, 16, 300, 50)],
)
def test_equal_answers_are_what_the_simulator_plays(
    llama, policy: str, count: int, max_num_seqs: int, prompt: int, output: int
) -> None:
    """Rounds that wait for those before them, the last unfilled: steps of 8 ms and 20 us a sequence, 20 us a token read."""
    budget, base, each, token = 8192, 8e-3, 2e-5, 2e-5
    work = Arrivals(
        arrival=np.zeros(count), prompt=np.full(count, prompt, np.int32), output=np.full(count, output, np.int32),
        rank=np.zeros(count, np.int32),
    )  # fmt: skip
    batch = np.arange(max_num_seqs + 1.0)
    tables = StepTimes(
        base=np.where(batch > 0, base + each * batch, 0.0), slope=0.0 * batch, prompt=token * np.arange(budget + 1.0),
        pair=0.0, error=0.0,
    )  # fmt: skip
    batching = Batching(
        policy=policy, max_num_seqs=max_num_seqs, max_num_batched_tokens=budget, memory=10**9, preemption="reserve"
    )
    run = simulate(work, tables, batching=batching, kv_bytes=1.0).requests

    def timer(
        phase: str, layout: Any, sequences: Any, context: Any, draft_tokens: Any, cached_tokens: Any = 0.0
    ) -> Any:
        if phase == "decode":
            return base + each * np.asarray(sequences) + 0.0 * context
        return token * np.asarray(sequences) * (context - cached_tokens)

    load = Load(
        concurrency=float(count), input=float(prompt), output=float(output), max_num_seqs=float(max_num_seqs),
        max_num_batched_tokens=float(budget), held=1e9, wave=True,
    )  # fmt: skip
    said = closed_loop(llama, make_system(), Layout(), load, timer, Scheduling(mixed=float(policy == "chunked")))
    tokens = (run["finish"] - run["first"]) / (output - 1)
    assert said.time_per_output_token == pytest.approx(tokens.mean(), rel=0.1)
    assert said.time_to_first_token == pytest.approx(run["first"].mean(), rel=0.1)
    assert said.median_to_first_token == pytest.approx(np.median(run["first"]), rel=0.15)
    assert count / said.requests_per_second == pytest.approx(run["finish"].max(), rel=0.08)


@pytest.mark.parametrize("ahead", [0.0, 1.0])
def test_a_waiting_request_is_admitted_in_the_next_step_that_is_decided(ahead: float) -> None:
    """One runs, prompts of 0.4 s, ten tokens of 0.1 s: a step more each time where the next is decided already."""
    t = PassTimes(step=0.1, prompt=0.4, alone=0.4, beside=0.4, lone_step=0.1)
    wave = Load(concurrency=20.0, input=1.0, output=10.0, wave=True)
    state = settled(t, 1.0, wave, 1.0, Scheduling(ahead=ahead))
    assert 20 / state.requests_per_second == pytest.approx(19 * (0.4 + 1.0 + 0.1 * ahead) + 0.4 + 1.0)


@pytest.mark.parametrize(("groups", "met"), [(1.0, 30 / 32), (2.0, 14 / 32), (4.0, 6 / 32)])
def test_nobody_meets_the_prompts_of_the_pass_of_his_own(groups: float, met: float) -> None:
    """32 at once, prompts first, two in a pass of a group: a token takes half of what the others of the group take."""
    t = PassTimes(step=0.01, prompt=0.1, alone=0.1, beside=0.1, together=2.0)
    for output in (1.0, 8.0):
        wave = Load(concurrency=32.0, input=1.0, output=output, wave=True)
        state = settled(t, 1e9, wave, groups, Scheduling(mixed=0.0))
        assert state.time_per_output_token == pytest.approx(0.01 + 32 * met / 2 / output * 0.1)


def test_groups_read_in_each_step_what_its_budget_takes_in() -> None:
    """Prompts of 1,000 tokens, 500 a step of 20 ms and of either group: 50 a second are read, whoever is free."""
    t = PassTimes(step=0.02, prompt=1e-6, alone=1e-6, beside=0.0, lone_step=0.02)
    load = Load(concurrency=5000.0, input=1000.0, output=10.0, max_num_batched_tokens=500.0)
    for groups in (1.0, 2.0, 3.0):
        assert settled(t, 1e9, load, groups, Scheduling()).requests_per_second == pytest.approx(groups * 0.5 / 0.02)


@pytest.mark.parametrize("count", [30, 37, 80, 95])
def test_when_a_request_s_prompt_is_read_is_counted_one_by_one(count: int) -> None:
    """Twenty run, prompts of 50 ms that steps hide, answers of 2 s: rounds of 2.06 s, and a prompt and a half met by some."""
    t = PassTimes(step=0.01, prompt=0.05, alone=0.05, beside=0.05, lone_step=0.01)
    wave = Load(concurrency=float(count), input=1.0, output=200.0, wave=True)
    place = np.arange(count * 1000) / 1000
    fill, round_time = 19 / 20 * 0.05, 2.06 + 19 / 200 * 1.5 * 0.05
    alike = np.floor(place / 20) * round_time + (place % 20) * fill
    unequal = np.minimum(place, 20) * fill + np.maximum(place - 20, 0) * round_time / 20
    for varied, starts in ((0.0, alike), (1.0, unequal)):
        state = settled(t, 20.0, replace(wave, varied=varied), 1.0, Scheduling(interruption=0.0))
        assert state.time_to_first_token == pytest.approx(0.05 + starts.mean(), rel=1e-3)
        assert state.median_to_first_token == pytest.approx(0.05 + starts[len(starts) // 2], rel=1e-3)
