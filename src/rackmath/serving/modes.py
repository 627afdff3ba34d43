"""What a provider sells: fast, standard and slow, read off the frontier of one system.

The standard point is the cheapest that writes a usual speed to each user. Where speed and cost trade one for one lies
elsewhere on every system, often so near the latency floor that nothing is 2.5 times as fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from rackmath.engine import Losses
from rackmath.engine.timer import engine_timer
from rackmath.errors import DoesNotFit, InputError
from rackmath.hardware import System
from rackmath.serving.choice import frontier
from rackmath.serving.engines import micro_batch_tokens
from rackmath.serving.load import Scheduling
from rackmath.serving.points import Points
from rackmath.serving.prompts import reading_time
from rackmath.serving.search import SearchResult, search
from rackmath.serving.workload import Limits, PlanWorkload, Space

SPEEDUP = 2.5
"""Of fast modes on price pages (Claude fast mode, February 2026): "up to 2.5x"."""

STANDARD = 50.0
"""Speed of the standard, as of ``compare``. [tokens/s]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """One way to be faster, and what it costs."""

    name: str
    reached: float
    """Speed over the standard's, at most the one asked for or the fastest there is. [1]"""
    price: float
    """Accelerator time per token over the standard's, at that speed. [1]"""
    place: int | None
    """Place among the points of the full search, where it is one of them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Modes:
    """Result of :func:`modes`."""

    search: SearchResult
    standard: int
    fast: int | None
    """Cheapest point of the speed asked for; None where no deployment is that fast."""
    slow: int
    """Point of most throughput: the cost floor."""
    fastest: int
    """Point of most speed: the latency floor."""
    saved_by_waiting: float
    """Part of the standard's cost that the cost floor is below it: what is left to amortise. [1]"""
    reread: float
    """Accelerator time of reading an interrupted request again, over that of a request. [1]"""

    def ratio(self, place: int) -> tuple[float, float]:
        """Speed and accelerator time per token of a point, over the standard's. [1], [1]"""
        return _ratio(self.search.points, place, self.search.points, self.standard)


def modes(
    system: System,
    work: PlanWorkload,
    limits: Limits,
    space: Space,
    losses: Losses | None,
    scheduling: Scheduling,
    *,
    speedup: float = SPEEDUP,
    speed: float = STANDARD,
) -> Modes:
    """Find the points that a provider would sell as fast, standard and slow.

    Parameters
    ----------
    system, work, limits, space, losses, scheduling
        As in :func:`~rackmath.serving.search.search`; the limit on the first token holds
        for all points, the limit on output tokens for none.
    speedup : float
        Speed of the fast mode over the standard's. [1]
    speed : float
        Speed of the standard. [tokens/s]

    Errors: :class:`DoesNotFit` where nothing fits, or no point reaches ``speed``.
    """
    if not 1 < speedup < 1000:
        raise InputError("speedup", speedup, "write a factor above 1")
    search_result = search(system, work, limits, space, losses, scheduling)
    p = search_result.points
    places = frontier(p, limits)
    if not len(places):
        raise DoesNotFit(
            f"no deployment reads a prompt within {limits.time_to_first_token:g} s", "allow a longer --ttft"
        )
    standard = _standard(p, places, speed)
    target = p.time_per_output_token[standard] / speedup
    fast = [int(i) for i in places if p.time_per_output_token[i] <= target]
    slow, fastest_place = int(places[-1]), int(places[0])
    best_place = max(fast, key=lambda i: p.per_gpu[i]) if fast else None
    return Modes(
        search=search_result,
        standard=standard,
        fast=best_place,
        slow=slow,
        fastest=fastest_place,
        saved_by_waiting=1 - float(p.per_gpu[standard] / p.per_gpu[slow]),
        reread=_reread(system, work, space, losses, search_result, standard),
    )


def _standard(p: Points, places: np.ndarray, speed: float) -> int:
    if not 0 < speed < np.inf:
        raise InputError("--speed", speed, "write a positive number of tokens per second")
    quick = [int(i) for i in places if 1 / p.time_per_output_token[i] >= speed]
    if not quick:
        most = 1 / float(p.time_per_output_token[places].min())
        raise DoesNotFit(
            f"no deployment writes {speed:g} tokens per second; the fastest writes {most:.3g}", "ask for less --speed"
        )
    return max(quick, key=lambda i: p.per_gpu[i])


def _ratio(p: Points, place: int, of: Points, standard: int) -> tuple[float, float]:
    return (
        float(of.time_per_output_token[standard] / p.time_per_output_token[place]),
        float(of.per_gpu[standard] / p.per_gpu[place]),
    )


def levers(
    system: System,
    work: PlanWorkload,
    limits: Limits,
    space: Space,
    losses: Losses | None,
    s: Scheduling,
    state: Modes,
    *,
    speedup: float = SPEEDUP,
) -> Iterator[Lever]:
    """Open one choice after the other: what the speed costs with what has been opened.

    Arguments as of :func:`modes`, whose result ``state`` is.
    """
    result, standard = state.search, state.standard
    p = result.points
    target = p.time_per_output_token[standard] / speedup
    variant = space.variants[int(p.variant[standard])]
    fixed_space = replace(space, variants=(variant,), draft_tokens=(float(p.draft_tokens[standard]),))
    drafting = replace(fixed_space, draft_tokens=space.draft_tokens)
    faster = replace(system, chip=replace(system.chip, memory_bandwidth=2 * system.chip.memory_bandwidth))
    deployment = _deployment(result, standard)
    questions: Mapping[str, tuple[System, Space]] = {
        "a smaller batch": (system, fixed_space),
        "and other parallelism": (system, fixed_space),
        "and speculative decoding": (system, drafting),
        "and other formats": (system, space),
        "and twice the memory bandwidth": (faster, space),
    }
    last_question, with_lever = (system, space), result
    for name, question in questions.items():
        # One search answers the first two, the search of ``state`` all formats.
        if question != last_question:
            last_question, (on, choices) = question, question
            with_lever = result if question == (system, space) else search(on, work, limits, choices, losses, s)
        q = with_lever.points
        inside = np.flatnonzero(q.time_to_first_token <= limits.time_to_first_token)
        if name == "a smaller batch":
            inside = np.array(
                [i for i in inside if _deployment(with_lever, int(i)) == deployment],
                dtype=np.int64,
            )
        quick = inside[q.time_per_output_token[inside] <= target]
        fastest_place = (
            int(quick[np.argmax(q.per_gpu[quick])])
            if len(quick)
            else int(inside[np.argmin(q.time_per_output_token[inside])])
        )
        speed_ratio, price = _ratio(q, fastest_place, p, standard)
        yield Lever(name=name, reached=speed_ratio, price=price, place=fastest_place if with_lever is result else None)


def _deployment(search: SearchResult, place: int) -> tuple[str, bool]:
    """Layout that writes answers, and whether it reads prompts too.

    Workers that only read are as many as keep up: a smaller batch of the writers takes fewer.
    """
    p = search.points
    return search.layouts[int(p.layout[place])].text(), bool(p.prefill[place] < 0)


def _reread(
    system: System, work: PlanWorkload, space: Space, losses: Losses | None, search: SearchResult, standard: int
) -> float:
    """Reading a request that was interrupted halfway, over all its accelerator time. [1]"""
    p = search.points
    reader = int(p.prefill[standard] if p.prefill[standard] >= 0 else p.layout[standard])
    layout = search.layouts[reader]
    piece = micro_batch_tokens(space.engine)
    timer = engine_timer(space.variants[int(p.variant[standard])].architecture, system, losses, piece=piece)
    again = PlanWorkload(input=work.input + work.output / 2, output=work.output)
    chunk = float(p.chunk[standard])
    _, full, _ = reading_time(layout, again.input, again.input - again.read, chunk, timer, piece=piece)
    gpu_seconds = float(full) * float(layout.gpus) / float(layout.data)
    return gpu_seconds * float(p.per_gpu[standard])
