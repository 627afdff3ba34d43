"""Micro-batches of a pipeline: each is a replica, and the others leave no stage before one that reads a prompt."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rackmath.io.machine_code import code_folder
from rackmath.serving.simulator.code import compiled_code, python_code
from rackmath.serving.simulator.run import simulate
from rackmath.serving.simulator.settings import Batching, Fleet
from rackmath.serving.simulator.times import StepTimes
from rackmath.serving.simulator.workload import Arrivals, users

TOKEN, STEP = 1e-3, 0.1
BATCHING = Batching(max_num_seqs=4, max_num_batched_tokens=4000, memory=1 << 20)
FLEET = Fleet(router="round-robin")


def times(turns: int) -> StepTimes:
    """A decode step of a tenth of a second, a prompt of a thousandth for each of its tokens."""
    table = np.full(5, STEP)
    table[0] = 0.0
    return StepTimes(
        base=table, slope=np.zeros(5), prompt=TOKEN * np.arange(4001.0), pair=0.0, error=0.0, turns=turns
    )  # fmt: skip


def arrivals(at: list[float], prompts: list[int], answers: list[int]) -> Arrivals:
    """Requests by their lengths."""
    return Arrivals(
        arrival=np.array(at), prompt=np.array(prompts, np.int32), output=np.array(answers, np.int32),
        rank=np.zeros(len(at), np.int32),
    )  # fmt: skip


@pytest.mark.parametrize("turns", [1, 2, 4])
def test_an_answer_waits_for_the_prompt_of_another_micro_batch(turns: int) -> None:
    """A prompt of a second is read from 2.05 on: the step that begins at 2.1 ends a turn after it, not at 2.2."""
    work = arrivals([0.0, 2.05], [100, 1000], [101, 1])
    outcome = simulate(work, times(turns), batching=BATCHING, fleet=replace(FLEET, replicas=turns if turns > 1 else 2))
    finish = outcome.requests["finish"]
    alone = 0.1 + 100 * STEP
    delay = 0.0 if turns == 1 else 2.05 + 1.0 + STEP / turns - 2.2
    assert finish[0] == pytest.approx(alone + delay)
    assert finish[1] == pytest.approx(3.05)


@pytest.mark.parametrize("turns", [2, 4])
def test_micro_batches_that_all_read_finish_a_prompt_every_turn(turns: int) -> None:
    count = 12 * turns
    work = arrivals([0.0] * count, [4000] * count, [1] * count)
    outcome = simulate(work, times(turns), batching=BATCHING, fleet=replace(FLEET, replicas=turns))
    assert np.sort(outcome.requests["first"]) == pytest.approx(4.0 + 4.0 / turns * np.arange(count), rel=1e-9)


@pytest.mark.parametrize("turns", [1, 2, 4])
@pytest.mark.parametrize("length", [4000, 8000, 13000, 36000])
def test_pieces_of_a_prompt_follow_each_other_through_the_stages(turns: int, length: int) -> None:
    """One leaves the first stage when it has taken its part of a pass; the last one leaves all of them."""
    outcome = simulate(
        arrivals([0.0], [length], [1]), times(turns), batching=BATCHING, fleet=replace(FLEET, replicas=turns)
    )
    whole, rest = divmod(length - 1, 4000)
    # The rest is in each stage when all before it have left that stage.
    expected = whole * 4.0 / turns + (4.0 * (turns - 1) / turns if whole else 0.0)
    expected += (rest + 1) * TOKEN / (turns if whole else 1)
    assert outcome.requests["first"][0] == pytest.approx(expected)


@pytest.mark.parametrize("turns", [2, 4])
def test_long_prompts_are_read_in_the_order_of_their_arrival(turns: int) -> None:
    """Each takes all turns of the stages until its last piece has begun; the next one's pieces follow at once."""
    count, pieces = 3 * turns, 6
    work = arrivals([0.01 * i for i in range(count)], [4000 * pieces] * count, [1] * count)
    outcome = simulate(work, times(turns), batching=BATCHING, fleet=replace(FLEET, replicas=turns))
    ends = 4.0 / turns * (pieces * np.arange(1, count + 1) + turns - 1)
    assert outcome.requests["first"] == pytest.approx(ends, rel=1e-6)


@pytest.mark.parametrize("turns", [2, 4])
def test_more_users_read_no_slower(turns: int) -> None:
    """Prompts that leave a little of a step, in which the next one begins: all micro-batches go on reading theirs."""
    rates = []
    for people in (turns, 2 * turns, 8 * turns):
        work = users(people, 40 * turns, np.full(40 * turns, 3900, np.int32), np.full(40 * turns, 1, np.int32))
        outcome = simulate(work, times(turns), batching=BATCHING, fleet=replace(FLEET, replicas=turns))
        rates.append(40 * turns / outcome.end)
    assert rates[0] == pytest.approx(turns / 3.9, rel=0.1)
    assert rates[1] > 0.97 * rates[0]
    assert rates[2] > 0.97 * rates[1]


@pytest.mark.parametrize("turns", [2, 4])
def test_answers_take_part_in_one_turn_of_each_round(turns: int) -> None:
    """Of a prompt in 12 pieces each of 4 s: rounds of 4 s in which both answers get a token, here and elsewhere."""
    prompts, answers = [100] * turns + [48000], [400] * turns + [1]
    work = arrivals([0.0] * turns + [2.05], prompts, answers)
    outcome = simulate(work, times(turns), batching=BATCHING, fleet=replace(FLEET, replicas=turns))
    first, finish = outcome.requests["first"][-1], outcome.requests["finish"][:turns]
    # Tokens of answers take room in the pieces: one more is needed where they do.
    reading = (12 + turns - 1) / turns * 4.0
    assert first == pytest.approx(2.1 + reading, rel=0.05)
    free = 0.1 * np.arange(1, turns + 1) / turns + 399 * STEP
    delay = reading - reading / 4.0 * STEP
    assert finish - free == pytest.approx(delay, rel=0.12)


def test_other_pipelines_do_not_wait() -> None:
    """Of four replicas two and two are pipelines: the prompt of the fourth holds up the third alone."""
    work = arrivals([0.0, 0.0, 0.0, 2.05], [100, 100, 100, 1000], [101, 101, 101, 1])
    finish = simulate(work, times(2), batching=BATCHING, fleet=replace(FLEET, replicas=4)).requests["finish"]
    assert finish[1] - finish[0] == pytest.approx(STEP / 2)
    assert finish[2] - finish[0] > 0.8


def test_machine_code_says_the_same() -> None:
    draw = np.random.default_rng(3)
    work = arrivals(
        np.sort(draw.uniform(0, 60, 200)).tolist(),
        draw.integers(1, 4000, 200).tolist(),
        draw.integers(1, 60, 200).tolist(),
    )
    forms = (python_code(), compiled_code(str(code_folder())))
    by_form = [
        simulate(work, times(4), batching=BATCHING, fleet=replace(FLEET, replicas=8), code=code) for code in forms
    ]
    assert by_form[0].requests["finish"].tolist() == by_form[1].requests["finish"].tolist()
