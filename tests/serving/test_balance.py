"""A closed loop's balance against steps that are walked one by one, and the equations that it solves."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rackmath.serving.balance import balance, queue_of_batch, queue_of_users, read_before, reading_beside
from rackmath.serving.load import Load, PassTimes, Scheduling
from rackmath.serving.search_waits import loop_of_batch

STEP, OUTPUT = 0.01, 100
"""A decode step [s], and tokens of the mean answer."""


@dataclass
class Walk:
    """What a walk counts."""

    waits: list[float] = field(default_factory=list)
    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0


def walked(users: int, prompt: float, pieces: float, *, mixed: bool) -> Walk:
    """A closed loop whose steps are walked one by one.

    Answers are of geometric lengths, so that users do not march together. A prompt takes ``prompt`` seconds in
    ``pieces`` steps beside the answers, or all prompts that wait are read before the next step.
    """
    rng, queue, left = np.random.default_rng(1), deque((0.0, 0.0) for _ in range(users)), np.zeros(0, int)
    clock, walk = 0.0, Walk()
    for i in range(400 * OUTPUT):
        start, first, room = clock, [], 1 / pieces if mixed else np.inf
        while queue and room > 1e-12:
            came, part = queue.popleft()
            now = min(1 - part, room)
            room, clock = room - now, clock + now * prompt
            if part + now > 1 - 1e-12:
                first.append(came)
            else:
                queue.appendleft((came, part + now))
        end = clock if len(left) == 0 else clock + STEP
        if i > 40 * OUTPUT:
            walk.waits += [(end if mixed else clock) - came for came in first]
            walk.steps, walk.tokens = walk.steps + (len(left) > 0), walk.tokens + len(left)
            walk.seconds += len(left) * (end - start)
        clock = end
        going = left[left > 1] - 1
        queue.extend((clock, 0.0) for _ in range(len(left) - len(going)))
        left = np.concatenate([going, rng.geometric(1 / OUTPUT, len(first))])
    return walk


@pytest.mark.parametrize("mixed", [1.0, 0.0], ids=["mixed", "prompts first"])
@pytest.mark.parametrize(("prompt", "pieces"), [(0.5, 2.0), (0.5, 8.0), (0.1, 1.0), (0.02, 0.125)])
@pytest.mark.parametrize("users", [1, 2, 3, 8, 40])
def test_it_agrees_with_steps_that_are_walked(users: int, prompt: float, pieces: float, mixed: float) -> None:
    """From a single user to a reader that is always busy (40 users, 8 steps a prompt: 3.2 prompts for each token)."""
    walk = walked(users, prompt, pieces, mixed=mixed == 1.0)
    load = Load(concurrency=users, input=1000.0, output=float(OUTPUT), max_num_batched_tokens=1000 / pieces)
    loop = balance(
        PassTimes(STEP, prompt, prompt, prompt), float(users), prompt, np.inf, load, 1.0, Scheduling(mixed=mixed)
    )
    first, tpot = float(np.mean(walk.waits)), walk.seconds / walk.tokens
    assert users / loop.rate == pytest.approx(first + OUTPUT * tpot, rel=0.012)
    assert loop.tpot == pytest.approx(tpot, rel=0.025)
    # Walked users wait for whole steps: a prompt that begins in the middle of a budget ends with the step.
    assert loop.first == pytest.approx(first, rel=0.1)
    if users > 1:
        assert loop.decoding == pytest.approx(walk.tokens / walk.steps, rel=0.02)


@given(
    users=st.floats(1, 1e4), prompt=st.floats(1e-3, 10), pieces=st.floats(1e-2, 30), output=st.floats(10, 1e4),
    mixed=st.sampled_from([0.0, 1.0]),
)  # fmt: skip
def test_each_prompt_takes_its_time_of_every_user_once(
    users: float, prompt: float, pieces: float, output: float, mixed: float
) -> None:
    """T = N P + T_s t of a single group: prompts are read one by one, and all the rest is steps, however they mix."""
    load = Load(concurrency=users, input=1000.0, output=output, max_num_batched_tokens=1000 / pieces)
    s = Scheduling(mixed=mixed)
    loop = balance(PassTimes(STEP, prompt, prompt, prompt), users, prompt, np.inf, load, 1.0, s)
    steps = users / loop.rate - users * prompt
    own = reading_beside(PassTimes(STEP, prompt, prompt, prompt), users, mixed * pieces, load, s)
    waits = (loop.first - prompt - own) / (prompt + mixed * pieces * STEP)
    assert steps == pytest.approx((output + mixed * waits * pieces) * STEP + own, rel=1e-6)
    # No group reads more than its budget takes.
    if users >= 2:
        assert loop.rate * (prompt + mixed * pieces * STEP) <= 1 + 1e-6


@given(users=st.floats(1, 1e4), reading=st.floats(1e-6, 100), rest=st.floats(1, 1e5))
def test_a_queue_is_the_root_of_its_equation(users: float, reading: float, rest: float) -> None:
    queue = float(queue_of_users(users, reading, rest))
    whole = rest + (1 + queue) * reading
    assert users * reading <= whole * (1 + 1e-9)
    if users * reading < whole * (1 - 1e-9):
        assert queue == pytest.approx((users - 1) * reading / whole * (queue + 0.5), rel=1e-6, abs=1e-12)
    # Seen from the batch it is the same one.
    assume(users * reading < whole * (1 - 1e-6))
    output = rest / 1.1
    assert float(queue_of_batch(users * output / whole, reading, rest, output)) == pytest.approx(
        queue, rel=1e-3, abs=1e-9
    )


def test_a_queue_of_many_users_is_that_of_arrivals_at_random() -> None:
    """Pollaczek and Khinchine, for prompts of one length: half of the part of the time over what is left of it."""
    assert float(queue_of_users(1e6, 1e-2, 2e4)) == pytest.approx(0.5 * 0.5 / 0.5, rel=1e-3)
    assert queue_of_users(1.0, 1.0, 100.0) == 0


@pytest.mark.parametrize(("mixed", "ahead", "looks", "prompts"), [
    (1.0, 0.0, 1.0, 0.2 * (0.5 + 0.75)), (1.0, 1.0, 1.0, 0.2 * (1.5 + 0.75)), (0.0, 1.0, 1.0, 0.2 * 1.75),
    (0.0, 0.0, 10.0, 0.2 * 7.5), (0.0, 0.0, 1.0, 0.2 * 0.75),
])  # fmt: skip
def test_prompts_of_steps_that_are_decided_are_read_before(
    mixed: float, ahead: float, looks: float, prompts: float
) -> None:
    """0.1 prompts a token, two tokens a step; a prompt takes a quarter of a pass, the pass has room for three more."""
    s = Scheduling(mixed=mixed, ahead=ahead, acceptance=1.0)
    load = Load(concurrency=9.0, input=1.0, output=1.0, draft_tokens=1.0, looks=looks)
    assert read_before(0.0, 0.1, 0.5, load, s) == pytest.approx(prompts, rel=1e-6)
    assert read_before(3.0, 0.1, 2.0, load, s) == pytest.approx(3.0)


@given(
    users=st.floats(1, 2000), groups=st.sampled_from([1.0, 4.0]), prompt=st.floats(1e-3, 3), pieces=st.floats(0.01, 8),
    mixed=st.sampled_from([0.0, 1.0]), ahead=st.sampled_from([0.0, 1.0]), turns=st.sampled_from([1.0, 4.0]),
)  # fmt: skip
def test_a_search_finds_the_users_of_a_batch(
    users: float, groups: float, prompt: float, pieces: float, mixed: float, ahead: float, turns: float
) -> None:
    """The balance gives the batch of so many users; from that batch the search gives the users, and what they see."""
    s = Scheduling(mixed=mixed, ahead=ahead, lockstep=0.1, arrival=0.01)
    load = Load(concurrency=users, input=1000.0, output=500.0, max_num_batched_tokens=1000 / pieces, turns=turns)
    t = PassTimes(STEP, prompt, prompt, 0.9 * prompt)
    until = (0.5 + ahead) * STEP * min(max(users / groups - 1, 0), 1)
    loop = balance(t, users, s.arrival + prompt + until, np.inf, load, groups, s)
    # Where the reader is always busy, a batch has any number of users.
    assume((users >= groups and loop.rate / groups * pieces / turns * loop.tpot < 0.9) or not mixed)
    tpot, first, count = loop_of_batch(t, np.asarray(loop.decoding), load, np.asarray(groups), s)
    assert float(count) == pytest.approx(users, rel=0.01)
    assert float(tpot) == pytest.approx(float(loop.tpot), rel=0.01)
    assert float(first) == pytest.approx(float(loop.first), rel=0.02)


def test_who_waits_for_a_burst_or_for_the_server_is_in_no_step() -> None:
    """Of N users N O / T_s are in a step: T_s has what a burst reads before, and what the server's process holds up."""
    load = Load(concurrency=20.0, input=1000.0, output=100.0, max_num_batched_tokens=100.0)
    t, s = PassTimes(STEP, 0.01, 0.01, 0.01), Scheduling(queueing=0.25)
    calm, burst = (balance(t, 20.0, 0.01, np.inf, load, 1.0, s, prompts) for prompts in (0.0, 8.0))
    # Ten tokens a prompt; half of the requests come in bursts, in place of what they wait for otherwise.
    queue = float(queue_of_users(20.0, 10.0, 100.0))
    more = 8 - 0.5 * queue
    assert 0 < more < 8
    assert calm.decoding == pytest.approx(20 * 100 / (100 + 10 * (1 + queue)))
    assert burst.decoding == pytest.approx(20 * 100 / (100 + 10 * (1 + queue + more)))
    assert burst.first - calm.first == pytest.approx(burst.burst) == pytest.approx(more * (0.01 + 10 * STEP))
    assert calm.beside - burst.beside == pytest.approx(more)
    slow = balance(t, 20.0, 0.01, 2.0, load, 1.0, s)
    assert slow.rate == 2
    waited = (20 / 2 - 20 / calm.rate) / slow.tpot
    assert slow.decoding == pytest.approx(20 * 100 / (100 + 10 * (1 + queue) + waited))
