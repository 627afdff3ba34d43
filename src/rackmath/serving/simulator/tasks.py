"""Tasks whose requests wait for each other: when they begin, how long they take, and what they wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rackmath.serving.simulator.graph import I8, F, graph_of
from rackmath.serving.simulator.run import Outcome
from rackmath.serving.simulator.workload import I4, Arrivals, checked, numbered


def first_requests(work: Arrivals) -> I8:
    """First request of each task, which waits for nobody of its own task. (tasks,)"""
    assert work.task is not None, "the workload has tasks"
    return np.unique(work.task, return_index=True)[1]


def beginning_at(work: Arrivals, begins: F) -> Arrivals:
    """Tasks that begin by themselves.

    Parameters
    ----------
    begins : array
        In ascending order. (tasks,) [s]
    """
    arrival = work.arrival.copy()
    arrival[first_requests(work)] = begins
    return checked(replace(work, arrival=arrival))


def of_users(work: Arrivals, begins: F, pause: F) -> Arrivals:
    """Tasks of users, each of whom begins another when all requests of his last one have ended.

    Parameters
    ----------
    begins : array
        Of each user's first task. (users,) [s]
    pause : array
        Of a user after each task. (tasks,) [s]
    """
    assert work.task is not None, "the workload has tasks"
    assert work.graph is not None, "requests of tasks wait for each other"
    g, first, users = work.graph, first_requests(work), len(begins)
    last = np.flatnonzero(np.diff(g.start) == 0)
    last = last[work.task[last] + users < len(first)]
    next_task = work.task[last] + users
    arrival = work.arrival.copy()
    arrival[first] = np.nan
    arrival[first[:users]] = begins
    graph = graph_of(
        len(work),
        np.concatenate((g.source, last)),
        np.concatenate((g.to.astype(np.int64), first[next_task])),
        np.concatenate((g.delay, pause[work.task[last]])),
        np.concatenate((g.dispatch, np.zeros(len(last), np.bool_))),
    )
    return checked(replace(work, arrival=arrival, graph=graph))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tasks:
    """By task, in the order in which they begin; times along the path of requests that made it as long as it was."""

    begins: F
    """[s]"""
    whole: F
    """From its first request to the end of its last one: the sum of the next three. [s]"""
    service: F
    """While a request of its path was read or answered. [s]"""
    queueing: F
    """While a request of its path waited to be. [s]"""
    tools: F
    """While the path waited for tools or people. [s]"""
    requests: I4
    prompt: F
    """[tokens]"""
    output: F
    """[tokens]"""
    cached_tokens: F
    """Tokens of its prompts that caches had. [tokens]"""


def task_times(work: Arrivals, outcome: Outcome, outside: float) -> Tasks:
    """What became of each task.

    Parameters
    ----------
    outside : float
        Time of a request outside of the engine. [s]
    """
    assert work.task is not None, "the workload has tasks"
    q, first = outcome.requests, first_requests(work)
    ends, queueing = q["finish"] + outside, q["admitted"] - q["arrival"]
    service = ends - q["admitted"]
    before, dispatch, tools = _binding(work, q["arrival"], ends)
    # What the path of a request did before it was sent.
    counts = (before >= 0) & ~dispatch
    past = [np.where(counts, values[before], 0.0) for values in (service, queueing)]
    service_before, queueing_before, tools = _along(before, (*past, tools))
    order = np.lexsort((ends, work.task))
    last = order[np.append(np.flatnonzero(np.diff(work.task[order])), len(order) - 1)]
    count = len(first)
    return Tasks(
        begins=q["arrival"][first],
        whole=ends[last] - q["arrival"][first],
        service=service_before[last] + service[last],
        queueing=queueing_before[last] + queueing[last],
        tools=tools[last],
        requests=np.bincount(work.task, minlength=count).astype(np.int32),
        prompt=np.bincount(work.task, work.prompt, count).astype(np.float64),
        output=np.bincount(work.task, work.output, count).astype(np.float64),
        cached_tokens=np.bincount(work.task, q["hit"], count).astype(np.float64),
    )


def _binding(work: Arrivals, arrival: F, ends: F) -> tuple[I8, NDArray[np.bool_], F]:
    """Of each request the one of its task that allowed it last, by being sent or by ending, and the time from then.

    Returns
    -------
    array
        Request, -1 for a task's first one. (requests,)
    array
        Whether it was that one's sending. (requests,)
    array
        [s]
    """
    g, task = work.graph, work.task
    assert task is not None, "the workload has tasks"
    before = np.full(len(work), -1, np.int64)
    dispatch, tools = np.zeros(len(work), np.bool_), np.zeros(len(work))
    if g is None:
        return before, dispatch, tools
    source, within = g.source, task[g.source] == task[g.to]
    source, to, delay, at_dispatch = source[within], g.to[within], g.delay[within], g.dispatch[within]
    moment = np.where(at_dispatch, arrival[source], ends[source])
    # The last one written is the one that allowed it last.
    order = np.lexsort((moment + delay, to))
    before[to[order]], dispatch[to[order]] = source[order], at_dispatch[order]
    waits = before >= 0
    tools[waits] = arrival[waits] - np.where(dispatch, arrival[before], ends[before])[waits]
    return before, dispatch, tools


def _along(before: I8, values: Sequence[F]) -> list[F]:
    """Sums of values over a request and all before it on its path: paths are halved until each has one member."""
    sums, before = [value.copy() for value in values], before.copy()
    while (before >= 0).any():
        has_parent = before >= 0
        for total in sums:
            total[has_parent] += total[before[has_parent]]
        before[has_parent] = before[before[has_parent]]
    return sums


def prefix_reuse(work: Arrivals, outcome: Outcome) -> dict[str, float]:
    """Where the blocks were that an endless cache would have found: share of each tier; ``recomputed`` is the rest.

    Such blocks of a prompt are those that a request which came before it names, in its prompt or its answer.
    """
    order = np.argsort(outcome.requests["arrival"], kind="stable")
    counts = np.diff(work.start)[order]
    answers = (
        np.zeros(len(work), np.int64) if work.answer_blocks is None else work.answer_blocks[order].astype(np.int64)
    )
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    names = work.blocks[np.repeat(work.start[:-1][order], counts) + within]
    again = np.ones(len(names), np.bool_)
    numbers, count = numbered(names)
    first = np.empty(count, np.int64)
    # Of equal names the last that is written stays, which is the first that came.
    first[numbers[::-1]] = np.arange(len(names))[::-1]
    again[first] = False
    again &= within < np.repeat(np.minimum(counts - answers, work.prompt[order] // work.block), counts)
    total = int(again.sum())
    if not total:
        return {}
    shares = {tier: float(blocks.sum()) / total for tier, blocks in outcome.hit_blocks.items()}
    return shares | {"recomputed": max(1 - sum(shares.values()), 0.0)}
