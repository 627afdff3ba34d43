"""Calls of a model as traces of agents tell them, and the workload that they make."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

import numpy as np

from rackmath.errors import InputError
from rackmath.serving.simulator.graph import graph_of
from rackmath.serving.simulator.workload import Arrivals


@dataclass(frozen=True, slots=True)
class Wait:
    """What a call waits for."""

    name: str
    """Another call."""
    delay: float = 0.0
    """[s]"""
    dispatch: bool = False
    """Whether the delay counts from when the other is sent; else from its end."""


@dataclass(slots=True, kw_only=True)
class Call:
    """A call of a model within a task."""

    name: str
    place: str
    """Where it stands in the file, for errors."""
    prompt: int
    """[tokens]"""
    output: int
    """[tokens]"""
    session: str
    """Whose context it goes on with."""
    task: str | None = None
    """None where calls that wait for each other make a task."""
    blocks: Sequence[Hashable] = ()
    """Names of the blocks of its prompt."""
    model: str = ""
    begins: float | None = None
    """When it is sent, of calls that wait for nobody; None for whenever its task begins. [s]"""
    waits: list[Wait] = field(default_factory=list[Wait])


def workload_of(calls: Sequence[Call], block: int) -> Arrivals:
    """Calls -> requests, task by task in the order in which these begin, each after those that it waits for.

    A task has one request that waits for nobody, its first. Tasks that the trace gives no time begin at no time.

    An answer's blocks are those with which the next prompt of its session goes on, where that prompt begins with this
    one's whole blocks and is long enough to have the answer behind them.

    Parameters
    ----------
    block : int
        Tokens of a named block. [tokens]

    Errors: :class:`InputError` for no calls, and for those that wait for unknown ones or in a circle.
    """
    if not calls:
        raise InputError("--trace", "0 requests", "the trace of agents holds none")
    place_of = {call.name: k for k, call in enumerate(calls)}
    if len(place_of) < len(calls):
        again = next(call for k, call in enumerate(calls) if place_of[call.name] != k)
        raise InputError(f"{again.place}: request_id", again.name, "is there twice: every call has a name of its own")
    for call in calls:
        for wait in call.waits:
            if wait.name not in place_of:
                raise InputError(f"{call.place}: request to wait for", wait.name, "is no request of this trace")
    tasks = _tasks(calls, place_of)
    _one_beginning(calls, tasks)
    order = _order(calls, place_of, tasks)
    place = np.empty(len(calls), np.int64)
    place[order] = np.arange(len(calls))
    sorted_calls = [calls[k] for k in order]
    edges = [(int(place[place_of[w.name]]), int(place[place_of[c.name]]), w) for c in sorted_calls for w in c.waits]
    answers = _answers(calls, place_of, block)
    prefixes = [(*call.blocks, *answers.get(call.name, ())) for call in sorted_calls]
    number: dict[Hashable, int] = {}
    models = sorted({call.model for call in calls})
    has_models = len(models) > 1
    return Arrivals(
        arrival=np.array([np.nan if c.waits or c.begins is None else c.begins for c in sorted_calls]),
        prompt=np.array([c.prompt for c in sorted_calls], np.int32),
        output=np.array([c.output for c in sorted_calls], np.int32),
        rank=np.zeros(len(calls), np.int32),
        start=np.concatenate(([0], np.cumsum([len(prefix) for prefix in prefixes]))).astype(np.int64),
        blocks=np.array([number.setdefault(b, len(number)) for prefix in prefixes for b in prefix], np.int64),
        answer_blocks=np.array([len(answers.get(c.name, ())) for c in sorted_calls], np.int32),
        block=block,
        graph=graph_of(
            len(calls),
            np.array([source for source, _, _ in edges], np.int64),
            np.array([to for _, to, _ in edges], np.int64),
            np.array([wait.delay for _, _, wait in edges], np.float64),
            np.array([wait.dispatch for _, _, wait in edges], np.bool_),
        ),
        task=np.array([tasks[k] for k in order], np.int32),
        service=np.array([models.index(c.model) for c in sorted_calls], np.int32) if has_models else None,
        names=tuple(models) if has_models else (),
    )


def _tasks(calls: Sequence[Call], task_of: Mapping[str, int]) -> list[int]:
    """Task of each call, numbered in the order in which tasks begin, then as they stand in the file."""
    root = list(range(len(calls)))

    def find(k: int) -> int:
        while root[k] != k:
            root[k] = root[root[k]]
            k = root[k]
        return k

    heads: dict[str, int] = {}
    for k, call in enumerate(calls):
        for wait in call.waits:
            root[find(task_of[wait.name])] = find(k)
        if call.task is not None:
            root[find(heads.setdefault(call.task, k))] = find(k)
    members = [find(k) for k in range(len(calls))]
    begins: dict[int, float] = {}
    stands: dict[int, int] = {}
    for k, call in enumerate(calls):
        if not call.waits:
            begins[members[k]] = min(begins.get(members[k], np.inf), call.begins or 0.0)
        stands.setdefault(members[k], k)
    order = sorted(stands, key=lambda task: (begins.get(task, 0.0), stands[task]))
    number = {task: n for n, task in enumerate(order)}
    return [number[task] for task in members]


def _one_beginning(calls: Sequence[Call], tasks: Sequence[int]) -> None:
    """Let the other calls of a task that wait for nobody be sent so long after its first one."""
    first: dict[int, Call] = {}
    for call, task in zip(calls, tasks, strict=True):
        earlier = first.get(task)
        if not call.waits and (earlier is None or (call.begins or 0.0) < (earlier.begins or 0.0)):
            first[task] = call
    for call, task in zip(calls, tasks, strict=True):
        if not call.waits and call is not first[task]:
            later = (call.begins or 0.0) - (first[task].begins or 0.0)
            call.waits.append(Wait(first[task].name, later, dispatch=True))


def _order(calls: Sequence[Call], task_of: Mapping[str, int], tasks: Sequence[int]) -> list[int]:
    """Calls task by task, each after those that it waits for."""
    sorter = TopologicalSorter({k: [task_of[w.name] for w in call.waits] for k, call in enumerate(calls)})
    try:
        order = list(sorter.static_order())
    except CycleError as error:
        circle = [calls[k] for k in error.args[1]]
        names = " after ".join(call.name for call in circle[:4])
        raise InputError(f"{circle[0].place}: requests to wait for", names, "wait for each other: cut one") from error
    order.sort(key=lambda k: tasks[k])
    return order


def _answers(calls: Sequence[Call], task_of: Mapping[str, int], block: int) -> dict[str, Sequence[Hashable]]:
    """Blocks of each answer, by call, as the prompt that goes on with it names them."""
    answers: dict[str, Sequence[Hashable]] = {}
    for after in calls:
        for wait in after.waits:
            before = calls[task_of[wait.name]]
            if wait.dispatch or before.session != after.session or before.name in answers:
                continue
            first, last = before.prompt // block, (before.prompt + before.output - 1) // block
            goes_on = after.prompt >= before.prompt + before.output and len(after.blocks) >= last
            if goes_on and list(after.blocks[:first]) == list(before.blocks[:first]):
                answers[before.name] = after.blocks[first:last]
    return answers
