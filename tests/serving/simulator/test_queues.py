"""Known queues, within what chance allows: M/D/1, M/M/1, batch service, Little's law, the train's 2 t, the steady state."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from rackmath.engine import Layout
from rackmath.engine.timer import engine_timer
from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.io.machine_code import code_folder
from rackmath.serving.load import Load, Scheduling
from rackmath.serving.simulator import Batching, Failures, Fleet, StepTimes, workload
from rackmath.serving.simulator import simulate as python_simulate
from rackmath.serving.simulator.code import compiled_code
from rackmath.serving.simulator.deployment import deploy
from rackmath.serving.simulator.outcome import request_times, spread
from rackmath.serving.startup.memory import EngineStart
from rackmath.serving.steady import closed_loop

MANY = 200_000

# Means of queues take long runs.
simulate = partial(python_simulate, code=compiled_code(str(code_folder())))


def flat(service: float, max_num_seqs: int, step: float = 0.0, budget: int = 8192) -> StepTimes:
    """Reading takes the same whatever the prompts, decoding the same whatever the batch."""
    return StepTimes(
        base=np.concatenate(([0.0], np.full(max_num_seqs, step))),
        slope=np.zeros(max_num_seqs + 1),
        prompt=np.concatenate(([0.0], np.full(budget, service))),
        pair=0.0,
        error=0.0,
    )


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_m_d_1(load: float) -> None:
    """One seat, prompts of one length, answers of one token: W = rho S / (2 (1 - rho))."""
    random = np.random.default_rng(1)
    work = workload.plain(
        workload.gamma_arrivals(load, 1.0, MANY, random), np.full(MANY, 100, np.int32), np.ones(MANY, np.int32)
    )
    q = simulate(work, flat(1.0, 1), batching=Batching(max_num_seqs=1)).requests
    wait = (q["admitted"] - q["arrival"]).mean()
    assert wait == pytest.approx(load / (2 * (1 - load)), rel=0.03)


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_m_m_1(load: float) -> None:
    """Answers of exponential length: W = rho S / (1 - rho)."""
    random = np.random.default_rng(2)
    output = np.maximum(np.round(random.exponential(1000, MANY)), 1).astype(np.int32) + 1
    work = workload.plain(workload.gamma_arrivals(load / 1000, 1.0, MANY, random), np.ones(MANY, np.int32), output)
    q = simulate(work, flat(1e-6, 1, step=1.0), batching=Batching(max_num_seqs=1)).requests
    wait = (q["admitted"] - q["arrival"]).mean()
    assert wait == pytest.approx(1000 * load / (1 - load), rel=0.05)


def test_batch_service() -> None:
    """Up to b prompts are read at once in a fixed time: the queue left behind is a Markov chain, solved here."""
    rate, b, size = 3.2, 4, 400
    random = np.random.default_rng(3)
    work = workload.plain(
        workload.gamma_arrivals(rate, 1.0, MANY, random), np.full(MANY, 10, np.int32), np.ones(MANY, np.int32)
    )
    q = simulate(work, flat(1.0, b), batching=Batching(max_num_seqs=b)).requests
    # Arrivals during one service, and the queue it leaves: max(n - b, 0) + arrivals; from an empty queue one begins.
    arrivals = np.exp(-rate) * np.cumprod(np.concatenate(([1.0], rate / np.arange(1, size))))
    chain = np.zeros((size, size))
    for n in range(size):
        begins = max(n, 1)
        left = max(begins - b, 0)
        chain[n, left:] = arrivals[: size - left]
    chain[:, -1] += 1 - chain.sum(1)
    law = np.full(size, 1 / size)
    for _ in range(2000):
        law = law @ chain
    served = sum(p * min(max(n, 1), b) for n, p in enumerate(law))
    # A cycle is a service, and before it an idle time of 1 / rate where nobody was left.
    cycle = 1 + law[0] / rate
    assert len(q) / q["finish"].max() == pytest.approx(served / cycle, rel=0.01)
    # Waiting by Little: those who wait, over time, over the rate. During a service left ones and half of the new ones.
    waiting = sum(p * max(max(n, 1) - b, 0) for n, p in enumerate(law)) + rate / 2
    expected = waiting / cycle / rate
    assert (q["admitted"] - q["arrival"]).mean() == pytest.approx(expected, rel=0.03)


def test_little_s_law() -> None:
    """Running ones over time are the sum of their stays."""
    random = np.random.default_rng(4)
    count = 5000
    work = workload.plain(
        workload.gamma_arrivals(5.0, 1.5, count, random),
        workload.lengths(300, 0.5, count, random),
        workload.lengths(100, 0.5, count, random),
    )
    found = simulate(work, flat(0.01, 64, step=0.02), batching=Batching(max_num_seqs=64))
    q = found.requests
    assert found.replicas.own["batch"].sum() == pytest.approx((q["finish"] - q["first"]).sum(), rel=1e-9)


def test_the_train_s_worst_case_is_two_periods() -> None:
    random = np.random.default_rng(5)
    count = 5000
    work = workload.plain(
        workload.gamma_arrivals(200.0, 1.0, count, random), np.full(count, 10, np.int32), np.ones(count, np.int32)
    )
    batching = Batching(policy="fixed-interval", period=0.1, max_num_seqs=512)
    q = simulate(work, flat(0.05, 512, step=0.05), batching=batching).requests
    times = q["first"] - q["arrival"]
    assert times.max() <= 0.2
    assert times.max() > 0.19
    assert times.mean() == pytest.approx(0.15, rel=0.02)


@pytest.mark.parametrize(("name", "tensor"), [("llama-3.1-8b", 1), ("llama-3.1-70b", 4)])
@pytest.mark.parametrize(
    ("users", "prompt", "answer"), [(1, 1000, 200), (8, 1000, 200), (32, 1000, 500), (128, 2000, 300)]
)
def test_a_closed_loop_meets_the_steady_state(name: str, tensor: int, users: int, prompt: int, answer: int) -> None:
    """Throughput within 2 %, time per token within 3: lengths of some spread, since equal ones march in step."""
    random = np.random.default_rng(6)
    model, system, layout = catalogue.model(name), catalogue.system("h100-sxm"), Layout(tensor=tensor)
    timer = engine_timer(model, system, None)
    count = max(100 * users, 600)
    work = workload.users(
        users, count, workload.lengths(prompt, 0.2, count, random), workload.lengths(answer, 0.5, count, random)
    )
    batching = Batching(max_num_seqs=users, share=0.8)
    one = deploy(model, system, layout, timer, batching, work, EngineStart(family="", tokens=8192.0))
    found = simulate(work, one.times, batching=replace(batching, memory=one.memory), kv_bytes=one.kv_bytes)
    q, start, stop = found.requests, 0.3 * found.end, 0.7 * found.end
    rate = ((q["finish"] > start) & (q["finish"] <= stop)).sum() / (stop - start)
    steady = closed_loop(
        model, system, layout, Load(concurrency=float(users), input=float(prompt), output=float(answer)), timer,
        Scheduling(interruption=0.8, queueing=0.0),
    )  # fmt: skip
    assert rate == pytest.approx(float(steady.requests_per_second), rel=0.02)
    inside = (q["arrival"] > start) & (q["arrival"] < stop)
    per_token = (q["finish"] - q["first"])[inside].sum() / (work.output[inside] - 1).sum()
    assert per_token == pytest.approx(float(steady.time_per_output_token), rel=0.03)


def test_percentiles_lie_in_their_confidence() -> None:
    random = np.random.default_rng(7)
    covered = 0
    for _ in range(200):
        found = spread(random.exponential(1.0, 1000))
        assert found is not None
        low, high = found.confidence["p90"]
        assert low <= found.p90 <= high
        covered += low <= np.log(10) <= high
    # 95 % of 200, within four standard deviations of chance.
    assert 178 <= covered <= 200
    assert spread(np.array([np.nan])) is None


def test_times_count_from_when_users_sent() -> None:
    work = workload.plain(np.array([0.0, 0.5]), np.array([10, 10]), np.array([3, 1]))
    found = simulate(work, flat(0.1, 4, step=0.2), batching=Batching(max_num_seqs=4))
    times = request_times(found, 0.01, work.output)
    assert times.first == pytest.approx([0.11, found.requests["first"][1] - 0.5 + 0.01])
    assert times.per_token[0] == pytest.approx((found.requests["finish"][0] - found.requests["first"][0]) / 2)
    assert np.isnan(times.per_token[1])


def test_intervals_of_percentiles_hold_for_requests_that_share_a_queue() -> None:
    """M/M/1 at 80 % load, whose times in the system are exponential: 95 % intervals over 400 runs."""
    load, runs, count = 0.8, 400, 16_000
    random = np.random.default_rng(5)
    wait = random.exponential(1 / (1 - load), runs) * (random.random(runs) < load)
    times = np.empty((count, runs))
    for k in range(count):
        service = random.exponential(1.0, runs)
        times[k] = wait + service
        wait = np.maximum(wait + service - random.exponential(1 / load, runs), 0)
    for name, p in (("p50", 0.5), ("p90", 0.9)):
        true = -np.log(1 - p) / (1 - load)
        inside = narrow = 0
        for k in range(runs):
            found = spread(times[:, k])
            assert found is not None
            inside += found.confidence[name][0] <= true <= found.confidence[name][1]
            alone = spread(random.permutation(times[:, k]))
            assert alone is not None
            narrow += alone.confidence[name][0] <= true <= alone.confidence[name][1]
        assert 0.9 <= inside / runs <= 0.99, (name, inside)
        assert narrow / runs < 0.6, "the same without the order: independent requests would need no stretches"


def test_intervals_of_independent_values_are_those_of_order_statistics() -> None:
    random = np.random.default_rng(6)
    for name, p in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        inside = 0
        for _ in range(400):
            found = spread(random.exponential(1.0, 5000))
            assert found is not None
            inside += found.confidence[name][0] <= -np.log(1 - p) <= found.confidence[name][1]
        assert 0.92 <= inside / 400 <= 0.995, (name, inside)


@pytest.mark.parametrize(
    ("people", "think", "outside", "output"),
    [
        (1, 0.0, 0.5, 1),
        (1, 0.0, 0.5, 20),
        (7, 0.0, 0.5, 20),
        (8, 3.0, 0.25, 5),
        (8, 3.0, 0.0, 5),
    ],
)
def test_people_of_a_closed_loop_obey_littles_law(people: int, think: float, outside: float, output: int) -> None:
    """X (R + Z) = N: nobody asks again before his answer has arrived."""
    cycles = 200
    many = cycles * people
    prompts, answers = np.full(many, 100, np.int32), np.full(many, output, np.int32)
    work = workload.users(people, many, prompts, answers, think_time=think)
    found = simulate(work, flat(0.1, 16, step=0.05), batching=Batching(max_num_seqs=16, outside=outside))
    times = request_times(found, outside, work.output)
    rate = len(work) / (float(np.nanmax(found.requests["finish"])) + outside + think)
    assert rate * (float(np.mean(times.whole)) + think) == pytest.approx(people, rel=0.01)


def test_users_share_one_list_of_requests() -> None:
    """Answers of 100 and of 10 tokens: who has the short ones sends many more, and no user ends long before another."""
    answers = np.where(np.arange(60) % 2, 10, 100).astype(np.int32)
    answers[0] = 2000
    work = workload.users(2, 60, np.full(60, 100, np.int32), answers)
    q = simulate(work, flat(0.001, 2, step=0.01), batching=Batching(max_num_seqs=2)).requests
    assert np.all(np.diff(q["arrival"]) >= 0)
    # While the first is written the other user has some thirty pairs of answers.
    assert (q["arrival"] < q["finish"][0]).sum() > 30
    assert np.sort(q["finish"])[-2] > q["finish"].max() - 1.5


def test_a_lone_server_that_fails_loses_the_time_of_its_repair() -> None:
    """One server, one request after the other: as much time is lost as failures times their repair, and re-reading."""
    count, repair = 2000, 7.0
    arrival = np.zeros(count)
    work = workload.plain(arrival, np.full(count, 100, np.int32), np.ones(count, np.int32))
    plain = simulate(work, flat(1.0, 1), batching=Batching(max_num_seqs=1))
    failing = Fleet(failures=Failures(between=40.0, repair=repair))
    found = simulate(work, flat(1.0, 1), batching=Batching(max_num_seqs=1), fleet=failing)
    assert plain.end == pytest.approx(count)
    assert found.failures == pytest.approx(count / 40, rel=0.5)
    lost = found.end - plain.end - found.failures * repair
    # At each failure at most the step that was under way is done again.
    assert -1e-6 <= lost <= found.failures * 1.0 + 1e-6


def test_a_server_that_fails_before_it_has_read_a_prompt_is_refused() -> None:
    work = workload.plain(np.zeros(3), np.full(3, 100, np.int32), np.full(3, 50, np.int32))
    failing = Fleet(failures=Failures(between=1e-3, repair=1.0))
    with pytest.raises(InputError, match="no request ended"):
        simulate(work, flat(50.0, 1, step=1.0), batching=Batching(max_num_seqs=1), fleet=failing)
