"""Users of two pools who wait for their answers: both pools run anew until requests are sent when answers end.

Each pool runs by itself, the second with what the first has read, so that neither knows when the other's users ask
again. But what happens before a moment depends only on what was sent before it: each run is right for one answer longer
than the one before, at least, so that what stays as it is, is the one course that there is (waveform relaxation).
Source: Lelarasmee, Ruehli and Sangiovanni-Vincentelli 1982, for circuits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.serving.simulator.deployment import PoolResults
from rackmath.serving.simulator.graph import Graph
from rackmath.serving.simulator.workload import Arrivals

F = NDArray[np.float64]
I8 = NDArray[np.int64]

MOST_ROUNDS = 100
"""Requests of each user up to which runs are repeated. [requests]"""
_RUNS, _MORE_RUNS = 10, 50
"""Runs for each request of a user, and beyond them: as many as the shortest answers of all that time would follow each
other, of which a mean one takes a few."""
_CLOSE = 1e-6
"""Time by which a request may be sent otherwise than its user says. [s]"""


def in_loop(
    work: Arrivals, run: Callable[[Arrivals], PoolResults], progress: Callable[[int], None] = lambda count: None
) -> PoolResults:
    """Serve users who share a list of requests, each of whom sends the next one when his last has ended.

    Parameters
    ----------
    run : callable
        Both pools, of requests with times.
    progress : callable
        Told how many runs there were.

    Errors: :class:`InputError` for other graphs, for more rounds than ``MOST_ROUNDS``, and for a course that does not
    settle.
    """
    graph = work.graph
    if graph is None or not graph.in_order:
        raise InputError(
            "--prefill-gpus", "sessions", "two pools take traces, open arrivals, and --users without --turns"
        )
    is_first = graph.indegree == 0
    users, rounds = int(is_first.sum()), len(work) / max(int(is_first.sum()), 1)
    if rounds > MOST_ROUNDS:
        most = users * MOST_ROUNDS
        way_out = f"users of two pools send up to {MOST_ROUNDS} each: give at most {most:,}, or --poisson for --users"
        raise InputError("--requests", len(work), way_out)
    send_times = _guess(work, is_first, run)
    for count in range(int(_RUNS * rounds) + _MORE_RUNS):
        order = np.argsort(send_times, kind="stable")
        results = _back(run(_taken(work, send_times, order)), order)
        progress(count + 1)
        moments = _moments(work, graph, is_first, results.decode.requests["finish"])
        if np.max(np.abs(moments - send_times), initial=0.0) <= _CLOSE:
            return results
        send_times = moments
    raise InputError("--users", users, "users of two pools do not settle: give fewer --requests, or --poisson")


def _guess(work: Arrivals, is_first: NDArray[np.bool_], run: Callable[[Arrivals], PoolResults]) -> F:
    """Times at which requests would be sent, were all rounds as the first: where to begin. (requests,) [s]"""
    order = np.flatnonzero(is_first)
    first = run(_taken(work, np.where(is_first, work.arrival, 0.0), order)).decode.requests["finish"]
    number = np.arange(len(work))
    return np.where(is_first, work.arrival, number // len(order) * float(first.mean()))


def _moments(work: Arrivals, graph: Graph, is_first: NDArray[np.bool_], finish: F) -> F:
    """When requests are sent if answers end so: the first at their own times, the others as users come. [s]"""
    send_times = work.arrival.copy()
    send_times[~is_first] = np.sort(finish[graph.source] + graph.delay)
    return send_times


def _taken(work: Arrivals, send_times: F, order: I8) -> Arrivals:
    """Some requests, in an order, at times of their own."""
    start, blocks = work.start, work.blocks
    if len(start):
        count = np.diff(start)[order]
        begin = np.concatenate(([0], np.cumsum(count)))
        places = np.arange(int(begin[-1])) + np.repeat(start[:-1][order] - begin[:-1], count)
        start, blocks = begin, blocks[places]
    return replace(
        work, arrival=send_times[order], prompt=work.prompt[order], output=work.output[order], rank=work.rank[order],
        start=start, blocks=blocks, graph=None,
    )  # fmt: skip


def _back(results: PoolResults, order: I8) -> PoolResults:
    """Results in the order of the list."""
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return PoolResults(
        prefill=replace(results.prefill, requests=results.prefill.requests[back]),
        decode=replace(results.decode, requests=results.decode.requests[back]),
    )
