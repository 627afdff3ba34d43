"""The train of batches: a real serving loop on a timetable under Poisson arrivals, against waits of t / 2 and 2 t."""

from __future__ import annotations

from collections import deque
from time import perf_counter, sleep

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.lab.budget import TimeLimit
from rackmath.lab.decode import Subject, own
from rackmath.lab.experiment import Experiment, ExperimentCurve
from rackmath.lab.machine import Machine, synchronise, timed
from rackmath.lab.networks import NetworkSizes

Array = NDArray[np.float64]

SIZES = NetworkSizes(layers=4, hidden=512, heads=8, kv_heads=2, inner=1408, vocabulary=4096)
_CONTEXT = 256
_SLACK = 1.25
"""Period over the 90th percentile of a pass: a train that is late now and then can catch up."""
_SHORTEST = 5e-3
"""Of a period; the clock and the sleep of an operating system are good to a tenth of a millisecond. [s]"""
_AT = np.linspace(0.02, 0.98, 49)


def experiment(
    machine: Machine,
    budget: TimeLimit,
    *,
    seats: int = 16,
    load: float = 0.5,
    seed: int = 0,
) -> Experiment:
    """Run the loop.

    Parameters
    ----------
    seats : int
        Sequences that a train takes: the batch of a pass.
    load : float
        Arrivals over seats, below 1. [1]
    budget : TimeLimit
        A tenth of it finds the timetable, in the rest the trains run.

    Errors: :class:`InputError` for a load that no timetable can carry.
    """
    start = perf_counter()
    if not 0 < load < 1:
        raise InputError("--load", load, "write a number above 0 and below 1")
    subject = own(SIZES, machine.device)
    pass_time, period = _timetable(subject, machine, seats, budget.each(5, 2.0))
    seconds = max(budget.left, 2 * period)
    budget.say(f"trains every {period * 1e3:.1f} ms for {seconds:.3g} s")
    arrivals = _poisson(load * seats / period, seconds, seed)
    wait, total, late, departures = run(subject, machine, seats, period, arrivals)
    facts = {
        "period": period,
        "pass": pass_time,
        "requests": len(total),
        "trains": departures,
        "late_trains": late,
        "mean_wait_over_period": float(wait.mean() / period),
        "worst_over_period": float(total.max() / period),
        "beyond_two_periods": float((total > 2 * period).mean()),
        "mean_seats_taken": len(total) / departures,
    }
    return Experiment(
        name="train-departs",
        title="the train of batches",
        machine=machine,
        curves=[
            ExperimentCurve(
                panel="wait for the train, by share of requests",
                name="wait",
                across="share of requests",
                up="s",
                x=list(_AT),
                measured=list(np.quantile(wait, _AT)),
                predicted=list(_AT * period),
                log_across=False,
                log_up=False,
            ),
            ExperimentCurve(
                panel="from arrival to token, by share of requests",
                name="wait and pass",
                across="share of requests",
                up="s",
                x=list(_AT),
                measured=list(np.quantile(total, _AT)),
                predicted=list(_AT * period + pass_time),
                log_across=False,
                log_up=False,
            ),
        ],
        facts=facts,
        findings=[
            f"A train of {seats} seats leaves every {period * 1e3:.1f} ms: {departures:,} trains, {late} of them late.",
            f"{len(total):,} requests waited {wait.mean() / period:.2f} periods in the mean; uniform arrivals between "
            "two trains wait half a period.",
            f"The slowest request took {total.max() / period:.2f} periods from arrival to token; the lecture's worst "
            f"case is 2, which {(total > 2 * period).mean():.1%} exceeded.",
        ],
        seconds=perf_counter() - start,
    )


def run(
    subject: Subject, machine: Machine, seats: int, period: float, arrivals: Array
) -> tuple[Array, Array, int, int]:
    """Waits and times from arrival to token, by request; late trains, and all trains. [s]"""
    work = subject.pass_of("decode", seats, _CONTEXT)
    arrival_queue, waiting = deque(arrivals.tolist()), deque[float]()
    wait: list[float] = []
    total: list[float] = []
    start, train, late = perf_counter(), 0, 0
    while arrival_queue or waiting:
        train += 1
        due = start + train * period
        early = due - perf_counter()
        if early > 0:
            sleep(early)
        late += early < 0
        departs = perf_counter() - start
        while arrival_queue and arrival_queue[0] <= departs:
            waiting.append(arrival_queue.popleft())
        aboard = [waiting.popleft() for _ in range(min(seats, len(waiting)))]
        work()
        synchronise(machine.device)
        seconds = perf_counter() - start
        wait += [departs - request for request in aboard]
        total += [seconds - request for request in aboard]
    return np.array(wait), np.array(total), late, train


def _timetable(subject: Subject, machine: Machine, seats: int, seconds: float) -> tuple[float, float]:
    """Time of a pass, and the period that carries it."""
    time = timed(subject.pass_of("decode", seats, _CONTEXT), machine.device, repeats=15, seconds=seconds)
    return time.median, max(_SLACK * time.high, _SHORTEST)


def _poisson(rate: float, seconds: float, seed: int) -> Array:
    """Times of arrival within so many seconds, sorted."""
    random = np.random.default_rng(seed)
    count = random.poisson(rate * seconds)
    return np.sort(random.uniform(0.0, seconds, max(int(count), 1)))
