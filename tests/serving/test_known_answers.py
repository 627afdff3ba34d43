"""Waits of a balance by hand: they notice mutants that lived (`tools/mutants.py`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rackmath.engine import Layout
from rackmath.io import catalogue
from rackmath.models.architecture import Images
from rackmath.models.images import Image
from rackmath.serving import waits
from rackmath.serving.load import Load, PassTimes, Scheduling
from rackmath.serving.prompts import images_time
from rackmath.serving.steady import settled, settled_pools

PASSES = PassTimes(step=0.02, prompt=0.05, alone=0.08, beside=0.03)
RULES = Scheduling(
    interruption=0.8, lockstep=0.25, queueing=0.3, arrival=0.01, frontend=0.004, acceptance=0.5, mixed=1.0, ahead=1.0
)


def load(output: float = 100.0, *, concurrency: float = 64.0, wave: bool = False, **more: float) -> Load:
    """Prompts of 1,000 tokens, 200 of which are found."""
    return Load(concurrency=concurrency, input=1000.0, output=output, cached_tokens=200.0, wave=wave, **more)


@pytest.mark.parametrize(("output", "prompts"), [(1.0, 40.0), (4.0, 10.0), (100.0, 0.4)])
def test_a_token_waits_for_prompts_of_answers_that_end(output: float, prompts: float) -> None:
    """40 users in two groups, each in answers all the time: 19 of his own group and a quarter of the other 20."""
    met = waits.beside_of_users(40.0, 0.0, 1.0, 2.0, RULES)
    assert met == pytest.approx(19 + 0.25 * 20)
    time = waits.time_per_output_token(PASSES, met, load(output, max_num_batched_tokens=80_000), RULES)
    assert time == pytest.approx(0.02 + 0.8 * prompts * met / 40 * 0.03)


def test_drafts_shorten_a_token_and_not_what_it_waits_for() -> None:
    """Three drafts of which each is taken with a half: 1 + 1/2 + 1/4 + 1/8 tokens a step."""
    time = waits.time_per_output_token(PASSES, 40.0, load(draft_tokens=3.0), RULES)
    assert time == pytest.approx(0.02 / 1.875 + 0.8 * 0.4 * 0.03)
    assert waits.prompts_of_a_step(40.0, 100.0, 3.0, 2.0, RULES) == pytest.approx(40 * 1.875 / 2 / 100)


@pytest.mark.parametrize("prompt", [0.0, 0.003, 0.01, 0.1])
@pytest.mark.parametrize("reception", [0.0, 0.4, 1.0])
def test_a_wave_is_received_and_then_read_or_passed_on(prompt: float, reception: float) -> None:
    """The mean over a thousand requests, of a server's process of 8 ms a request."""
    rules = Scheduling(frontend=0.008, reception=reception)
    assert waits.of_burst(prompt, rules) == pytest.approx((0.008 * reception, max(prompt, 0.008 * (1 - reception))))
    times = 1000 * 0.008 * reception + np.arange(1000) * max(prompt, 0.008 * (1 - reception))
    passes = PassTimes(step=0.02, prompt=prompt, alone=0.08, beside=0.03)
    state = settled(passes, 1e9, load(concurrency=1000.0, wave=True), 1.0, rules)
    assert state.time_to_first_token == pytest.approx(0.08 + times.mean(), rel=2e-3)
    ended = times[-1] + 0.08 + 100 * 0.02
    assert 1000 / state.requests_per_second == pytest.approx(ended, rel=2e-3)


def test_a_pool_that_writes_runs_what_its_rate_and_answers_say() -> None:
    """A read prompt every 0.3 s, and answers of 100 tokens at 20 ms over 1.5 of each step: 4.44 of them at once."""
    state = settled_pools(PASSES, 1 / 0.3, 1e9, load(concurrency=1e6, draft_tokens=1.0), RULES)
    busy = 100 * 0.02 / 1.5
    assert state.requests_per_second == pytest.approx(1 / 0.3)
    assert state.running == pytest.approx(busy / 0.3)


def test_prompts_are_read_in_time_where_both_bounds_allow_it() -> None:
    """40 sequences of 100 tokens in two groups: 0.2 prompts a token, 6 ms of it; a pass takes 10.24 in."""
    here = load(max_num_batched_tokens=8192)
    assert waits.reads_in_time(PASSES, 40.0, 0.0061, here, 2.0, RULES)
    assert not waits.reads_in_time(PASSES, 40.0, 0.0059, here, 2.0, RULES)
    # A pass of 128 tokens takes in 0.16 of a prompt.
    assert not waits.reads_in_time(PASSES, 40.0, 1.0, load(max_num_batched_tokens=128), 2.0, RULES)
    # One answer token: twenty prompts a token.
    assert waits.reads_in_time(PASSES, 40.0, 0.61, load(1.0, max_num_batched_tokens=80_000), 2.0, RULES)
    assert not waits.reads_in_time(PASSES, 40.0, 0.59, load(1.0, max_num_batched_tokens=80_000), 2.0, RULES)


def test_a_first_token_has_four_parts() -> None:
    """Outside, its own prompt, until its step begins; and what came with it: 31 others of its group."""
    first = waits.time_to_first_token(PASSES, 64.0, load(looks=3.0), 2.0, RULES)
    assert first == pytest.approx(0.01 + 0.08 + 0.02 * (0.5 + 1 + 1))
    assert waits.burst(PASSES, 64.0, 2.0, RULES) == pytest.approx(0.3 * 31 * 0.05)
    assert waits.of_burst_prompts(PASSES, 64.0, 2.0, RULES) == pytest.approx(0.3 * 31)
    # Of a pass of four, three end with it that are read behind; no more than there are.
    assert waits.of_burst_prompts(PASSES._replace(together=4.0), 64.0, 2.0, RULES) == pytest.approx(0.3 * (31 + 3))
    assert waits.of_burst_prompts(PASSES._replace(together=99.0), 4.0, 2.0, replace(RULES, queueing=0.9)) == 1
    at_once = settled(PASSES, 1e9, load(concurrency=64.0, wave=True), 2.0, RULES)
    assert at_once.time_to_first_token == pytest.approx(0.01 + 0.08 + 0.5 * 31 * 0.05)


def test_one_reader_of_random_prompts_keeps_them_waiting() -> None:
    """Three quarters busy: three halves of a prompt."""
    assert waits.queued(0.05, 0.75) == pytest.approx(1.5 * 0.05)


def test_images_of_prompts_that_are_encoded_at_once_share_a_pass() -> None:
    """Three prompts on each of two groups: (2 + 6 / 2) / 3 s a prompt; text alone takes none."""

    def timer(phase: str, layout: Layout, batch: float, context: float, draft_tokens: float) -> float:
        assert (phase, context, draft_tokens) == ("encode", 0.0, 0.0)
        return 2.0 + batch / 2

    seeing = replace(
        catalogue.model("qwen3-vl-8b"), images=Images(count=1.0, image=Image(tiles=1, patches=4, tokens=1))
    )
    assert images_time(seeing, Layout(data=2), timer, 3.0) == pytest.approx(5 / 3)
    assert images_time(catalogue.model("llama-3.1-8b"), Layout(data=2), timer, 3.0) == 0.0
